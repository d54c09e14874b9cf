"""How many signatures published models have, and how many of them node tests are evidence for.

A signature counts once, however many nodes ask for it, and as often as cases give a node other
sizes in words: of a model that is looked at on more cases there are more. So each line says on how
many. Counted are the model's graph alone, and then its graph with all of its cases.

    python benchmarks/coverage_models.py [--cache DIR] [MODEL ...]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# ruff: noqa: E402 - run from the project, installed or not
from ci_parity.base.progress import PlainProgress
from ci_parity.coverage.signatures import Sighting, used
from ci_parity.coverage.suite import suite_cases
from ci_parity.records.coverage import NodeCase, Signature
from ci_parity.run.environments import cache_folder
from ci_parity.stages.coverage.made import made_cases, reached_by
from ci_parity.stages.coverage.observing import sightings_with_cases
from ci_parity.stages.suite import write_inputs
from tests.integration.support.published_models import PublishedModel, published_models

MODELS = ("magika", "silero-vad", "ppocr6-det", "ppocr6-rec", "ppocr-cls", "nudenet")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("models", nargs="*", default=MODELS)
    given = parser.parse_args()
    cache = given.cache or cache_folder()
    suite = suite_cases(cache, PlainProgress())
    print("model | cases | signatures of the graph alone | with the cases | the standard's | made")
    for model in published_models():
        if model.name in given.models:
            print(" | ".join(_row(model, suite, cache)), flush=True)


def _row(model: PublishedModel, suite: Sequence[NodeCase], cache: Path) -> list[str]:
    alone = sightings_with_cases(model.path, None, progress=PlainProgress())
    with tempfile.TemporaryDirectory() as folder:
        cases = [(f"case{at}", feeds) for at, feeds in enumerate(model.cases)]
        inputs = write_inputs(cases, Path(folder) / "inputs", source="given")
        seen = sightings_with_cases(model.path, inputs, progress=PlainProgress())
    asked = _signatures(seen)
    made, reasons = made_cases(seen, suite, cache=cache, progress=PlainProgress())
    for signature, why in reasons:
        print(f"{model.name}: {signature.op_type}: {why}", file=sys.stderr)
    counts = (
        len(model.cases), len(_signatures(alone)), len(asked), len(reached_by(suite, asked)),
        len(reached_by([*suite, *made], asked)),
    )  # fmt: skip
    return [model.name, *map(str, counts)]


def _signatures(sightings: Sequence[Sighting]) -> list[Signature]:
    return [one.signature for one in used(sightings)]


if __name__ == "__main__":
    main()
