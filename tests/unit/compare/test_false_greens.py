"""Every way in which a known comparison tool calls two different models equal, and none of ours."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ci_parity.config.load import policy
from ci_parity.records.observation import RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Value
from ci_parity.stages.judge import Judgement
from tests.support.observations import (
    LADDER,
    LOOSEST,
    PROVIDER,
    against,
    case_run,
    compared,
    failed_run,
    floats,
    judged,
    observation,
    references,
    texts,
)

NAN, INF = float("nan"), float("inf")
Y = floats(0.5, -1.5, 2.0)


def refused(found: Judgement, *ids: str, outcome: Outcome = Outcome.FAIL) -> None:
    """Assert that a judgement is no pass, for exactly these reasons, wherever it is said."""
    assert found.outcome is outcome
    assert found.outcome.exit_code != 0
    assert sorted({finding.id for finding in against(found)}) == sorted(ids)
    assert all(finding.evidence for finding in against(found))
    assert [row.outcome for row in found.rows] == [outcome]


def never_equal(folder: Path, baseline: Value, candidate: Value, *kinds: str) -> None:
    """Assert that two values of one output fail under the ladder and the loosest policy alike."""
    for name, limits in (("ladder", LADDER), ("loosest", LOOSEST)):
        found = compared(folder / name, {"y": baseline}, {"y": candidate}, policy=limits)
        refused(found, *kinds)


# Outputs that do not pair up.


def test_a_missing_output_fails(tmp_path: Path) -> None:
    """The candidate lost an output; those that are left agree."""
    refused(compared(tmp_path, {"y": Y, "z": Y}, {"y": Y}), "output.missing")


def test_an_extra_output_fails(tmp_path: Path) -> None:
    """The candidate has an output nobody has a reference for."""
    refused(compared(tmp_path, {"y": Y}, {"y": Y, "z": Y}), "output.extra")


def test_an_output_without_a_reference_is_no_pass(tmp_path: Path) -> None:
    """Stored references that cover one output of two leave the other unmeasured."""
    left, right = tmp_path / "references", tmp_path / "candidate"
    found = judged(
        references(left, case_run(left, "c", {"y": Y})),
        observation(right, case_run(right, "c", {"y": Y, "z": Y})),
    )
    refused(found, "reference.missing", outcome=Outcome.INCONCLUSIVE)


def test_a_reference_that_was_renamed_fails(tmp_path: Path) -> None:
    """A lost output is not excused by a new one that nobody stored."""
    left, right = tmp_path / "references", tmp_path / "candidate"
    found = judged(
        references(left, case_run(left, "c", {"y": Y})),
        observation(right, case_run(right, "c", {"z": Y})),
    )
    refused(found, "output.missing", "output.extra")


@pytest.mark.parametrize("name", ["y_1", "Y", "output_y", "y:0", ""])
def test_a_renamed_output_fails(tmp_path: Path, name: str) -> None:
    """Neither a substring, nor a case, nor the position makes two names one."""
    found = compared(tmp_path, {"y": Y}, {name: Y})
    refused(found, "output.missing", "output.extra")
    assert "renamed?" in next(f for f in found.findings if f.id == "output.missing").evidence


def test_reordered_outputs_fail(tmp_path: Path) -> None:
    """A consumer that reads outputs by position gets the other one."""
    refused(compared(tmp_path, {"y": Y, "z": Y}, {"z": Y, "y": Y}), "output.order")


def test_swapped_outputs_are_paired_by_name(tmp_path: Path) -> None:
    """Two outputs that changed places in value, not in name, differ in value."""
    refused(compared(tmp_path, {"y": Y, "z": 2 * Y}, {"y": 2 * Y, "z": Y}), "output.values")


def test_all_outputs_missing_fails(tmp_path: Path) -> None:
    """A candidate that returns nothing at all ran, but said nothing."""
    refused(compared(tmp_path, {"y": Y}, {}), "output.missing")


def test_no_outputs_on_either_side_is_no_pass(tmp_path: Path) -> None:
    """Two silent sides agree on nothing, even where another case passes."""
    left, right = (
        observation(side, case_run(side, "c", {}), case_run(side, "d", {"y": Y}))
        for side in (tmp_path / "baseline", tmp_path / "candidate")
    )
    found = judged(left, right, expected=("c", "d"))
    refused(found, "outputs.none", outcome=Outcome.INCONCLUSIVE)


# Types and shapes.


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float64, np.int64, np.int32, np.bool_, np.complex64, ml_dtypes.bfloat16],
)
def test_another_element_type_fails(tmp_path: Path, dtype: Any) -> None:
    """The numbers are equal in every type; a consumer's buffer is not."""
    y = floats(0, 1, 1)
    never_equal(tmp_path, y, y.astype(dtype), "output.dtype")


def test_integers_of_another_width_fail(tmp_path: Path) -> None:
    """Class labels as int32 where they were int64."""
    labels = np.arange(3, dtype=np.int64)
    never_equal(tmp_path, labels, labels.astype(np.int32), "output.dtype")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((3,), (4,)),
        ((3,), (3, 1)),
        ((3,), (1, 3)),
        ((1,), ()),
        ((), (1,)),
        ((2, 3), (3, 2)),
        ((2, 3), (6,)),
        ((1, 3), (2, 3)),
        ((0, 3), (3, 0)),
        ((0,), (0, 5)),
    ],
    ids=str,
)
def test_another_shape_fails(
    tmp_path: Path, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """All elements are equal, and so is every broadcast of them."""
    never_equal(tmp_path, np.ones(before, np.float32), np.ones(after, np.float32), "output.shape")


def test_an_empty_output_is_not_a_full_one(tmp_path: Path) -> None:
    """No detection where there was one: a maximum over nothing is not small."""
    boxes = np.ones((1, 4), np.float32)
    never_equal(tmp_path / "lost", boxes, boxes[:0], "output.shape")
    never_equal(tmp_path / "found", boxes[:0], boxes, "output.shape")


# Cases that were not run.


def test_one_of_three_cases_run_is_no_pass(tmp_path: Path) -> None:
    """The case that ran agrees; two were forgotten."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    names = ("a", "b", "c")
    found = judged(
        observation(left, *(case_run(left, name, {"y": Y}) for name in names)),
        observation(right, case_run(right, "a", {"y": Y})),
        expected=names,
    )
    refused(found, "case.not_run", outcome=Outcome.INCONCLUSIVE)
    assert [finding.subject.case for finding in against(found)] == ["b", "c"]
    assert (found.rows[0].cases, found.rows[0].cases_expected) == (1, 3)


def test_zero_cases_are_no_pass(tmp_path: Path) -> None:
    """A fixture set that lost its cases compares nothing."""
    left, right = observation(tmp_path), observation(tmp_path)
    refused(judged(left, right, expected=()), "cases.none", outcome=Outcome.INCONCLUSIVE)


def test_nothing_expected_is_no_pass_even_if_something_ran(tmp_path: Path) -> None:
    """What ran without being asked for is not evidence."""
    side = observation(tmp_path, case_run(tmp_path, "c", {"y": Y}))
    refused(judged(side, side, expected=()), "cases.none", outcome=Outcome.INCONCLUSIVE)


def test_no_case_run_at_all_is_no_pass(tmp_path: Path) -> None:
    """Both sides loaded the model and were never asked anything."""
    found = judged(observation(tmp_path), observation(tmp_path))
    refused(found, "case.not_run", outcome=Outcome.INCONCLUSIVE)


# Values.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(INF, 1e30, id="infinity became finite"),
        pytest.param(-INF, 0.0, id="minus infinity became zero"),
        pytest.param(1.0, INF, id="finite became infinity"),
        pytest.param(INF, -INF, id="infinity changed its sign"),
        pytest.param(1.0, NAN, id="finite became NaN"),
        pytest.param(NAN, 1.0, id="NaN became finite"),
        pytest.param(NAN, INF, id="NaN became infinity"),
        pytest.param(INF, NAN, id="infinity became NaN"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_nonfinite_values_must_stand_where_they_stood(
    tmp_path: Path, before: float, after: float, dtype: Any
) -> None:
    """No tolerance reaches from a number to an infinity or to NaN."""
    finite = np.finfo(np.float32).max if dtype is np.float16 else 1e30
    values = [min(v, 6e4) if finite != 1e30 and np.isfinite(v) else v for v in (before, after)]
    left, right = (floats(0.5, v, 2.0, dtype=dtype) for v in values)
    never_equal(tmp_path, left, right, "output.values")


def test_all_nan_against_numbers_fails(tmp_path: Path) -> None:
    """A maximum over NaN compares false with every limit."""
    never_equal(tmp_path, Y, np.full_like(Y, NAN), "output.values")


def test_nan_among_many_does_not_hide_a_difference(tmp_path: Path) -> None:
    """Equal NaNs on both sides, and one finite element that is off."""
    left, right = floats(NAN, 1, 2, NAN), floats(NAN, 1, 3, NAN)
    found = compared(tmp_path, {"y": left}, {"y": right})
    refused(found, "output.values")
    assert found.outputs[0].worst_index == (2,)


@pytest.mark.parametrize(
    ("before", "after", "dtype", "distance"),
    [
        (0, 2**64 - 1, np.uint64, 2**64 - 1),
        (2**64 - 1, 0, np.uint64, 2**64 - 1),
        (0, 2**32 - 1, np.uint32, 2**32 - 1),
        (-(2**31), 2**31 - 1, np.int32, 2**32 - 1),
        (-(2**63), 2**63 - 1, np.int64, 2**64 - 1),
        (2**63 - 1, -(2**63), np.int64, 2**64 - 1),
        (-128, 127, np.int8, 255),
        (0, 255, np.uint8, 255),
        (2**53, 2**53 + 1, np.int64, 1),
        (0, 1, np.uint8, 1),
    ],
)
def test_integers_do_not_wrap_around(
    tmp_path: Path, before: int, after: int, dtype: Any, distance: int
) -> None:
    """A difference in the integers' own width would be 1, or nothing."""
    left, right = np.array([7, before], dtype), np.array([7, after], dtype)
    never_equal(tmp_path, left, right, "output.values")
    found = compared(tmp_path / "measured", {"y": left}, {"y": right})
    assert found.outputs[0].max_abs == float(distance)


def test_scaled_outputs_fail(tmp_path: Path) -> None:
    """Times a thousand, the cosine similarity is 1."""
    y = np.random.default_rng(0).standard_normal(1000, np.float32)
    refused(compared(tmp_path, {"y": y}, {"y": 1000 * y}), "output.values")


def test_one_wrong_element_in_a_million_fails(tmp_path: Path) -> None:
    """One element fifty times too large leaves the cosine, the mean and every quantile alone."""
    y = np.random.default_rng(0).uniform(0.5, 1, 1_000_000).astype(np.float32)
    wrong = y.copy()
    wrong[654_321] *= 50
    found = compared(tmp_path, {"y": y}, {"y": wrong})
    refused(found, "output.values")
    assert found.outputs[0].mismatched == 1
    assert found.outputs[0].worst_index == (654_321,)


def test_half_a_percent_of_outliers_fails(tmp_path: Path) -> None:
    """The 99th percentile of the error is zero."""
    y = np.ones(2000, np.float32)
    wrong = y.copy()
    wrong[::200] = 1e9
    found = compared(tmp_path, {"y": y}, {"y": wrong})
    refused(found, "output.values")
    assert found.outputs[0].mismatched == 10


def test_a_small_channel_is_not_judged_on_the_scale_of_a_large_one(tmp_path: Path) -> None:
    """A score is wrong by a tenth beside box coordinates in the hundreds."""
    rng = np.random.default_rng(0)
    y = np.stack([rng.uniform(0, 640, 100), rng.uniform(0.5, 1, 100)])[None].astype(np.float32)
    wrong = y.copy()
    wrong[0, 1, 50] *= 0.99
    refused(compared(tmp_path, {"y": y}, {"y": wrong}), "output.values")


def test_a_sign_flip_fails(tmp_path: Path) -> None:
    """The magnitudes agree."""
    refused(compared(tmp_path, {"y": Y}, {"y": -Y}), "output.values")


def test_a_permutation_fails(tmp_path: Path) -> None:
    """The histograms agree."""
    refused(compared(tmp_path, {"y": Y}, {"y": Y[::-1].copy()}), "output.values")


def test_one_limit_met_does_not_excuse_the_other(tmp_path: Path) -> None:
    """An explicit absolute limit is not waived because a relative one would hold."""
    strict = policy({"tolerance": {"rtol": 0, "atol": 0.1}})
    y = floats(1000.0)
    refused(compared(tmp_path, {"y": y}, {"y": y + 1}, policy=strict), "output.values")


@pytest.mark.parametrize("rtol", [0.0, 1.0])
def test_an_allowance_that_overflows_allows_nothing(tmp_path: Path, rtol: float) -> None:
    """The magnitude of the first element overflows; the second is off by ten limits."""
    limits = policy({"tolerance": {"rtol": rtol, "atol": 0.1}})
    left = np.array([1.7e308 + 1.7e308j, 0], np.complex128)
    right = np.array([1.6e308 + 1.7e308j, 1], np.complex128)
    refused(compared(tmp_path, {"y": left}, {"y": right}, policy=limits), "output.values")


@pytest.mark.parametrize(
    ("before", "after"),
    [("cat", "dog"), ("cat", "Cat"), ("cat", ""), ("cat", "cat "), ("é", "e\u0301"), ("1", "1.0")],
)
def test_other_strings_fail(tmp_path: Path, before: str, after: str) -> None:
    """Strings are equal or they are not."""
    never_equal(tmp_path, texts("x", before), texts("x", after), "output.values")


def test_other_truth_values_fail(tmp_path: Path) -> None:
    """A boolean is not off by a little."""
    mask = np.array([True, False])
    never_equal(tmp_path, mask, ~mask, "output.values")


# Sequences, maps, optionals.


def test_a_shorter_sequence_fails(tmp_path: Path) -> None:
    """The items that both have agree."""
    never_equal(tmp_path / "shorter", [Y, Y], [Y], "output.parts", "output.values")
    never_equal(tmp_path / "longer", [Y], [Y, Y], "output.parts", "output.values")
    never_equal(tmp_path / "empty", [Y], [], "output.parts", "output.values")


def test_a_sequence_of_other_length_has_another_length(tmp_path: Path) -> None:
    """The length is a value of its own, so that a missing item is never just absent."""
    found = compared(tmp_path, {"y": [Y, Y]}, {"y": [Y]})
    assert {f.subject.output for f in against(found)} == {"y.length", "y[1]"}


def test_a_tensor_is_not_a_sequence_of_one(tmp_path: Path) -> None:
    """The consumer would index it differently."""
    never_equal(tmp_path, Y, [Y], "output.parts")


def test_a_map_with_a_missing_key_fails(tmp_path: Path) -> None:
    """A class that is no longer reported."""
    full: Value = {"cat": floats(0.5)[0:1].reshape(()), "dog": floats(0.25).reshape(())}
    less: Value = {"cat": floats(0.5).reshape(())}
    never_equal(tmp_path, full, less, "output.shape")


def test_a_map_with_another_key_fails(tmp_path: Path) -> None:
    """The probabilities agree; they belong to other classes."""
    before: Value = {"cat": floats(0.5).reshape(()), "dog": floats(0.25).reshape(())}
    after: Value = {"cat": floats(0.5).reshape(()), "fox": floats(0.25).reshape(())}
    never_equal(tmp_path, before, after, "output.values")


def test_a_map_keyed_by_numbers_is_not_one_keyed_by_text(tmp_path: Path) -> None:
    """A lookup would fail."""
    before: Value = {1: floats(0.5).reshape(())}
    after: Value = {"1": floats(0.5).reshape(())}
    never_equal(tmp_path, before, after, "output.dtype")


def test_one_row_of_a_zipmap_with_a_missing_key_fails(tmp_path: Path) -> None:
    """One item of a batch lost a class."""
    row: Value = {0: floats(0.5).reshape(()), 1: floats(0.5).reshape(())}
    less: Value = {0: floats(0.5).reshape(())}
    found = compared(tmp_path, {"y": [row, row]}, {"y": [row, less]})
    refused(found, "output.parts")


def test_an_absent_optional_is_not_a_value(tmp_path: Path) -> None:
    """Nothing is not zero, not an empty tensor and not an empty sequence."""
    for index, value in enumerate((floats(0.0), floats(), [], {})):
        never_equal(tmp_path / f"lost{index}", value, None, "output.parts")
        never_equal(tmp_path / f"found{index}", None, value, "output.parts")


# Where and whether it ran.


def test_a_provider_that_was_not_used_fails(tmp_path: Path) -> None:
    """The GPU was asked for, the CPU answered, and answered right."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    found = judged(
        observation(left, case_run(left, "c", {"y": Y})),
        observation(
            right,
            case_run(right, "c", {"y": Y}),
            providers_requested=("CUDAExecutionProvider",),
            warnings=("starting", "libcublasLt.so.13: cannot open shared object file"),
        ),
    )
    refused(found, "provider.missing")
    assert PROVIDER in against(found)[0].evidence
    assert "libcublasLt.so.13" in against(found)[0].evidence


def test_a_baseline_on_another_provider_settles_nothing(tmp_path: Path) -> None:
    """Compared with something else than what was asked for."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    found = judged(
        observation(left, case_run(left, "c", {"y": Y}), providers_used=()),
        observation(right, case_run(right, "c", {"y": Y})),
    )
    refused(found, "provider.missing", outcome=Outcome.INCONCLUSIVE)


ENDINGS = [
    (RunStatus.OK, RunStatus.ERROR, Outcome.FAIL),
    (RunStatus.OK, RunStatus.CRASH, Outcome.FAIL),
    (RunStatus.OK, RunStatus.TIMEOUT, Outcome.FAIL),
    (RunStatus.OK, RunStatus.PROTOCOL, Outcome.FAIL),
    (RunStatus.ERROR, RunStatus.CRASH, Outcome.FAIL),
    (RunStatus.ERROR, RunStatus.TIMEOUT, Outcome.FAIL),
    (RunStatus.ERROR, RunStatus.ERROR, Outcome.INCONCLUSIVE),
    (RunStatus.CRASH, RunStatus.CRASH, Outcome.INCONCLUSIVE),
    (RunStatus.CRASH, RunStatus.ERROR, Outcome.INCONCLUSIVE),
    (RunStatus.TIMEOUT, RunStatus.TIMEOUT, Outcome.INCONCLUSIVE),
    (RunStatus.ERROR, RunStatus.OK, Outcome.INCONCLUSIVE),
    (RunStatus.CRASH, RunStatus.OK, Outcome.INCONCLUSIVE),
    (RunStatus.NOT_RUN, RunStatus.OK, Outcome.INCONCLUSIVE),
    (RunStatus.OK, RunStatus.NOT_RUN, Outcome.INCONCLUSIVE),
    (RunStatus.NOT_RUN, RunStatus.NOT_RUN, Outcome.INCONCLUSIVE),
]


@pytest.mark.parametrize(("before", "after", "outcome"), ENDINGS)
def test_a_case_that_did_not_end_well_is_no_pass(
    tmp_path: Path, before: RunStatus, after: RunStatus, outcome: Outcome
) -> None:
    """The candidate alone fails; where the baseline has no answer either, nothing is known."""
    sides = []
    for name, status in (("baseline", before), ("candidate", after)):
        folder = tmp_path / name
        ran = status is RunStatus.OK
        case = case_run(folder, "c", {"y": Y}) if ran else failed_run("c", status)
        sides.append(observation(folder, case))
    found = judged(*sides)
    assert found.outcome is outcome
    assert len(against(found)) == 1
    assert "last words" in against(found)[0].evidence


@pytest.mark.parametrize(("before", "after", "outcome"), ENDINGS[:12])
def test_a_model_that_did_not_load_is_no_pass(
    tmp_path: Path, before: RunStatus, after: RunStatus, outcome: Outcome
) -> None:
    """The same rules hold for loading; no case is judged then."""
    sides = [
        observation(tmp_path, load=status, load_message="last words") for status in (before, after)
    ]
    found = judged(*sides)
    assert found.outcome is outcome
    assert {f.id.rpartition("load.")[2] for f in against(found)} <= {before.value, after.value}
    assert all("last words" in f.evidence for f in against(found))


def test_unreadable_outputs_are_no_pass(tmp_path: Path) -> None:
    """A file that was cut short on its way is no evidence, though its record is complete."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    sides = [observation(side, case_run(side, "c", {"y": Y, "z": Y})) for side in (left, right)]
    (right / "c_o1.bin").write_bytes(b"\0" * 7)
    refused(judged(*sides), "case.unreadable", outcome=Outcome.INCONCLUSIVE)


def test_one_bad_run_of_many_fails(tmp_path: Path) -> None:
    """The first run agrees, a later one of the same input does not."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    found = judged(
        observation(left, case_run(left, "c", {"y": Y})),
        observation(right, case_run(right, "c", {"y": Y}, {"y": Y}, {"y": 2 * Y})),
    )
    refused(found, "output.values")
    assert [f.id for f in found.findings if f.advisory] == ["repeat.differs"]


def test_one_bad_case_among_good_ones_fails(tmp_path: Path) -> None:
    """An average over cases is no verdict."""
    left, right = tmp_path / "baseline", tmp_path / "candidate"
    names = [f"c{number}" for number in range(20)]
    found = judged(
        observation(left, *(case_run(left, name, {"y": Y}) for name in names)),
        observation(right, *(case_run(right, n, {"y": 2 * Y if n == "c7" else Y}) for n in names)),
        expected=names,
    )
    refused(found, "output.values")
    assert found.rows[0].worst is not None
    assert found.rows[0].worst.subject.case == "c7"


def test_a_flip_inside_the_tolerance_is_reported(tmp_path: Path) -> None:
    """Every number is close, the class is another: the run passes with a warning that says so."""
    left, right = floats(0.5, 0.499999).reshape(1, 2), floats(0.499999, 0.5).reshape(1, 2)
    found = compared(tmp_path, {"y": left}, {"y": right})
    assert found.outcome is Outcome.PASS
    warnings = [f for f in found.findings if f.advisory]
    assert [(f.id, f.outcome, f.measured) for f in warnings] == [
        ("decision.argmax", Outcome.FAIL, 1.0)
    ]
    assert "from 0 to 1" in warnings[0].evidence


# The counterparts: what must pass, or the rules above are worth nothing.


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        pytest.param(floats(NAN, 1, NAN), floats(NAN, 1, NAN), id="equal NaNs"),
        pytest.param(floats(INF, -INF), floats(INF, -INF), id="equal infinities"),
        pytest.param(floats(NAN), floats(-NAN), id="NaN of another sign"),
        pytest.param(floats(), floats(), id="empty"),
        pytest.param(np.zeros((0, 5, 2)), np.zeros((0, 5, 2)), id="empty with a shape"),
        pytest.param(texts(), texts(), id="no strings"),
        pytest.param(floats(0.0, -0.0), floats(-0.0, 0.0), id="zeros of either sign"),
        pytest.param(np.float32(1.5).reshape(()), np.float32(1.5).reshape(()), id="scalar"),
        pytest.param(Y, Y * np.float32(1 + 2e-6), id="rounding noise"),
        pytest.param(texts("größe", "\U0001f600"), texts("größe", "\U0001f600"), id="strings"),
        pytest.param(None, None, id="absent"),
        pytest.param([], [], id="empty sequence"),
        pytest.param({}, {}, id="empty map"),
        pytest.param([Y, texts("a"), [Y]], [Y, texts("a"), [Y]], id="nested sequence"),
        pytest.param({"a": floats(1), 2: None}, {2: None, "a": floats(1)}, id="map in any order"),
    ],
)
def test_what_agrees_passes(tmp_path: Path, baseline: Value, candidate: Value) -> None:
    """Equal patterns, empty outputs and differences that rounding explains."""
    found = compared(tmp_path, {"y": baseline}, {"y": candidate})
    assert found.outcome is Outcome.PASS
    assert against(found) == []
    assert found.rows[0].outcome is Outcome.PASS
    assert (found.rows[0].cases, found.rows[0].cases_expected) == (1, 1)


def test_several_cases_that_agree_pass(tmp_path: Path) -> None:
    """Each with outputs of its own shape."""
    outputs: list[dict[str, Value]] = [{"y": floats(*range(n)), "n": Y} for n in range(3)]
    sides = [
        observation(side, *(case_run(side, f"c{n}", o) for n, o in enumerate(outputs)))
        for side in (tmp_path / "baseline", tmp_path / "candidate")
    ]
    found = judged(*sides, expected=("c0", "c1", "c2"))
    assert found.outcome is Outcome.PASS
    assert len(found.outputs) == 6


@pytest.mark.parametrize("mask", [-1e9, -1e10, -3.4028235e38])
def test_logits_beside_a_mask_fail(tmp_path: Path, mask: float) -> None:
    """The value of a mask is no scale for the logits beside it."""
    found = compared(tmp_path, {"y": floats(mask, 1, 2, 3)}, {"y": floats(mask, 3, 1, 2)})
    refused(found, "output.values")
