"""How well the calibrated tolerance tells rounding from faults: the figures of docs/calibration.md.

On published models and on the corpus of real faults, through the product's own code: harmless
changes (releases of onnxruntime, optimization levels, threads, OpenVINO, tract) against planted
faults (one weight scaled by a thousandth or a ten-thousandth), beside `numpy.allclose` and
Polygraphy at their defaults. Also printed: what other limits, numbers of seeds and least floors
would change, and what a perturbed run costs against a plain one. Some 30 minutes on two idle cores;
packages come from the package index, models and environments are kept in the caches.

    python benchmarks/calibration.py [--models NAME …] [--draws 25] [--no-corpus] [--converted]
                                     [--json FILE]
"""

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# ruff: noqa: E402 - the tests' models and cases are not installed
import numpy as np
from calibration_scores import IN_FORCE, Comparison, Peers
from calibration_systems import FACTORS, SETTINGS, Cost, Study, corpus_comparisons
from calibration_tools import Tools

from ci_parity.compare.noise import ELEMENT_LIMIT, GROUP_LIMIT, STEP_LIMIT
from tests.corpus.catalogue import cases
from tests.integration.support.published_models import PublishedModel, published_models

# The bars: catch 95 % of x1.001 and 70 % of x1.0001 on these models, and flag nothing harmless.
BARS = ("magika", "silero-vad", "ppocr6-det", "ppocr6-rec", "ppocr-cls", "nudenet")
FACTORS_OF_LIMIT = (0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
QUANTILES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
CONVERSIONS = (
    ("qdq", "ort.quantize_static 1.32.0", {"quant_format": "QDQ", "per_channel": True}),
    ("qoperator", "ort.quantize_static 1.32.0", {"quant_format": "QOperator"}),
    ("dynamic", "ort.quantize_dynamic 1.32.0", {}),
    ("float16", "float16 1.16.0", {"keep_io_types": True}),
)
CONVERTED = ("magika", "ppocr-cls", "nudenet", "silero-vad-half", "ppocr6-rec")


def main() -> None:
    """Run what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", help="these published models; all unless given")
    parser.add_argument("--draws", type=int, default=25, help="faulty weights of each model")
    parser.add_argument("--no-corpus", action="store_true", help="leave the corpus out")
    parser.add_argument("--converted", action="store_true", help="also int8 and float16 copies")
    parser.add_argument("--json", type=Path, help="write every comparison to a file")
    options = parser.parse_args()
    found: list[Comparison] = []
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="ci-parity-calibration-") as scratch:
        folder = Path(scratch)
        peers, tools = Peers(folder), Tools(folder)
        for model in published_models():
            if options.models is None or model.name in options.models:
                measure(model, folder, peers, options.draws, found, costs)
        if options.converted:
            for model in converted(folder, tools, options.models):
                measure(model, folder, peers, 0, found, [])
        if not options.no_corpus:
            (folder / "corpus").mkdir()
            for seen in corpus_comparisons(list(cases()), folder / "corpus", peers, tools):
                found.append(seen)
                say(f"{seen.kind}: {seen.subject}: {seen.verdict}")
    if options.json:
        text = json.dumps(
            {"found": [asdict(c) for c in found], "costs": [asdict(c) for c in costs]}
        )
        options.json.write_text(text, encoding="utf-8")
    report(found, costs)


def measure(
    model: PublishedModel, folder: Path, peers: Peers, draws: int, found: list[Comparison],
    costs: list[Cost],
) -> None:  # fmt: skip
    """Add the comparisons and the cost of one model."""
    study = Study(model=model, folder=folder / model.name, peers=peers)
    before = len(found)
    found.extend(study.compare(draws))
    costs.extend([study.cost] if study.cost else [])
    shutil.rmtree(study.folder)
    flagged = sum(c.flagged for c in found[before:] if c.kind == "harmless")
    say(f"{model.name}: {len(found) - before} comparisons, {flagged} harmless ones flagged")
    for note in study.notes:
        say(f"  {note[:300]}")


def converted(folder: Path, tools: Tools, names: Sequence[str] | None) -> Iterable[PublishedModel]:
    """Yield int8 and float16 copies of some models, quantized on the inputs they are run with."""
    for model in published_models():
        if model.name not in (CONVERTED if names is None else names):
            continue
        stored = []
        for number, feeds in enumerate(model.cases):
            stored.append(folder / f"{model.name}-{number}.npz")
            np.savez(stored[-1], **feeds)
        for kind, tool, options in CONVERSIONS:
            name = f"{model.name} {kind}"
            path = folder / f"{model.name}-{kind}.onnx"
            failure = tools.convert(tool, model.path, path, options, stored)
            if failure:
                say(f"{name}: cannot be made: {failure.splitlines()[-1][:200]}")
            else:
                yield PublishedModel(name=name, path=path, cases=model.cases)


# Tables.


def report(found: Sequence[Comparison], costs: Sequence[Cost]) -> None:
    """Print every table."""
    today = dt.datetime.now(dt.UTC).date()
    say(f"\n{today}, {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    say(f"limits: whole {GROUP_LIMIT:g} (steps {STEP_LIMIT:g}), element {ELEMENT_LIMIT:g}")
    say(f"floors: {IN_FORCE}")
    models = list(dict.fromkeys(c.subject for c in found if not c.kind.startswith("corpus")))
    if models:
        by_model(found, models)
        distributions(found)
        by_limit(found)
        by_setting(found)
        fixed_tolerances(found)
    against_peers(found)
    corpus(found)
    table(
        "Cost: a perturbed run against a plain one, one thread",
        ("model", "plain ms", "perturbed ms", "ratio"),
        [
            (c.subject, f"{c.plain_ms:.1f}", f"{c.twin_ms:.1f}", f"{c.twin_ms / c.plain_ms:.1f}")
            for c in costs
        ],
    )


def by_model(found: Sequence[Comparison], models: Sequence[str]) -> None:
    """Print how much of the limits harmless changes use, and what faults are caught."""
    rows = []
    for name in models:
        mine = [c for c in found if c.subject == name]
        harmless = of_kind(mine, "harmless")
        worst = max(harmless, key=lambda c: c.score.used, default=None)
        if worst is None:
            continue
        faults = [of_kind(mine, f"x{factor}") for factor in FACTORS]
        rows.append(
            (
                name, f"{sum(c.flagged for c in harmless)} of {len(harmless)}",
                str(sum(c.differs for c in harmless)), f"{worst.score.used:.2f}",
                f"{max(c.score.whole for c in harmless):.2f}",
                f"{max(c.score.element for c in harmless):.2f}", worst.what,
                *(f"{sum(c.flagged for c in some)} of {len(some)}" for some in faults),
                *(least_caught(some) for some in faults),
                str(len({c.what for some in faults for c in some if not c.differs})),
            )
        )  # fmt: skip
    head = (
        "model", "harmless flagged", "that differ", "worst used", "whole", "element", "worst pair",
        "x1.001 caught", "x1.0001 caught", "x1.001 least", "x1.0001 least", "no effect",
    )  # fmt: skip
    table("Published models, in parts of the limits", head, rows)
    said: dict[tuple[str, str, str], list[Comparison]] = {}
    for c in found:
        if c.kind == "divergent" or (c.kind == "harmless" and c.verdict != "pass"):
            said.setdefault((c.subject, c.kind, c.note), []).append(c)
    for (subject, kind, note), some in said.items():
        where = some[0].what + (f" and {len(some) - 1} more" if some[1:] else "")
        say(f"{kind}: {subject}, {where}: {some[0].verdict}; {note}")


def least_caught(some: Sequence[Comparison]) -> str:
    """Say the smallest scores of faults with any effect, in parts of the limits."""
    scores = sorted(c.score.used for c in some if c.differs)
    return ", ".join(f"{score:.2g}" for score in scores[:3])


def distributions(found: Sequence[Comparison]) -> None:
    """Print quantiles of the whole-output score, in noise floors."""
    rows = []
    for kind in ("harmless", "noise", *(f"x{factor}" for factor in FACTORS)):
        some = [c for c in of_kind(found, kind) if plain(c)]
        for name, values in (
            ("whole", [c.score.whole * GROUP_LIMIT for c in some]),
            ("element", [c.score.element * ELEMENT_LIMIT for c in some]),
        ):
            if values:
                cells = (f"{value:.3g}" for value in np.quantile(values, QUANTILES))
                rows.append((kind, name, str(len(values)), *cells))
    head = ("kind", "score", "n", *(f"{100 * q:g} %" for q in QUANTILES))
    table("Scores of float32 models, in noise floors", head, rows)


def plain(comparison: Comparison) -> bool:
    """Whether a comparison is of a published model as it was published."""
    return " " not in comparison.subject and not comparison.kind.startswith("corpus")


def by_limit(found: Sequence[Comparison]) -> None:
    """Print error rates at other limits, both scaled alike and each alone."""
    rows = []
    for factor in FACTORS_OF_LIMIT:
        label = f"{GROUP_LIMIT * factor:g} / {ELEMENT_LIMIT * factor:g}"
        rows.append((label, *rates(found, lambda c, f=factor: c.score.used > f)))
    rows.append((f"{GROUP_LIMIT:g} / none", *rates(found, lambda c: c.score.whole > 1)))
    rows.append((f"none / {ELEMENT_LIMIT:g}", *rates(found, lambda c: c.score.element > 1)))
    table("Error rates by limit, whole / element", ("limits", *RATES), rows)


RATES = (
    "harmless flagged", "noise flagged", "x1.001 missed", "x1.0001 missed", "x1.001 missed, bars",
    "x1.0001 missed, bars",
)  # fmt: skip


def rates(found: Sequence[Comparison], flags) -> tuple[str, ...]:  # noqa: ANN001 - a predicate
    """Return the cells under `RATES`: what a rule flags of the float32 models."""
    some = [c for c in found if plain(c)]
    faults = [of_kind(some, f"x{factor}") for factor in FACTORS]
    barred = [[c for c in kind if c.subject in BARS] for kind in faults]
    cells = [part([flags(c) for c in of_kind(some, kind)]) for kind in ("harmless", "noise")]
    cells += [part([not flags(c) for c in kind]) for kind in (*faults, *barred)]
    return tuple(cells)


def part(answers: Sequence[bool | None]) -> str:
    """Write a count with its total and percentage."""
    known = [answer for answer in answers if answer is not None]
    return f"{sum(known)} of {len(known)} ({100 * np.mean(known):.1f} %)" if known else "-"


def by_setting(found: Sequence[Comparison]) -> None:
    """Print error rates with floors from other numbers of seeds and with other least floors."""
    rows = []
    for setting in sorted(SETTINGS, key=lambda s: (s.grain != IN_FORCE.grain, s.grain, s.seeds)):
        scored = [c for c in found if str(setting) in c.scores]

        def used(c: Comparison, key: str = str(setting)) -> float:
            return c.scores[key].used

        worst = max((used(c) for c in of_kind(scored, "harmless") if plain(c)), default=0.0)
        rows.append(
            (str(setting), f"{worst:.2f}", *rates(scored, lambda c, used=used: used(c) > 1))
        )
    head = ("floors", "worst harmless used", *RATES)
    table("Error rates by number of seeds and least floor", head, rows)


def against_peers(found: Sequence[Comparison]) -> None:
    """Print what the product and its peers make of the same arrays."""
    groups = [
        ("models of the bars, x1.001 caught", [c for c in of_kind(found, "x1.001") if barred(c)]),
        ("models of the bars, x1.0001 caught", [c for c in of_kind(found, "x1.0001") if barred(c)]),
        ("all models, x1.001 caught", of_kind(found, "x1.001")),
        ("all models, x1.0001 caught", of_kind(found, "x1.0001")),
        ("all models, harmless flagged", [c for c in of_kind(found, "harmless") if plain(c)]),
        ("converted models, harmless flagged",
         [c for c in of_kind(found, "harmless") if not plain(c)]),
        ("corpus, faults missed", of_kind(found, "corpus fault")),
        ("corpus, harmless flagged", of_kind(found, "corpus harmless")),
    ]  # fmt: skip
    rows = []
    for name, some in groups:
        sides = [
            [c.flagged for c in some], [c.ladder for c in some],
            [c.polygraphy for c in some], [c.allclose for c in some],
        ]  # fmt: skip
        if name.endswith("missed"):
            sides = [[None if flag is None else not flag for flag in side] for side in sides]
        rows.append((name, *(part(side) for side in sides)))
    table("Against peers", ("", "calibrated", "ladder", "Polygraphy", "numpy.allclose"), rows)


def fixed_tolerances(found: Sequence[Comparison]) -> None:
    """Print what any fixed rtol = atol would make of the float32 models, beside the product."""
    some = [c for c in found if plain(c)]
    least = max((c.fixed or 0.0 for c in of_kind(some, "harmless")), default=0.0)
    rows = [
        (f"{limit:.2g}", *rates(found, lambda c, limit=limit: (c.fixed or 0.0) > limit))
        for limit in sorted({1e-7, 1e-6, 1e-5, 1e-4, least})
    ]
    rows.append(("calibrated", *rates(found, lambda c: c.flagged)))
    table("Any fixed rtol = atol; the largest harmless one is among them", ("limit", *RATES), rows)


def barred(comparison: Comparison) -> bool:
    """Whether a comparison is of a model that the bars are set on."""
    return comparison.subject in BARS


def corpus(found: Sequence[Comparison]) -> None:
    """Print every case of the corpus."""
    rows = [
        (
            c.subject, c.kind.removeprefix("corpus "), c.verdict, f"{c.score.used:.3g}",
            f"{c.to_scale:.2g}",
            *("flagged" if flag else "" for flag in (c.polygraphy, c.allclose)),
        )
        for c in found if c.kind.startswith("corpus")
    ]  # fmt: skip
    head = ("case", "expected", "verdict", "used", "of scale", "Polygraphy", "numpy.allclose")
    table("Corpus", head, rows)
    for c in found:
        wrong = {"corpus fault": not c.flagged, "corpus harmless": c.verdict != "pass"}
        if wrong.get(c.kind):
            say(f"{c.kind}: {c.subject}: {c.verdict}; {c.note}")


def of_kind(found: Iterable[Comparison], kind: str) -> list[Comparison]:
    """Return the comparisons of a kind."""
    return [comparison for comparison in found if comparison.kind == kind]


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    if rows:
        say(f"\n{title}\n")
        for cells in (head, ["---"] * len(head), *rows):
            say(f"| {' | '.join(cells)} |")


def processor() -> str:
    """Return the name of the processor (Linux), else its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def say(line: str) -> None:
    """Print one line now."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
