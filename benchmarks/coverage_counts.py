"""What the standard's node tests show of several runtimes: the table of docs/coverage.md.

    python benchmarks/coverage_counts.py [--details NAME] [--candle-before OLD] [--candle NEW]

Runtimes from the package index get environments of their own in the cache folder. Candle's runners
are built by cargo (runtimes/candle/README.md) and left out where no program is named. What is known
of a runtime is taken from the cache. `--details` prints every test of one runtime, by its row's
name, that did not pass.
"""

import argparse
import collections
import json
import time
from collections.abc import Sequence
from pathlib import Path

from ci_parity.base.progress import PlainProgress
from ci_parity.config.systems import Target
from ci_parity.coverage.suite import suite_cases
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult
from ci_parity.run.environments import cache_folder
from ci_parity.stages.coverage.running import run_cases

PINNED = (
    "onnxruntime==1.32.0", "onnxruntime==1.29.0", "onnxruntime==1.26.0", "onnxruntime==1.20.1",
    "openvino==2026.4.1", "tract==0.23.9", "onnx==1.23.2",
)  # fmt: skip
OPENVINO_PROVIDER = ("onnxruntime-openvino==1.24.1", "OpenVINOExecutionProvider")
COLUMNS = (
    NodeOutcome.PASS, NodeOutcome.FAIL, NodeOutcome.REFUSED, NodeOutcome.CRASHED,
    NodeOutcome.TIMED_OUT, NodeOutcome.SKIPPED,
)  # fmt: skip


def main() -> None:
    """Run the suite on every runtime that is there, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--details", default="")
    parser.add_argument("--only", default="", help="part of a row's name")
    parser.add_argument("--candle", type=Path)
    parser.add_argument("--candle-before", type=Path)
    options = parser.parse_args()
    cases = suite_cases(cache_folder(), PlainProgress())
    print(f"| runtime | {' | '.join(one.value for one in COLUMNS)} | s |")
    print(f"| --- |{' ---: |' * (len(COLUMNS) + 1)}")
    for name, target in targets(options.candle_before, options.candle).items():
        if options.only not in name:
            continue
        start = time.perf_counter()
        results = run_cases(cases, target, cache=cache_folder(), progress=PlainProgress()).results
        print(row(name, results, time.perf_counter() - start), flush=True)
        if name == options.details:
            print_details(cases, results)


def targets(before: Path | None, after: Path | None) -> dict[str, Target]:
    """Return the targets by the names of their rows."""
    found = {name: Target(name="cpu", runtime=name) for name in PINNED}
    requirement, provider = OPENVINO_PROVIDER
    found[f"{requirement}, {provider}"] = Target(name="o", runtime=requirement, provider=provider)
    programs = {"candle-onnx 0.11.0": before, "candle-onnx 0.11.1": after}
    for name, program in programs.items():
        if program is not None:
            command = json.dumps([str(program.resolve())])
            found[name] = Target(name="candle", runtime=f"command:{command}")
    return found


def row(name: str, results: Sequence[NodeResult], seconds: float) -> str:
    """Return a row of the table."""
    counts = collections.Counter(result.outcome for result in results)
    numbers = " | ".join(str(counts[outcome]) for outcome in COLUMNS)
    return f"| {name} | {numbers} | {seconds:.0f} |"


def print_details(cases: Sequence[NodeCase], results: Sequence[NodeResult]) -> None:
    """Print what did not pass, and why."""
    for case, result in zip(cases, results, strict=True):
        if result.outcome is not NodeOutcome.PASS:
            print(f"{result.outcome.value:9} {case.id} {result.evidence[:300]}")


if __name__ == "__main__":
    main()
