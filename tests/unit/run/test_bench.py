"""Many small models on one warm worker, and what happens when that dies."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.config.systems import Target
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import ValueRecord, read_value, write_value
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from tests.fakes.simulated_bench import Counter
from tests.support.systems import job, model, runtime

# It writes down what it is asked, and its process number; outputs are as the request wants them.
RECORDER = """
import json, os, sys
with open("asked", "a", encoding="utf-8") as asked:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({**request, "process": os.getpid()}), file=asked, flush=True)
        answer = {"ok": True, "id": request["id"], "protocol": 1, "duration_ms": 1}
        if request["verb"] == "run":
            outputs = [{"name": "y", "kind": "absent"}]
            answer.update(outputs=outputs, repeats=[outputs] * (request["repeat"] - 1))
        print(json.dumps(answer), flush=True)
"""
CRASHING = {"words": ["crash"]}


def bench_of(folder: Path) -> Bench:
    """Return a bench of adding runtimes; each dies at the word `crash` and refuses `old`."""
    launch = runtime("adding==1.0", refuses=["old"], crashes=["crash"], raises=["raise"])
    system = job(folder / "unused.onnx", launch)
    return Bench(system, exchange(folder), Counter())


def recording(folder: Path, target: Target, repeat: int = 1) -> Bench:
    """Return a bench of a worker that writes down what it is asked."""
    launch = Launch(argv=(sys.executable, "-I", "-c", RECORDER), label="r", environment="")
    system = Job(
        launch=launch, model=folder / "unused.onnx", target=target, timeout_s=30, repeat=repeat
    )
    return Bench(system, exchange(folder), Counter())


def exchange(folder: Path) -> Path:
    """Make the folder of inputs and outputs."""
    place = folder / "exchange"
    place.mkdir()
    return place


def given(bench: Bench) -> list[ValueRecord]:
    """Write the input, 100."""
    return [write_value("x", np.array([100.0], np.float32), bench.folder, "x")]


def number(bench: Bench, run: CaseRun) -> float:
    """Return the one number that a run brought."""
    assert run.status is RunStatus.OK, run.message
    (record,) = run.outputs
    value = read_value(record, bench.folder)
    assert isinstance(value, np.ndarray)
    return float(value.item())


def asked(bench: Bench, verb: str) -> list[dict[str, Any]]:
    """Return the requests of a kind that the recorder wrote down."""
    lines = (bench.folder / "asked").read_text("utf-8").splitlines()
    return [request for request in map(json.loads, lines) if request["verb"] == verb]


def test_models_are_run_one_after_the_other(tmp_path: Path) -> None:
    """Each brings its own result, under its own file names."""
    with bench_of(tmp_path) as bench:
        runs = [
            bench.run(model(tmp_path, f"{at}.onnx", adds=at), given(bench), ["y"], f"s{at}")
            for at in range(3)
        ]
        assert [number(bench, run) for run in runs] == [100.0, 101.0, 102.0]
    assert [run.case for run in runs] == ["s0", "s1", "s2"]
    assert [run.outputs[0].file for run in runs] == ["s0.bin", "s1.bin", "s2.bin"]
    assert isinstance(bench.step, Counter)
    assert (bench.runs, bench.step.done) == (3, 3)


def test_one_worker_serves_them_all(tmp_path: Path) -> None:
    """It may let go of each model before it loads the next."""
    with recording(tmp_path, Target(name="cpu")) as bench:
        for at in range(3):
            bench.run(tmp_path / f"{at}.onnx", [], ["y"], "s")
        bench.load(tmp_path / "3.onnx", [], [])
        loads = asked(bench, "load")
    assert [Path(request["model"]).name for request in loads] == [f"{at}.onnx" for at in range(4)]
    assert len({request["process"] for request in loads}) == 1
    assert all(request["release"] is True for request in loads)
    assert len(asked(bench, "run")) == 3


def test_the_worker_is_told_the_ports_and_the_systems_options(tmp_path: Path) -> None:
    """Other session options count for one model alone."""
    own, other = {"intra_op_num_threads": 1}, {"graph_optimization_level": "disable_all"}
    target = Target(name="cpu", provider="Other", session_options=own)
    with recording(tmp_path, target) as bench:
        bench.run(tmp_path / "m.onnx", given(bench), ["b", "a"], "s", other)
        bench.run(tmp_path / "m.onnx", given(bench), ["b", "a"], "s")
        bench.load(tmp_path / "m.onnx", ["x"], ["y"], {})
        loads = asked(bench, "load")
    assert [request["session_options"] for request in loads] == [other, own, {}]
    assert {request["provider"] for request in loads} == {"Other"}
    assert [request["input_names"] for request in loads] == [["x"]] * 3
    assert [request["output_names"] for request in loads] == [["b", "a"], ["b", "a"], ["y"]]


def test_a_model_is_run_as_often_as_the_system_is(tmp_path: Path) -> None:
    """A fault that comes and goes shows."""
    with recording(tmp_path, Target(name="cpu"), repeat=3) as bench:
        run = bench.run(tmp_path / "m.onnx", [], ["y"], "s")
        assert [request["repeat"] for request in asked(bench, "run")] == [3]
    assert len(run.repeats) == 2


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    """The model it died at is lost, with its last words, and no other."""
    with bench_of(tmp_path) as bench:
        bad = bench.run(model(tmp_path, "bad.onnx", **CRASHING), given(bench), ["y"], "bad")
        assert (bad.status, bad.outputs) == (RunStatus.CRASH, ())
        assert "exited with status 9" in bad.message
        good = bench.run(model(tmp_path, "good.onnx", adds=1), given(bench), ["y"], "good")
        assert number(bench, good) == 101.0


def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    """After the time limit."""
    script = "import json, sys, time\nfor line in sys.stdin:\n    time.sleep(60)"
    launch = Launch(argv=(sys.executable, "-I", "-c", script), label="h", environment="")
    system = Job(
        launch=launch, model=tmp_path / "unused.onnx", target=Target(name="cpu"), timeout_s=0.2
    )
    with Bench(system, exchange(tmp_path), Counter()) as bench:
        for _ in range(2):
            run = bench.run(tmp_path / "m.onnx", [], ["y"], "s")
            assert run.status is RunStatus.TIMEOUT


@pytest.mark.parametrize(
    ("parts", "words"),
    [({"words": ["old"]}, "operator set old"), ({"words": ["raise"]}, "division by zero")],
)
def test_a_model_that_fails_costs_no_worker(
    parts: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """Whether it cannot be loaded or not be run."""
    with bench_of(tmp_path) as bench:
        bad = bench.run(model(tmp_path, "bad.onnx", **parts), given(bench), ["y"], "bad")
        assert bad.status is RunStatus.ERROR
        assert words in bad.message
        good = bench.run(model(tmp_path, "good.onnx"), given(bench), ["y"], "good")
        assert number(bench, good) == 100.0


def test_loading_alone_says_why_it_failed(tmp_path: Path) -> None:
    """Nothing is said of a model that was loaded."""
    with bench_of(tmp_path) as bench:
        assert bench.load(model(tmp_path, "good.onnx"), ["x"], ["y"]) == ""
        old = model(tmp_path, "old.onnx", words=["old"])
        assert "operator set old" in bench.load(old, ["x"], ["y"])
        assert bench.load(tmp_path / "none.onnx", ["x"], ["y"])
        assert bench.load(model(tmp_path, "good.onnx"), ["x"], ["y"]) == ""
    assert bench.runs == 4


def test_leaving_ends_the_worker(tmp_path: Path) -> None:
    """And so does an end in between; the next model gets a fresh one."""
    with recording(tmp_path, Target(name="cpu")) as bench:
        bench.load(tmp_path / "m.onnx", [], [])
        bench.end()
        bench.end()
        bench.load(tmp_path / "m.onnx", [], [])
        processes = [request["process"] for request in asked(bench, "load")]
    assert len(set(processes)) == 2
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
