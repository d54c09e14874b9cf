"""How often the right node is named: random faults of one node planted in published models.

Faults are planted one at a time (tests/support/planted_faults.py); those that move no output beyond
its limit do not fail and are counted, not searched. A search is right when the node with the fault
is among those it names, and exact when it is the only one; one that says it is a bracket blames
nobody.

    python benchmarks/localise_faults.py [--models NAME …] [--faults 34] [--seed 1] [--json FILE]
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# ruff: noqa: E402 - the tests' models are not installed
import numpy as np
import onnx
from localise_step import POLICY, judged_pair

from ci_parity.base.progress import SilentProgress
from ci_parity.config import load
from ci_parity.records.divergence import Divergence
from ci_parity.records.outcome import Outcome
from ci_parity.run.environments import cache_folder
from ci_parity.stages.localising.boundary import BoundarySearch
from tests.integration.support.published_models import PublishedModel, published_models
from tests.support.planted_faults import Planted, named, plant

BARS = ("magika", "silero-vad", "ppocr6-det", "ppocr6-rec", "ppocr-cls", "nudenet")
_TRIES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """One planted fault and what the search made of it; `seconds` are the search's own."""

    model: str
    kind: str
    node: str
    conclusion: str
    right: bool
    named: tuple[str, ...]
    tried: int
    seconds: float


def main() -> None:
    """Plant, search, print a line for each fault and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(BARS))
    parser.add_argument("--faults", type=int, default=34)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: list[Searched] = []
    for model in published_models():
        if model.name not in options.models:
            continue
        random_ = random.Random(options.seed)  # noqa: S311 - seeded draws
        with tempfile.TemporaryDirectory() as scratch:
            for one in _searched(model, options.faults, random_, Path(scratch)):
                found.append(one)
                print(f"{'right' if one.right else 'WRONG'} {one.model} {one.kind} {one.node}: "
                      f"{one.conclusion} {', '.join(one.named[:4])} ({len(one.named)}), "
                      f"{one.tried} runs, {one.seconds:.1f} s", flush=True)  # fmt: skip
    _total(found)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))


def _searched(
    model: PublishedModel, count: int, random_: random.Random, folder: Path
) -> Iterator[Searched]:
    good = named(onnx.load(model.path))
    base = folder / "good.onnx"
    onnx.save(good, base)
    feeds: dict[str, Any] = dict(model.cases[0])
    np.savez(folder / "inputs.npz", **feeds)
    seen: set[tuple[str, str]] = set()
    effective = silent = 0
    for _ in range(count * _TRIES):
        planted = plant(good, random_)
        if planted is None or (planted.kind, planted.node) in seen:
            continue
        seen.add((planted.kind, planted.node))
        onnx.save(planted.model, folder / "bad.onnx")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            found = _search(folder, Path(scratch))
        if found is None:
            silent += 1
            continue
        yield _scored(model.name, planted, *found)
        effective += 1
        if effective == count:
            break
    print(f"== {model.name}: {effective} faults that fail, {silent} that do not", flush=True)


def _search(folder: Path, scratch: Path) -> tuple[Divergence, float] | None:
    """Return what a diff's search names, None where the two models pass or nothing can run."""
    judged, inputs, calibrator = judged_pair(folder, scratch, cache_folder())
    if judged.outcome is not Outcome.FAIL:
        return None
    start = time.perf_counter()
    with SilentProgress().step("", 0) as step:
        search = BoundarySearch(
            judged=judged, inputs=inputs, policy=POLICY, calibrator=calibrator,
            folder=scratch / "search", budget=load.localise({}), step=step, explain=False,
        )  # fmt: skip
        return search.divergence(), time.perf_counter() - start


def _scored(model: str, planted: Planted, found: Divergence, seconds: float) -> Searched:
    names = tuple((node.origin or node.name).rpartition("/")[2] for node in found.nodes)
    return Searched(
        model=model, kind=planted.kind, node=planted.node, conclusion=found.conclusion.value,
        right=planted.node in names, named=names, tried=found.tried, seconds=seconds,
    )  # fmt: skip


def _total(found: list[Searched]) -> None:
    for model in dict.fromkeys(one.model for one in found):
        own = [one for one in found if one.model == model]
        right, exact = sum(o.right for o in own), sum(o.right and len(o.named) == 1 for o in own)
        print(f"{model}: right {right} of {len(own)}, exact {exact}, "
              f"median {np.median([o.tried for o in own]):.0f} runs, "
              f"{np.median([o.seconds for o in own]):.1f} s")  # fmt: skip
    right = sum(one.right for one in found)
    print(f"all: right {right} of {len(found)} ({right / max(len(found), 1):.1%}), "
          f"{Counter(one.conclusion for one in found)}")  # fmt: skip
    for one in found:
        if not one.right:
            print(f"wrong: {one}")


if __name__ == "__main__":
    main()
