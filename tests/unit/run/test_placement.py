"""What a worker says of where nodes ran, believed only as far as it can be read."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.process import worker_environment
from ci_parity.records.executed import ExecutedGraph, ExecutedOperator, OperatorCount
from ci_parity.records.observation import CaseInputs
from ci_parity.records.placement import Method, OperatorPlacement, Placement
from ci_parity.records.values import ValueRecord
from ci_parity.run.placement import VERB, measure, on_plain_cpu
from ci_parity.run.protocol import WorkerProcess
from tests.support.models import save_linear

# Answers every request with what lies in `answer.json`, and keeps the request.
WORKER = """
import json, sys
for line in sys.stdin:
    open("request.json", "w").write(line)
    answer = json.load(open("answer.json"))
    if answer is None:
        sys.exit("no memory left")
    print(json.dumps({"ok": True, "id": json.loads(line)["id"], **answer}), flush=True)
"""
CASE = CaseInputs(case="c", inputs=(ValueRecord(name="x", kind="absent"),))
RELU = {"provider": "GPU", "op_type": "Relu", "count": 3, "names": []}
NEG = {"provider": "CPU", "op_type": "Neg", "count": 1, "names": ["n"]}
ANSWER = {"method": "assignment", "operators": [RELU, NEG], "memcpy": 2, "why_not": ""}


def asked(
    folder: Path,
    answer: Mapping[str, Any] | None,
    verbs: tuple[str, ...] = (VERB,),
    model: Path = Path("m.onnx"),
) -> Placement:
    """Ask a worker that gives this answer; None makes it die."""
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    argv = (sys.executable, "-I", "-c", WORKER)
    with WorkerProcess(argv, env=worker_environment(), cwd=folder) as worker:
        load = {"model": model, "provider": "GPU"}
        return measure(worker, verbs, load, CASE, str(folder), folder, 20.0)


def test_what_a_worker_counted_is_recorded(tmp_path: Path) -> None:
    """It is asked with the model to load, and with the inputs of a case."""
    found = asked(tmp_path, ANSWER)
    assert found == Placement(
        method=Method.ASSIGNMENT,
        operators=(
            OperatorPlacement(provider="GPU", op_type="Relu", count=3),
            OperatorPlacement(provider="CPU", op_type="Neg", count=1, names=("n",)),
        ),
        memcpy=2,
    )
    assert (found.count, found.on("GPU")) == (4, 3)
    request = json.loads((tmp_path / "request.json").read_text(encoding="utf-8"))
    assert (request["verb"], request["model"], request["provider"]) == (VERB, "m.onnx", "GPU")
    assert [record["name"] for record in request["inputs"]] == ["x"]
    assert request["folder"] == str(tmp_path)


def test_a_worker_without_the_verb_is_not_asked(tmp_path: Path) -> None:
    """It has told nothing, which is no placement."""
    found = asked(tmp_path, ANSWER, verbs=("hello", "load", "run"))
    assert (found.method, found.known, found.operators) == (Method.NONE, False, ())
    assert "no verb 'placement'" in found.why_not
    assert not (tmp_path / "request.json").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operators": None}, "unreadable placement"),
        ({"operators": [{**RELU, "count": -1}]}, "a count that cannot be"),
        ({"operators": [{**RELU, "count": "3"}]}, "unreadable placement"),
        ({"operators": [RELU] * 1001}, "a number of operators"),
        ({"operators": [{**RELU, "more": 1}]}, "unreadable placement"),
        ({"memcpy": -2}, "a count that cannot be"),
        ({"method": "guess"}, "unreadable placement"),
        ({"method": "cpu"}, "a method"),
        ({"method": "none"}, "a method"),
        ({"ok": False, "error": "no such thing"}, "no such thing"),
        (None, "no memory left"),
    ],
)
def test_what_cannot_be_believed_is_not_measured(
    tmp_path: Path, change: Mapping[str, Any] | None, said: str
) -> None:
    """Whatever it is, it says why; a worker that dies costs nothing else."""
    found = asked(tmp_path, None if change is None else {**ANSWER, **change})
    assert (found.method, found.operators, found.memcpy) == (Method.NONE, (), None)
    assert said in found.why_not


def test_names_are_few_and_short(tmp_path: Path) -> None:
    """A model may have any number of nodes, with names of any length."""
    long = {**NEG, "names": ["n" * 5000] * 500}
    found = asked(tmp_path, {**ANSWER, "operators": [long]})
    assert [len(name) for name in found.operators[0].names] == [300] * 100


def test_copies_that_were_not_counted_say_so(tmp_path: Path) -> None:
    """The nodes are known all the same."""
    answer = {**ANSWER, "memcpy": None, "why_not": "the run failed"}
    found = asked(tmp_path, answer)
    assert (found.count, found.memcpy, found.why_not) == (4, None, "the run failed")
    assert asked(tmp_path, {**answer, "why_not": ""}).why_not == "the runner counts no copies"


RAN = {"op_type": "Relu", "takes": "float32", "gives": "float32", "count": 2}
EXECUTED = {"operators": [RAN], "own_names": False}


def test_what_ran_stands_beside_what_the_file_has(tmp_path: Path) -> None:
    """Counted from the file itself; a runner that says nothing of it leaves nothing."""
    save_linear(tmp_path / "m.onnx")
    found = asked(tmp_path, {**ANSWER, "executed": EXECUTED}, model=tmp_path / "m.onnx").executed
    assert found == ExecutedGraph(
        operators=(ExecutedOperator(op_type="Relu", takes="float32", gives="float32", count=2),),
        original=(OperatorCount(op_type="Mul", count=1),),
    )
    assert asked(tmp_path, ANSWER).executed is None


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """What ran is told all the same."""
    found = asked(tmp_path, {**ANSWER, "executed": EXECUTED}).executed
    assert found is not None
    assert found.count == 2
    assert "m.onnx" in found.why_not or "cannot be read" in found.why_not


def test_nothing_that_ran_says_why(tmp_path: Path) -> None:
    """The reason is that of the run which was to count copies."""
    empty = {"operators": [], "own_names": False}
    answer = {**ANSWER, "memcpy": None, "why_not": "the run failed", "executed": empty}
    found = asked(tmp_path, answer).executed
    assert found is not None
    assert (found.operators, found.why_not) == ((), "the run failed")


@pytest.mark.parametrize(
    "executed",
    [
        {"operators": [{**RAN, "count": 0}], "own_names": False},
        {"operators": [RAN] * 1001, "own_names": False},
        {"operators": [{**RAN, "takes": 1}], "own_names": False},
        {**EXECUTED, "original": [{"op_type": "Conv", "count": 1}]},
        {**EXECUTED, "more": 1},
        [],
    ],
)
def test_a_graph_that_cannot_be_believed_is_not_measured(tmp_path: Path, executed: object) -> None:
    """Then nothing of the answer is; what the file has is counted here alone."""
    found = asked(tmp_path, {**ANSWER, "executed": executed})
    assert found.method is Method.NONE
    assert "unreadable placement" in found.why_not


def test_the_plain_cpu_needs_no_question() -> None:
    """In the words of either kind of runtime; anything beside it does."""
    cpu = "CPUExecutionProvider"
    assert on_plain_cpu(cpu, (cpu,)) == Placement(method=Method.CPU)
    assert on_plain_cpu("CPU", (cpu, "CPU")) == Placement(method=Method.CPU)
    assert on_plain_cpu(cpu, (cpu, "CUDAExecutionProvider")) is None
    assert on_plain_cpu("CUDAExecutionProvider", (cpu,)) is None
    assert on_plain_cpu(cpu, ()) is None
