"""Which of two recorded results a third one is, and what is said of it."""

from typing import Any

import numpy as np
import pytest

from ci_parity.localise.handout.results import (
    BASELINE,
    CANDIDATE,
    NEITHER,
    Bits,
    Gap,
    conclude,
    gap,
    gaps,
    likeness,
    parts,
    read_value,
    write_value,
)

NAN, INF = float("nan"), float("inf")


def f32(*values: float) -> Any:
    """Return a float32 tensor."""
    return np.array(values, np.float32)


def bits(dtype: str, carrier: type[Any], value: int) -> Bits:
    """Return a tensor of one element of a type that NumPy lacks."""
    return Bits(dtype, np.array([value], carrier))


def named(value: Any) -> str:
    """Return the name of a value in the name of a test: the same in every process."""
    return f"{value.dtype} {value.bits}" if isinstance(value, Bits) else str(value)


def ran(**values: Any) -> dict[str, Any]:
    """Return the result of a run that brought these outputs."""
    return {"status": "ok", "message": "", "values": values}


def failed(status: str, message: str = "") -> dict[str, Any]:
    """Return the result of a run that failed."""
    return {"status": status, "message": message, "values": {}}


def code_of(ours: dict[str, Any], baseline: dict[str, Any], candidate: dict[str, Any]) -> int:
    """Return whose result it is."""
    return conclude(ours, baseline, candidate)[0]


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        (f32(1, 2), f32(1, 3)),
        (f32(1, NAN), f32(1, 2)),
        (f32(1, INF), f32(1, -INF)),
        (f32(1, 2), f32(1, 2, 3)),
        (f32(1, 2), np.array([1, 2], np.float64)),
        (f32(1), f32(1 + 2**-23)),
        (np.array([2**63 - 1]), np.array([-(2**63)])),
        (np.array([True]), np.array([False])),
        (np.array(["a"], object), np.array(["b"], object)),
        (np.array([1 + 1j]), np.array([1 + 2j])),
        (f32(), f32(1)),
        ([f32(1)], [f32(1), f32(2)]),
        ({"a": f32(1)}, {"b": f32(1)}),
        (None, f32(1)),
        (bits("bfloat16", np.uint16, 16256), bits("bfloat16", np.uint16, 0)),
        (bits("int4", np.uint8, 1), bits("uint4", np.uint8, 1)),
    ],
    ids=named,
)  # fmt: skip
def test_a_result_is_the_one_it_equals(baseline: Any, candidate: Any) -> None:
    """Whatever kind of value it is, however small the difference."""
    sides = ran(y=baseline), ran(y=candidate)
    assert code_of(ran(y=baseline), *sides) == BASELINE
    assert code_of(ran(y=candidate), *sides) == CANDIDATE


@pytest.mark.parametrize("value", [1.04, 1.96], ids=str)
def test_a_result_near_one_of_them_is_that_one(value: float) -> None:
    """A tenth of what is between them is near enough: other processors round differently."""
    expected = BASELINE if value < 1.5 else CANDIDATE
    assert code_of(ran(y=f32(value)), ran(y=f32(1)), ran(y=f32(2))) == expected


@pytest.mark.parametrize("value", [1.5, 1.2, -7, NAN], ids=str)
def test_a_result_far_from_both_is_neither(value: float) -> None:
    """In the middle, a fifth away, on the other side, or no number."""
    assert code_of(ran(y=f32(value)), ran(y=f32(1)), ran(y=f32(2))) == NEITHER


def test_of_two_that_it_may_be_it_is_the_nearer_one() -> None:
    """The two are within rounding of each other, and the result is from another processor."""
    step = 2.0**-22
    sides = ran(y=f32(1)), ran(y=f32(1 + 8 * step))
    assert code_of(ran(y=f32(1 + step)), *sides) == BASELINE
    assert code_of(ran(y=f32(1 + 7 * step)), *sides) == CANDIDATE
    assert code_of(ran(y=f32(1 + 4 * step)), *sides) == NEITHER


def test_a_lost_nan_is_found_though_other_elements_are_rounded() -> None:
    """No number says how far the two are from each other."""
    sides = ran(y=f32(1, NAN)), ran(y=f32(1, 0))
    assert code_of(ran(y=f32(1 + 2**-22, NAN)), *sides) == BASELINE
    assert code_of(ran(y=f32(1 + 2**-22, 0)), *sides) == CANDIDATE
    assert code_of(ran(y=f32(1.1, 0)), *sides) == NEITHER


def test_every_output_counts() -> None:
    """One is the candidate's, the other nobody's; one is missing."""
    sides = ran(y=f32(1), z=f32(1)), ran(y=f32(2), z=f32(1))
    assert code_of(ran(y=f32(2), z=f32(1)), *sides) == CANDIDATE
    assert code_of(ran(y=f32(2), z=f32(5)), *sides) == NEITHER
    assert code_of(ran(y=f32(2)), *sides) == NEITHER


def test_two_recorded_results_that_are_equal_decide_nothing() -> None:
    """There is no fault in them to be reproduced."""
    assert code_of(ran(y=f32(1)), ran(y=f32(1)), ran(y=f32(1))) == NEITHER


def test_a_failure_is_the_one_of_its_kind() -> None:
    """A crash is a crash, with whatever signal; outputs are no failure."""
    sides = ran(y=f32(1)), failed("crash", "SIGFPE")
    assert code_of(failed("crash", "signal 8"), *sides) == CANDIDATE
    assert code_of(ran(y=f32(1)), *sides) == BASELINE
    assert code_of(failed("error", "no such file"), *sides) == NEITHER
    assert code_of(failed("timeout"), *sides) == NEITHER


def test_an_error_is_the_one_with_its_words() -> None:
    """Paths and lines may differ, the rest may not."""
    recorded = failed("error", "Fail: /a/model.onnx: graph.cc:12 node input 'mid' is not an output")
    same = failed("error", "Fail: /tmp/b/c.onnx: graph.cc:99 node input 'mid' is not an output")
    other = failed("error", "NoSuchFile: model.onnx could not be opened")
    assert code_of(same, ran(y=f32(1)), recorded) == CANDIDATE
    assert code_of(other, ran(y=f32(1)), recorded) == NEITHER


def test_of_two_errors_it_is_the_more_alike() -> None:
    """Both sides refuse, in other words."""
    sides = failed("error", "division of an integer by zero"), failed("error", "division failed")
    assert code_of(failed("error", "division of an integer by zero"), *sides) == BASELINE
    assert code_of(failed("error", "division failed"), *sides) == CANDIDATE


def test_likeness_has_bounds() -> None:
    """From nothing in common to the same."""
    assert likeness("a b c", "a b c") == 1
    assert likeness("a b c", "x y z") == 0
    assert likeness("", "") == 1


def test_what_is_said_names_the_place_and_both_numbers() -> None:
    """The largest difference, or the first place of what is no number."""
    assert str(gap("y", f32(1, 2), f32(1, 4))) == (
        "largest difference 2 at y[1]: 2.0 instead of 4.0"
    )
    assert str(gap("y", f32(1, 2), f32(NAN, NAN))) == (
        "y: 1.0 instead of nan at [0] (2 of 2 elements)"
    )
    assert str(gap("y", f32(1), np.array(1))) == "y: float32[1] instead of int64[]"
    assert str(gap("y", np.array(1.0), np.array(3.0))) == (
        "largest difference 2 at y: 1.0 instead of 3.0"
    )


def test_what_is_nan_on_both_sides_is_equal() -> None:
    """So is an infinity of the same sign."""
    found = gap("y", f32(NAN, INF, 1), f32(NAN, INF, 1))
    assert (found.problem, found.size) == ("", 0)
    assert gap("y", f32(NAN, INF, 1), f32(NAN, INF, 3)).size == 2


def test_outputs_that_one_side_lacks_are_named() -> None:
    """In either direction."""
    found = gaps({"a": f32(1), "b": f32(1)}, {"a": f32(1), "c": f32(1)})
    assert [(g.path, g.problem) for g in found if g.problem] == [
        ("b", "is not recorded"), ("c", "is missing"),
    ]  # fmt: skip


def test_a_gap_of_nothing_is_none() -> None:
    """Neither a problem nor a number."""
    assert (Gap("y").size, Gap("y").problem) == (0.0, "")


@pytest.mark.parametrize(
    "value",
    [
        f32(1, NAN, -0.0),
        np.array(3, np.int8),
        np.zeros((0, 2), np.float16),
        np.array([["a", "ü\0"], ["", "\ud800"]], object),
        Bits("float8e5m2", np.array([[1, 255]], np.uint8)),
        [f32(1), np.array(["x"], object), [None]],
        {"a": f32(1), "b": f32(2)},
        {1: np.array(2.0)},
        None,
    ],
    ids=named,
)
def test_a_value_survives_the_archive(value: Any) -> None:
    """Every bit, type and shape."""
    arrays: dict[str, Any] = {}
    record = write_value("y", value, arrays)
    assert all(array.dtype != object for array in arrays.values())
    again = parts({"y": read_value(record, arrays)})
    for path, expected in parts({"y": value}).items():
        left, right = (v.bits if isinstance(v, Bits) else v for v in (again[path], expected))
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tolist() == right.tolist() or left.tobytes() == right.tobytes()
    assert [g for g in gaps({"y": value}, {"y": read_value(record, arrays)}) if g.problem] == []
