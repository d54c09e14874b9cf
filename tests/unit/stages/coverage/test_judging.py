"""What a node test's outputs, or their absence, say of a runtime."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ci_parity.records.coverage import NodeOutcome
from ci_parity.records.observation import RunStatus
from ci_parity.stages.coverage.judging import judge
from tests.support.node_cases import CPU, done_badly, done_with, node_case


def f32(*numbers: float) -> Any:
    """Return a vector."""
    return np.array(numbers, np.float32)


def words(*texts: str) -> Any:
    """Return a vector of strings."""
    return np.array(texts, object)


def bf16(*numbers: float) -> Any:
    """Return a vector of bfloat16."""
    return np.array(numbers, ml_dtypes.bfloat16)


NAN = float("nan")
INF = float("inf")
PASSES: dict[str, tuple[Any, Any]] = {
    "equal": (f32(1, 2), f32(1, 2)),
    "within rtol": (f32(1000, 2), f32(1000.9, 2)),
    "within atol": (f32(0, 2), f32(0.9e-7, 2)),
    "NaN and infinity in their places": (f32(NAN, INF), f32(NAN, INF)),
    "strings": (words("a", "β"), words("a", "β")),
    "two steps of bfloat16": (bf16(1, 2), bf16(1.015625, 2)),
    "a narrow type": (np.array([1, -8], ml_dtypes.int4), np.array([1, -8], ml_dtypes.int4)),
    "a sequence": ([f32(1), f32(2, 3)], [f32(1), f32(2, 3)]),
    "an empty optional": (None, None),
    "a map": ({1: f32(1), 2: f32(2)}, {1: f32(1), 2: f32(2)}),
    "nothing in it": (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)),
}
FAILS: dict[str, tuple[Any, Any, str]] = {
    "beyond rtol": (f32(1000, 2), f32(1001.1, 2), "needed 0.0011, allowed 0.001"),
    "beyond atol": (f32(0, 2), f32(1.5e-7, 2), "1 of 2 elements differ; at [0]"),
    "a NaN for a number": (f32(1, 2), f32(1, NAN), "NaN or infinity on one side alone"),
    "a number for a NaN": (f32(1, NAN), f32(1, 2), "NaN or infinity on one side alone"),
    "a number for an infinity": (f32(1, INF), f32(1, 3e38), "NaN or infinity on one side alone"),
    "an infinity of the other sign": (f32(INF), f32(-INF), "NaN or infinity on one side alone"),
    "an integer that is one off": (np.array([100000]), np.array([100001]), "exact"),
    "another element type": (f32(1, 2), np.array([1.0, 2.0]), "element type float64"),
    "another shape": (f32(1, 2), f32(1, 2).reshape(1, 2), "shape [1, 2], the test has [2]"),
    "another string": (words("a"), words("b"), "'b'"),
    "three steps of bfloat16": (bf16(1), bf16(1.0234375), "allowed 0.0156"),
    "a tensor for a sequence": ([f32(1)], f32(1), "absent"),
    "a shorter sequence": ([f32(1), f32(2)], [f32(1)], "absent"),
    "something for an empty optional": (None, f32(1), "absent"),
    "other keys": ({1: f32(1)}, {2: f32(1)}, "y.keys"),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_outputs_that_agree_pass(name: str, tmp_path: Path) -> None:
    """A pass needs no words."""
    wanted, given = PASSES[name]
    case = node_case(tmp_path, "case", {"y": wanted})
    result = judge(case, done_with(case, tmp_path / "out", {"y": given}), CPU)
    assert (result.case, result.outcome, result.evidence) == ("made/case", NodeOutcome.PASS, "")


@pytest.mark.parametrize("name", FAILS)
def test_outputs_that_do_not_agree_fail(name: str, tmp_path: Path) -> None:
    """The words say what, where, measured and limit."""
    wanted, given, said = FAILS[name]
    case = node_case(tmp_path, "case", {"y": wanted})
    result = judge(case, done_with(case, tmp_path / "out", {"y": given}), CPU)
    assert result.outcome is NodeOutcome.FAIL
    assert said in result.evidence


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the test produced output 'y', the runtime did not"),
        ({"y": f32(1), "z": f32(1)}, "the runtime produced output 'z'"),
        ({"z": f32(1)}, "renamed?"),
    ],
)
def test_the_outputs_are_counted_by_name(given: Any, said: str, tmp_path: Path) -> None:
    """Neither one too few nor one too many passes."""
    case = node_case(tmp_path, "case", {"y": f32(1)})
    result = judge(case, done_with(case, tmp_path / "out", given), CPU)
    assert result.outcome is NodeOutcome.FAIL
    assert said in result.evidence


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (RunStatus.ERROR, NodeOutcome.REFUSED),
        (RunStatus.CRASH, NodeOutcome.CRASHED),
        (RunStatus.PROTOCOL, NodeOutcome.CRASHED),
        (RunStatus.TIMEOUT, NodeOutcome.TIMED_OUT),
        (RunStatus.NOT_RUN, NodeOutcome.SKIPPED),
    ],
)
def test_what_brings_no_outputs_is_told_apart(
    status: RunStatus, outcome: NodeOutcome, tmp_path: Path
) -> None:
    """In the runtime's own words, in which this machine's folders have no place."""
    case = node_case(tmp_path, "case", {"y": f32(1)})
    message = f"NotImplemented: Load model from {case.model} failed: no Foo(17)"
    result = judge(case, done_badly(case, status, message), CPU)
    assert result.outcome is outcome
    assert (
        result.evidence == "NotImplemented: Load model from made/case/model.onnx failed: no Foo(17)"
    )


def test_an_error_that_is_no_refusal_is_a_failure(tmp_path: Path) -> None:
    """huggingface/candle#3907: it had the operator, and did not compute it."""
    case = node_case(tmp_path, "case", {"y": f32(1)})
    words = "Shape mismatch, got buffer of size 24 which is compatible with shape [2, 3, 1, 12]"
    result = judge(case, done_badly(case, RunStatus.ERROR, words), CPU)
    assert (result.outcome, result.evidence) == (
        NodeOutcome.FAIL,
        f"it ended with an error: {words}",
    )


def test_another_provider_says_nothing_of_the_one_asked_for(tmp_path: Path) -> None:
    """What fell back to the CPU is no evidence for an accelerator."""
    case = node_case(tmp_path, "case", {"y": f32(1)})
    done = done_with(case, tmp_path / "out", {"y": f32(1)})
    result = judge(case, done, "CUDAExecutionProvider")
    assert result.outcome is NodeOutcome.SKIPPED
    assert result.evidence == f"it ran on {CPU}, not on CUDAExecutionProvider"


def test_a_test_in_dispute_is_not_judged(tmp_path: Path) -> None:
    """Where two oracles do not agree, no output is right or wrong."""
    case = node_case(tmp_path, "case", {"y": f32(1)}, disputed="one gives 1, the other 2")
    result = judge(case, done_with(case, tmp_path / "out", {"y": f32(1)}), CPU)
    assert (result.outcome, result.evidence) == (NodeOutcome.DISPUTED, "one gives 1, the other 2")


def test_a_dispute_does_not_hide_a_crash(tmp_path: Path) -> None:
    """A runtime must not crash, whatever the outputs should be."""
    case = node_case(tmp_path, "case", {"y": f32(1)}, disputed="one gives 1, the other 2")
    assert (
        judge(case, done_badly(case, RunStatus.CRASH, "died"), CPU).outcome is NodeOutcome.CRASHED
    )


def test_files_that_do_not_fit_their_record_are_the_workers_fault(tmp_path: Path) -> None:
    """Nothing can be compared."""
    case = node_case(tmp_path, "case", {"y": f32(1)})
    done = done_with(case, tmp_path / "out", {"y": f32(1)})
    (done.folder / done.run.outputs[0].file).write_bytes(b"\0")
    result = judge(case, done, CPU)
    assert result.outcome is NodeOutcome.CRASHED
    assert "its outputs cannot be read" in result.evidence


def test_a_worker_that_died_before_is_told_of(tmp_path: Path) -> None:
    """The outputs of the fresh one count."""
    case = node_case(tmp_path, "case", {"y": f32(1)})
    done = done_with(case, tmp_path / "out", {"y": f32(1)}, crashed="was ended by SIGABRT")
    result = judge(case, done, CPU)
    assert result.outcome is NodeOutcome.PASS
    assert "SIGABRT" in result.evidence
