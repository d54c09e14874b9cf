"""Complete latency decisions on this machine: false alarms, detection, and what they cost.

    python benchmarks/latency_trials.py run ARM [--trials 100] [--out latency-trials.jsonl]
    python benchmarks/latency_trials.py report [latency-trials.jsonl]

Each trial is one decision of the product's own schedule and rule, with its default settings, on a
convolutional model of one to two milliseconds; beside it, on as many sessions, all of the
baseline's come first and then all of the candidate's, and the same rule judges those. A trial is
one JSON line, appended when it is over: `run` goes on until the file has as many of the arm as were
asked for.

Arms: `identical`; `slow`, identical, with a model of some 20 ms; `neighbour`, identical while a
process burns one CPU; `conv5`, `conv8` and `conv10`, a redundant convolution more in twenty, two in
twenty-five, two in twenty; `unoptimized`, graph optimizations off; `threads`, one thread instead of
two; `runtime`, the model of the corpus that onnxruntime 1.27 runs slower than 1.26 (it installs
both); `busy5`, `busy8` and `busy10`, a custom operator that waits busily for that share of the time
the baseline takes, which is measured before each trial (it installs onnxruntime-extensions into an
environment beside the results).
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from latency_tables import read, report
from onnx import TensorProto, helper, numpy_helper, save

from ci_parity.base.progress import SilentProgress
from ci_parity.compare.latency.estimate import value
from ci_parity.compare.latency.rule import decide
from ci_parity.compare.latency.verdict import judge_latency, limits_of
from ci_parity.config import load
from ci_parity.config.model import Policy
from ci_parity.config.systems import Target
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.finding import Subject
from ci_parity.records.latency import BlockPair, LatencyRun, LatencySession
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.run.execute import Job
from ci_parity.run.latency.process import BLOCK_ITERATIONS, WorkerSide, worker_side
from ci_parity.run.latency.schedule import BLOCK_MIN_MS
from ci_parity.stages import inputs_for_diff
from ci_parity.stages.pairs import pair_of_two
from ci_parity.stages.timing import Sides, time_pair

CORPUS = Path(__file__).resolve().parents[1] / "tests" / "corpus" / "cases"
SLOWER_RUNTIME = "latency-ge-constant-folding"
CUSTOM = "ai.onnx.contrib"
BUSY_RUNNER = Path(__file__).with_name("latency_busy_wait.py")
BUSY_PACKAGES = ("onnxruntime==1.32.0", "onnxruntime-extensions==0.15.2", "numpy")
BUSY_BLOCKS = 20
CHANNELS, SIZE = 16, 28
FAN_IN = 9 * CHANNELS
WARM_MS, WARM_BLOCKS = 100.0, 4


@dataclass(frozen=True)
class Arm:
    """Two systems; layers of the model on either side, options, runtimes, and a neighbour."""

    layers: tuple[int, int] = (20, 20)
    options: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default=({}, {}))
    runtimes: tuple[str, str] = ("current", "current")
    neighbour: bool = False
    corpus: str = ""
    busy: float = 0.0


ONE = {"intra_op_num_threads": 1}
ARMS = {
    "identical": Arm(options=(ONE, ONE)),
    "slow": Arm(layers=(740, 740), options=(ONE, ONE)),
    "neighbour": Arm(options=(ONE, ONE), neighbour=True),
    "conv5": Arm(layers=(20, 21), options=(ONE, ONE)),
    "conv8": Arm(layers=(25, 27), options=(ONE, ONE)),
    "conv10": Arm(layers=(20, 22), options=(ONE, ONE)),
    "unoptimized": Arm(options=(ONE, {**ONE, "graph_optimization_level": "disable_all"})),
    "threads": Arm(options=({"intra_op_num_threads": 2}, ONE)),
    "runtime": Arm(
        options=(ONE, ONE), runtimes=("onnxruntime==1.26.0", "onnxruntime==1.27.0"),
        corpus=SLOWER_RUNTIME,
    ),
    **{f"busy{share}": Arm(options=(ONE, ONE), busy=share / 100) for share in (5, 8, 10)},
}  # fmt: skip


def model(path: Path, layers: int, plain: int, wait_us: float | None = None) -> Path:
    """Write a convolutional model; layers beyond `plain` are convolutions that change nothing.

    With `wait_us` its last node is the custom operator, which waits so long.
    """
    generator = np.random.default_rng(0)
    shape = [1, CHANNELS, SIZE, SIZE]
    nodes, weights = [], []
    for layer in range(layers):
        # As He and others have it: through hundreds of Relus nothing fades into subnormal numbers,
        # which take a processor five times as long.
        weight = generator.standard_normal((CHANNELS, CHANNELS, 3, 3)) * math.sqrt(2 / FAN_IN)
        if layer >= plain:
            weight = np.zeros_like(weight)
            weight[range(CHANNELS), range(CHANNELS), 1, 1] = 1
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w{layer}"))
        source = f"y{layer}" if layer else "x"
        nodes.append(
            helper.make_node("Conv", [source, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"y{layer + 1}"]))
    last, opsets = f"y{layers}", [helper.make_opsetid("", 17)]
    if wait_us is not None:
        nodes.append(
            helper.make_node("BusyWait", [last], ["y"], domain=CUSTOM, microseconds=float(wait_us))
        )
        last = "y"
        opsets.append(helper.make_opsetid(CUSTOM, 1))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", last)]
    graph = helper.make_graph(nodes, "trial", ports[:1], ports[1:], weights)
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def _models(arm: Arm, folder: Path) -> tuple[Path, Path]:
    if arm.corpus:
        words, sys.argv = sys.argv, ["build.py", str(folder)]
        try:
            runpy.run_path(str(CORPUS / arm.corpus / "build.py"), run_name="__main__")
        finally:
            sys.argv = words
        return folder / "model.onnx", folder / "model.onnx"
    first, second = (
        model(folder / f"model{number}.onnx", layers, arm.layers[0])
        for number, layers in enumerate(arm.layers)
    )
    return first, second


@contextlib.contextmanager
def _neighbour(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    spawning = multiprocessing.get_context("spawn")
    busy = spawning.Process(target=_burn, args=(os.getpid(),), daemon=True)
    busy.start()
    try:
        yield
    finally:
        busy.terminate()
        busy.join()


def _burn(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(10_000))


class NothingDisturbs:
    """A watch that voids no pair, to see what load does to the rule."""

    def begin(self) -> None:
        """Take note of nothing."""

    def disturbance(self) -> str:
        """Return nothing."""
        return ""


def trial(arm: Arm, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Make one decision, and a sequential one on as many sessions; return what came of both."""
    pairs = given.pairs
    policy = load.policy({"latency": {"cases": 1, "pairs": pairs, "time_budget_s": 3600}})
    busy: dict[str, Any] = {}
    if arm.busy:
        busy = {"runtime": {"command": _busy_runner(given.out.resolve().parent)}}
        models = (model(folder / "model0.onnx", *arm.layers, wait_us=0.0),) * 2
    else:
        models = _models(arm, folder)
    targets = [
        load.target(side, {"runtime": runtime, "session_options": dict(options), **busy})
        for side, runtime, options in zip(("b", "c"), arm.runtimes, arm.options, strict=True)
    ]
    sides = _sides(models, targets, policy)
    inputs = inputs_for_diff.collect([], models[0], read_signature(models[0]), {}, folder / "in")
    if arm.busy:
        (folder / "exchange").mkdir()
        blocks = _blocks(sides.baseline, inputs, inputs.cases[0], folder / "exchange", BUSY_BLOCKS)
        wait_us = arm.busy * median(quantiles(block, n=4)[0] for block in blocks) / 1000
        slower = model(folder / "model1.onnx", *arm.layers, wait_us=wait_us)
        sides = _sides((models[0], slower), targets, policy)
    with _neighbour(arm.neighbour):
        found = _decision(sides, inputs, folder, policy, veto=not given.no_veto)
        if not given.no_sequential and found["sessions"]:
            found["sequential"] = _sequential(
                sides, inputs, folder, found["sessions"], pairs, policy
            )
    return found


def _sides(models: tuple[Path, Path], targets: Sequence[Target], policy: Policy) -> Sides:
    pair = pair_of_two(models, (targets[0], targets[1]), policy)
    assert pair.baseline is not None
    return Sides(baseline=pair.baseline, candidate=pair.candidate)


def _busy_runner(folder: Path) -> list[str]:
    """Return the command of the runner with the custom operator; its environment is made once."""
    home = folder / "busy-wait-environment"
    python = home / "bin" / "python"
    if not (home / "made").exists():
        subprocess.run(["uv", "venv", "--quiet", "--clear", str(home)], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*install, *BUSY_PACKAGES], check=True)
        (home / "made").touch()
    return [str(python), "-B", str(BUSY_RUNNER)]


def _decision(
    sides: Sides, inputs: InputSet, folder: Path, policy: Policy, *, veto: bool
) -> dict[str, Any]:
    start = time.perf_counter()
    names = {case.case for case in inputs.cases}
    watch = None if veto else lambda _: NothingDisturbs()
    with SilentProgress().step("", 0) as step:
        run: LatencyRun = time_pair(
            sides, inputs, names, folder / "exchange", policy.latency, 1, step, watch=watch
        )
    judged = judge_latency([(Subject(), run)], policy)
    seconds = time.perf_counter() - start
    finding = judged.findings[0]
    found: dict[str, Any] = {
        "outcome": finding.outcome.value, "seconds": seconds, "sessions": 0, "ratios": [],
        "evidence": finding.evidence, "conditions": list(run.conditions),
    }  # fmt: skip
    for timing in judged.timings:
        found |= {
            "sessions": timing.sessions, "ratio": timing.ratio, "low": timing.ratio_low,
            "high": timing.ratio_high, "ratios": list(timing.session_ratios),
            "p50_ms": timing.baseline_p50_ms, "voided": timing.voided_pairs,
        }  # fmt: skip
    return found


def _sequential(
    sides: Sides, inputs: InputSet, folder: Path, sessions: int, pairs: int, policy: Policy
) -> dict[str, Any]:
    """Take all sessions of the baseline, then all of the candidate, and judge them by the rule."""
    start = time.perf_counter()
    case = inputs.cases[0]
    blocks = [
        [_blocks(job, inputs, case, folder / "exchange", pairs) for _ in range(sessions)]
        for job in (sides.baseline, sides.candidate)
    ]
    seconds = time.perf_counter() - start
    values = [
        value(
            LatencySession(
                pairs=tuple(
                    BlockPair(baseline_ns=before, candidate_ns=after)
                    for before, after in zip(*session, strict=True)
                )
            )
        )
        for session in zip(*blocks, strict=True)
    ]
    decision = decide(values, limits_of(policy.latency), ended=True)
    assert decision is not None
    pooled = [median(ns for one in side for block in one for ns in block) for side in blocks]
    return {
        "outcome": decision.outcome.value if decision.outcome else "", "seconds": seconds,
        "ratios": [math.exp(v) for v in values], "pooled_ratio": pooled[1] / pooled[0],
    }  # fmt: skip


def _blocks(
    job: Job, inputs: InputSet, case: CaseInputs, folder: Path, pairs: int
) -> list[tuple[int, ...]]:
    with worker_side(job, folder, Path(inputs.folder)) as side:
        assert isinstance(side, WorkerSide)
        side.load()
        for _ in range(WARM_BLOCKS):
            side.block(case, WARM_MS, BLOCK_ITERATIONS)
        return [side.block(case, BLOCK_MIN_MS, BLOCK_ITERATIONS) for _ in range(pairs)]


def run_arm(given: argparse.Namespace) -> None:
    """Append trials to the file until it has as many of the arm as were asked for."""
    out: Path = given.out
    while True:
        done = sum(one["arm"] == given.arm for one in read(out))
        if done >= given.trials:
            return
        with tempfile.TemporaryDirectory() as scratch:
            found = trial(ARMS[given.arm], Path(scratch), given)
        line = {"arm": given.arm, "trial": done, "at": time.time(), **found}
        with out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        change = f"{100 * (found['ratio'] - 1):+.2f} %" if "ratio" in found else found["evidence"]
        print(
            f"{given.arm} {done + 1} of {given.trials}: {found['outcome']} {change} in "
            f"{found['sessions']} sessions, {found['seconds']:.0f} s",
            flush=True,
        )


def main() -> None:
    """Run trials of one arm, or report on all that were run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("arm", choices=ARMS)
    running.add_argument("--trials", type=int, default=100)
    running.add_argument("--pairs", type=int, default=40)
    running.add_argument("--no-sequential", action="store_true")
    running.add_argument("--no-veto", action="store_true", help="void no pair, whatever happens")
    running.set_defaults(work=run_arm)
    reporting = commands.add_parser("report")
    reporting.set_defaults(work=lambda given: report(given.out, ARMS))
    running.add_argument("--out", type=Path, default=Path("latency-trials.jsonl"))
    reporting.add_argument("out", type=Path, nargs="?", default=Path("latency-trials.jsonl"))
    given = parser.parse_args()
    given.work(given)


if __name__ == "__main__":
    main()
