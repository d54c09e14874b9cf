"""What our worker costs beside the bare runtime: a suite of 200 cases, and the first result.

PP-OCRv6 detection on random images. Once both sessions are loaded, blocks of cases alternate
between our worker, asked as `check` asks it, and a bare loop of `session.run` in a process of its
own; then starting a worker up to its first result alternates with a script that does the same. What
writing the inputs takes, once for all systems of a run, is printed beside. Asked for are at most
1.15 times the bare loop and 1.5 times the bare script.

    python benchmarks/suite_overhead.py [--cases 200] [--size 320] [--starts 15] [--model FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# ruff: noqa: E402 - the tests' models are not installed
import numpy as np
import onnxruntime

from ci_parity.config.systems import Target
from ci_parity.records.observation import InputSet
from ci_parity.run.execute import Job, load, run_case, start
from ci_parity.run.protocol import Worker
from ci_parity.run.runtime import CURRENT, prepare
from ci_parity.stages.suite import write_inputs

BLOCK = 10
SUITE, FIRST = 1.15, 1.5
NAME = "x"
# Loads a model and runs ranges of an array of inputs, a line of two numbers each; answers seconds.
LOOP = """
import sys, time
import numpy as np, onnxruntime as ort
inputs = np.load(sys.argv[2], mmap_mode="r")
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
print("ready", flush=True)
for line in sys.stdin:
    first, last = map(int, line.split())
    cases = [np.array(inputs[number]) for number in range(first, last)]
    start = time.perf_counter()
    for case in cases:
        session.run(None, {"x": case})
    print(time.perf_counter() - start, flush=True)
"""
SCRIPT = """
import sys
import numpy as np, onnxruntime as ort
x = np.fromfile(sys.argv[2], np.float32).reshape(eval(sys.argv[3]))
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
for number, output in enumerate(session.run(None, {"x": x})):
    output.tofile(f"bare_{number}.bin")
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = job_of(options.model or detector(), folder)
        inputs, arrays = images(options.cases, options.size, folder)
        print(f"onnxruntime {onnxruntime.__version__}, {job.model.name}, {arrays[0].shape}")
        suite(job, inputs, arrays, folder)
        first_result(job, inputs, arrays[0].shape, folder, options.starts)


def detector() -> Path:
    """Return the published detector, downloaded where it is not there yet."""
    from tests.integration.support.published_models import published_models

    return next(one.path for one in published_models() if "det" in one.name.lower())


def job_of(model: Path, folder: Path) -> Job:
    """Return the job that runs a model on the onnxruntime at hand."""
    launch = prepare(CURRENT, cache=folder)
    return Job(launch=launch, model=model, target=Target(name="cpu"), timeout_s=120)


def images(count: int, size: int, folder: Path) -> tuple[InputSet, np.ndarray]:
    """Return random images as exchange files, and as one array."""
    chance = np.random.default_rng(0)
    arrays = chance.random((count, 1, 3, size, size), np.float32)
    np.save(folder / "inputs.npy", arrays)
    cases = ((f"case{number}", {NAME: one}) for number, one in enumerate(arrays))
    begun = perf_counter()
    inputs = write_inputs(cases, folder / "inputs", source="generated")
    print(f"writing the inputs of {count} cases: {perf_counter() - begun:.2f} s")
    return inputs, arrays


def suite(job: Job, inputs: InputSet, arrays: np.ndarray, folder: Path) -> None:
    """Alternate blocks of cases between our worker and a bare loop; the order changes each time."""
    out = folder / "outputs"
    out.mkdir()
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    with start(job, out, Path(inputs.folder)) as worker, bare_loop(job.model, folder) as bare:
        load(worker, job)
        sides: dict[str, Callable[[int, int], float]] = {
            "ours": lambda first, last: ours(worker, job, inputs, out, first, last), "bare": bare,
        }  # fmt: skip
        for side in sides.values():
            side(0, min(BLOCK, len(arrays)))
        for number, first in enumerate(range(0, len(arrays), BLOCK)):
            for name in sorted(sides, reverse=bool(number % 2)):
                spent[name].append(sides[name](first, min(first + BLOCK, len(arrays))))
    total = {name: round(sum(times), 2) for name, times in spent.items()}
    print(f"{len(arrays)} cases: {json.dumps(total)} s")
    # Of neighbours in time: on a machine that others use, the sums say more of them than of us.
    ratios = [a / b for a, b in zip(spent["ours"], spent["bare"], strict=True)]
    verdict("suite, the median of its blocks", statistics.median(ratios), SUITE)


def ours(worker: Worker, job: Job, inputs: InputSet, out: Path, first: int, last: int) -> float:
    """Run cases as `check` does; return the seconds that took."""
    begun = perf_counter()
    for number in range(first, last):
        run_case(worker, job, inputs.folder, inputs.cases[number], out, f"c{number}")
    return perf_counter() - begun


@contextmanager
def bare_loop(model: Path, folder: Path) -> Iterator[Callable[[int, int], float]]:
    """Start the bare loop; give what runs a range of cases there and returns its seconds."""
    argv = [sys.executable, "-c", LOOP, str(model), str(folder / "inputs.npy")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin, process.stdout
        assert back.readline() == "ready\n"

        def ran(first: int, last: int) -> float:
            to.write(f"{first} {last}\n")
            to.flush()
            return float(back.readline())

        yield ran
        to.close()


def first_result(
    job: Job, inputs: InputSet, shape: tuple[int, ...], folder: Path, starts: int
) -> None:  # fmt: skip
    """Alternate a worker's start to its first result with a script that does the same."""
    case = inputs.cases[0]
    file = Path(inputs.folder) / str(case.inputs[0].file)
    script = [sys.executable, "-c", SCRIPT, str(job.model), str(file), repr(shape)]
    out = folder / "first"
    out.mkdir()

    def worker_starts() -> None:
        with start(job, out, Path(inputs.folder)) as worker:
            load(worker, job)
            run_case(worker, job, inputs.folder, case, out, "c0")

    sides: dict[str, Callable[[], object]] = {
        "ours": worker_starts, "bare": lambda: subprocess.run(script, cwd=out, check=True),
    }  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(starts + 1):
        for name in sorted(sides, reverse=bool(number % 2)):
            begun = perf_counter()
            sides[name]()
            # The first of each finds cold files.
            if number:
                taken[name].append(perf_counter() - begun)
    found = {name: statistics.median(times) for name, times in taken.items()}
    print(f"first result: {json.dumps({name: round(time, 3) for name, time in found.items()})} s")
    verdict("first result", found["ours"] / found["bare"], FIRST)


def verdict(what: str, ratio: float, limit: float) -> None:
    """Print a ratio beside what is asked for."""
    print(f"{what}: {ratio:.3f} times the bare one; asked for is {limit} at most")


if __name__ == "__main__":
    main()
