"""The standard's node tests in worker processes, judged, against the bare loop in one process.

    python benchmarks/coverage_suite.py [ROUNDS]

Bare is one process that loads each model into the onnxruntime at hand and runs it on arrays that
lie in memory; nothing is compared. Ours starts workers, loads and runs each test there, brings the
outputs back as files, judges and deletes them. Both take all tests, alternately, in one run; the
best round of each counts. A last round of ours runs on an onnxruntime that aborts in one test: what
of the results differs is printed. Asked for are at most twice the bare loop, and one result.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ci_parity.base import process
from ci_parity.base.progress import SilentProgress
from ci_parity.config.systems import Target
from ci_parity.coverage.suite import suite_cases
from ci_parity.records.codec import to_json
from ci_parity.records.coverage import NodeCase, NodeResult
from ci_parity.run.environments import cache_folder
from ci_parity.stages.coverage.running import run_cases

ROOT = Path(__file__).resolve().parents[1]
FATED = "test_relu"
BARE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from ci_parity.run.workers.onnxruntime_worker import OnnxRuntime, wire
runtime = OnnxRuntime()
runtime.hello()
tasks = [(case, wire.feeds_of(case)) for case in json.load(open(sys.argv[2]))]
refused = 0
start = time.perf_counter()
for case, feeds in tasks:
    try:
        model = runtime.open(case)
        model.infer(model.prepare(feeds))
    except Exception:
        refused += 1
print(json.dumps([time.perf_counter() - start, refused]))
"""


def main() -> None:
    """Write the tests where they are not yet, run both, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    rounds = parser.parse_args().rounds
    start = time.perf_counter()
    cases = suite_cases(cache_folder(), SilentProgress())
    print(f"{len(cases)} tests, read or written in {time.perf_counter() - start:.1f} s")
    with tempfile.TemporaryDirectory() as scratch:
        tasks = Path(scratch) / "tasks.json"
        tasks.write_text(json.dumps([task(case) for case in cases]))
        bare_s, ours_s, results = [], [], ()
        for _ in range(rounds):
            bare_s.append(bare(tasks))
            start = time.perf_counter()
            results = ours(cases)
            ours_s.append(time.perf_counter() - start)
        print(f"bare loop  {min(bare_s):6.2f} s   of {', '.join(f'{s:.2f}' for s in bare_s)}")
        print(f"ours       {min(ours_s):6.2f} s   of {', '.join(f'{s:.2f}' for s in ours_s)}")
        print(f"ratio      {min(ours_s) / min(bare_s):6.2f}")
        fate = json.dumps({"aborts": [FATED]})
        fake = ROOT / "tests" / "fakes" / "dying_onnxruntime.py"
        command = json.dumps([sys.executable, "-I", "-B", str(fake), fate])
        broken = ours(cases, f"command:{command}")
        changed = [
            (after.case, after.outcome.value)
            for before, after in zip(results, broken, strict=True)
            if before.outcome is not after.outcome
        ]
        print(f"with one abort, {len(changed)} of {len(cases)} results differ: {changed[:5]}")


def ours(cases: Sequence[NodeCase], runtime: str = "current") -> tuple[NodeResult, ...]:
    """Run and judge all tests, whatever is known of them."""
    target = Target(name="cpu", runtime=runtime)
    ran = run_cases(cases, target, cache=cache_folder(), progress=SilentProgress(), anew=True)
    return ran.results


def task(case: NodeCase) -> dict[str, object]:
    """Return a test as a worker is asked to load and run it."""
    return {
        "model": str(case.model), "provider": "CPUExecutionProvider",
        "inputs": to_json(case.inputs), "input_folder": str(case.folder),
    }  # fmt: skip


def bare(tasks: Path) -> float:
    """Return the seconds of the bare loop."""
    done = process.run(
        [sys.executable, "-c", BARE, str(ROOT), str(tasks)],
        env=process.worker_environment(), timeout_s=600, cwd=tasks.parent,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.last_words)
    seconds, _ = json.loads(done.stdout.splitlines()[-1])
    return float(seconds)


if __name__ == "__main__":
    main()
