import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ci_parity.compare import metrics
from ci_parity.compare.tolerance import Calibrated, Limits, Linear, Settled, Tolerated, rule_for
from ci_parity.config.load import policy
from ci_parity.config.model import Policy, Tolerance
from ci_parity.records.noise import (
    CaseFloors,
    NoiseFloors,
    OutputFloor,
    OutputStep,
    Precision,
    group_axis,
)
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ELEMENT_TYPES, element_type
from tests.support.observations import compared, floats

DOCUMENT = Path(__file__).parents[3] / "docs" / "tolerances.md"
# 2^-(p-1), the spacing of the numbers at 1.
SPACING = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
    "complex64": 2.0**-23, "complex128": 2.0**-52, "float8e4m3fn": 2.0**-3,
    "float8e4m3fnuz": 2.0**-3, "float8e5m2": 2.0**-2, "float8e5m2fnuz": 2.0**-2,
}  # fmt: skip


def documented() -> dict[str, tuple[float, float]]:
    """Return the table of docs/tolerances.md: element type to rtol and fraction of the scale."""
    number = r"([0-9.e-]+)"
    row = re.compile(rf"^\| ([a-z0-9, ]+) \| {number} \| {number} \|$", re.MULTILINE)
    return {
        dtype.strip(): (float(rtol), float(fraction))
        for dtypes, rtol, fraction in row.findall(DOCUMENT.read_text("utf-8"))
        for dtype in dtypes.split(",")
    }


def test_the_ladder_is_the_documented_one() -> None:
    """The page names every rung; float8 and float4 stand for their families."""
    table = documented()
    assert set(table) >= {"float64", "float32", "float16", "bfloat16", "float8", "float4"}
    for dtype in ELEMENT_TYPES:
        family = next((name for name in table if dtype.startswith(name)), None)
        if dtype in table or family:
            rule = rule_for(None, dtype)
            assert (rule.rtol, rule.fraction) == table[dtype if dtype in table else str(family)]
            assert rule.atol == 0


@pytest.mark.parametrize("dtype", SPACING)
def test_a_rung_is_neither_below_rounding_nor_without_meaning(dtype: str) -> None:
    """One rounding passes at every rung, a difference of the whole scale at none."""
    rule = rule_for(None, dtype)
    assert SPACING[dtype] <= rule.rtol < 0.5
    assert rule.fraction <= rule.rtol


def test_an_explicit_tolerance_replaces_the_ladder() -> None:
    """Nothing of the ladder is left over, at any precision."""
    for dtype in SPACING:
        rule = rule_for(Tolerance(rtol=0.5, atol=0.25), dtype)
        assert (rule.rtol, rule.atol, rule.fraction, rule.source) == (0.5, 0.25, 0.0, "policy")


@pytest.mark.parametrize(
    ("tolerance", "leading", "text"),
    [
        (Tolerance(rtol=1e-3, atol=1e-5), 1e-3, "rtol 0.001, atol 1e-05 (policy)"),
        (Tolerance(atol=0.5), 0.5, "rtol 0, atol 0.5 (policy)"),
        (Tolerance(), 0.0, "rtol 0, atol 0 (policy)"),
        (None, 1e-4, "rtol 0.0001, atol 2e-05 of scale (float32 ladder)"),
    ],
)
def test_a_rule_says_what_it_applies(
    tolerance: Tolerance | None, leading: float, text: str
) -> None:
    """The number a user would set, and both numbers with their origin."""
    rule = rule_for(tolerance, "float32")
    assert (rule.leading, str(rule)) == (leading, text)


def test_an_outputs_own_tolerance_precedes_the_policys(tmp_path: Path) -> None:
    """One output has its own number, the other the policy's."""
    limits = policy({"tolerance": {"atol": 0.5}, "outputs": {"strict": {"atol": 0.01}}})
    left, right = floats(1.0), floats(1.1)
    found = compared(
        tmp_path, {"strict": left, "loose": left}, {"strict": right, "loose": right}, policy=limits
    )
    assert [(o.subject.output, o.outcome, o.limit) for o in found.outputs] == [
        ("strict", Outcome.FAIL, 0.01),
        ("loose", Outcome.PASS, 0.5),
    ]


def test_an_outputs_own_tolerance_covers_its_parts(tmp_path: Path) -> None:
    """The items of a sequence obey the tolerance of the output they belong to."""
    limits = policy({"outputs": {"y": {"atol": 0.5}}})
    found = compared(tmp_path, {"y": [floats(1.0)]}, {"y": [floats(1.1)]}, policy=limits)
    assert found.outcome is Outcome.PASS
    assert {o.limit for o in found.outputs if o.subject.output == "y[0]"} == {0.5}


def test_no_tolerance_reaches_integers(tmp_path: Path) -> None:
    """A class label is not off by one."""
    limits = policy({"tolerance": {"rtol": 1, "atol": 100}})
    one, two = np.array([1]), np.array([2])
    found = compared(tmp_path, {"y": one}, {"y": two}, policy=limits)
    assert (found.outcome, found.outputs[0].rule, found.outputs[0].limit) == (
        Outcome.FAIL, "exact", 0.0,
    )  # fmt: skip


# Which tolerance an output gets.

CALIBRATED = policy({"tolerance": "calibrated"})


def measured_floors(at: Path, baseline: Any, spread: float = 1e-5, **changes: Any) -> NoiseFloors:
    """Return the floors of one case, `c`, with one output, `y`, that spreads evenly."""
    np.full(baseline.shape, spread, "<f4").tofile(at / "c0_n0.f32")
    axis = group_axis(baseline.shape)
    groups = baseline.shape[axis] if axis is not None else 1
    output = OutputFloor(
        output="y", shape=baseline.shape, file="c0_n0.f32", axis=axis, peaks=(spread,) * groups
    )
    usual: dict[str, Any] = {
        "folder": str(at), "precision": Precision.FLOAT32, "seeds": 8,
        "cases": (CaseFloors(case="c", outputs=(output,)),),
    }  # fmt: skip
    return NoiseFloors(**(usual | changes))


def tolerated(
    baseline: Any, measured: NoiseFloors | None, rules: Policy = CALIBRATED, *, case: str = "c",
    path: str = "y",
) -> Tolerated:  # fmt: skip
    """Return the tolerance of an output."""
    return Limits(policy=rules, floors=measured).of(case, path.partition("[")[0], path, baseline)


def settled(found: Tolerated, baseline: Any, candidate: Any) -> Settled:
    """Return what a tolerance makes of a candidate."""
    measured = metrics.float_metrics(baseline, candidate, found.allowance)
    return found.settle(measured, candidate)


def ladder_of(found: Tolerated) -> str:
    """Return where the numbers of a linear rule come from."""
    assert isinstance(found, Linear)
    return found.rule.source


def test_a_calibrated_output_is_judged_in_noise_measured_floors(tmp_path: Path) -> None:
    """Five of them are too many, one is not; the rule says all about it."""
    baseline = floats(*np.linspace(-1, 1, 200))
    found = tolerated(baseline, measured_floors(tmp_path, baseline))
    near = settled(found, baseline, baseline + np.float32(1e-5))
    far = settled(found, baseline, baseline + np.float32(5e-5))
    assert (near.outcome, far.outcome) == (Outcome.PASS, Outcome.FAIL)
    assert near.unit == far.unit == "x noise"
    assert far.limit == pytest.approx(4, rel=0.01)
    assert far.required == pytest.approx(5, rel=0.01)
    assert far.rule.startswith("calibrated: 5 x noise as a whole, allowed 4.03; worst element ")
    assert far.rule.endswith("x, allowed 64; noise 1e-05 of scale, float32, 8 seeds")


def test_an_element_that_used_more_of_its_limit_is_named(tmp_path: Path) -> None:
    """Its limit and the number that would have passed are those of the element."""
    baseline = floats(*np.linspace(-1, 1, 100_000))
    candidate = baseline.copy()
    candidate[7] += np.float32(1e-3)
    made = settled(tolerated(baseline, measured_floors(tmp_path, baseline)), baseline, candidate)
    assert (made.outcome, made.limit) == (Outcome.FAIL, 64)
    assert made.required == pytest.approx(100, rel=0.01)


def test_explicit_numbers_and_the_ladder_are_asked_for_by_output(tmp_path: Path) -> None:
    """Whatever was measured."""
    baseline = floats(1.0, 2.0)
    measured = measured_floors(tmp_path, baseline)
    given = policy({"outputs": {"y": {"atol": 0.5}}})
    assert ladder_of(tolerated(baseline, measured, given)) == "policy"
    ladder = policy({"outputs": {"y": "ladder"}})
    assert ladder_of(tolerated(baseline, measured, ladder)) == "float32 ladder"
    other = policy({"tolerance": "ladder", "outputs": {"y": "calibrated"}})
    assert isinstance(tolerated(baseline, measured, other), Calibrated)


@pytest.mark.parametrize("precision", Precision)
def test_the_ladder_has_the_rung_of_the_coarsest_precision(
    precision: Precision, tmp_path: Path
) -> None:
    """Of the output's own type and of the way to it."""
    baseline = floats(1.0, 2.0)
    measured = measured_floors(tmp_path, baseline, precision=precision)
    found = tolerated(baseline, measured, policy({"tolerance": "ladder"}))
    assert isinstance(found, Linear)
    own = precision in {Precision.FLOAT64, Precision.FLOAT32}
    assert found.rule.source == ("float32 ladder" if own else f"{precision.value} ladder")
    assert (found.rule.rtol, found.rule.fraction) == (
        rule_for(None, "float32").rtol if own else found.rule.rtol,
        rule_for(None, "float32").fraction if own else found.rule.fraction,
    )
    assert own or found.rule.fraction > rule_for(None, "float32").fraction


# What was not measured is said, and judged by the ladder.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"failure": "the graph uses opset 7"}, "the graph uses opset 7"),
        ({"cases": ()}, "no such case"),
        ({"cases": (CaseFloors(case="c", failure="out of memory"),)}, "out of memory"),
        ({"cases": (CaseFloors(case="c"),)}, "no such output, of one shape, in perturbed runs"),
        ({"folder": "/nowhere"}, "No such file"),
    ],
    ids=["model", "case", "failed", "output", "file"],
)
def test_without_a_floor_the_ladder_stands_in(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """On the rung of the effective precision; the reason stands in the rule."""
    baseline = floats(1.0, 2.0)
    measured = measured_floors(tmp_path, baseline, precision=Precision.FLOAT16, **changes)
    found = tolerated(baseline, measured)
    source = ladder_of(found)
    assert source.startswith("float16 ladder; noise not measured: ")
    assert words in source
    assert words in settled(found, baseline, baseline).rule


def test_without_any_measurement_the_ladder_stands_in() -> None:
    """As where nothing could be run."""
    assert ladder_of(tolerated(floats(1.0), None)) == "float32 ladder; noise not measured"


@pytest.mark.parametrize("size", [0, 3, 5, 800])
def test_a_file_of_another_size_is_no_floor(size: int, tmp_path: Path) -> None:
    """It is not read as if it were one."""
    baseline = floats(1.0, 2.0, 3.0, 4.0)
    measured = measured_floors(tmp_path, baseline, 1e3)
    np.full(size, 1e3, "<f4").tofile(tmp_path / "c0_n0.f32")
    assert "noise not measured" in ladder_of(tolerated(baseline, measured))


def test_another_shape_is_another_output(tmp_path: Path) -> None:
    """A floor of as many elements says nothing of them."""
    measured = measured_floors(tmp_path, np.zeros((2, 3), np.float32))
    assert "no such output" in ladder_of(tolerated(np.zeros((3, 2), np.float32), measured))
    assert "no such output" in ladder_of(
        tolerated(np.zeros((2, 3), np.float32), measured, path="z")
    )


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2fnuz"])
@pytest.mark.parametrize("exact", [False, True])
def test_outputs_of_eight_bit_floats_have_the_ladder(
    dtype: str, tmp_path: Path, *, exact: bool
) -> None:
    """In units of a floor that is a third of the scale, zeros would pass."""
    baseline = np.linspace(0, 4, 50).astype(getattr(ml_dtypes, dtype))
    found = tolerated(baseline, measured_floors(tmp_path, baseline, exact=exact))
    assert "too few numbers for a noise floor" in ladder_of(found)
    assert settled(found, baseline, np.zeros_like(baseline)).outcome is Outcome.FAIL


# What is judged of it.


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_lost_number_fails_whatever_the_noise(bad: float, tmp_path: Path) -> None:
    """On either side; one that both have does not."""
    baseline = floats(*np.linspace(-1, 1, 50))
    candidate = baseline.copy()
    candidate[3] = bad
    for left, right in ((baseline, candidate), (candidate, baseline)):
        made = settled(tolerated(left, measured_floors(tmp_path, left, 10.0)), left, right)
        assert (made.outcome, made.required) == (Outcome.FAIL, None)
    both = tolerated(candidate, measured_floors(tmp_path, candidate))
    assert settled(both, candidate, candidate.copy()).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("spread", "shift", "outcome"),
    [
        (0.3, 0.0, Outcome.PASS), (0.3, 0.01, Outcome.INCONCLUSIVE), (0.3, 50.0, Outcome.FAIL),
        (0.2, 0.01, Outcome.INCONCLUSIVE), (0.1, 0.01, Outcome.PASS), (0.1, 5.0, Outcome.FAIL),
        (1e30, 1e6, Outcome.INCONCLUSIVE), (3e38, 3.0, Outcome.INCONCLUSIVE),
    ],
)  # fmt: skip
def test_too_much_noise_is_inconclusive(
    spread: float, shift: float, outcome: Outcome, tmp_path: Path
) -> None:
    """Unless both sides are equal, or too far from each other even so.

    At a fifth of the scale an output of zeros would pass: nothing was tested.
    """
    baseline = floats(*np.linspace(-1, 1, 400))
    made = settled(
        tolerated(baseline, measured_floors(tmp_path, baseline, spread)), baseline,
        baseline + np.float32(shift),
    )  # fmt: skip
    assert made.outcome is outcome


def test_too_much_noise_is_inconclusive_also_where_zeros_would_fail(tmp_path: Path) -> None:
    """What differs less than zeros do was not tested."""
    baseline = floats(*[1.0, -1.0] * 200)
    found = tolerated(baseline, measured_floors(tmp_path, baseline, 0.3, rounding=True))
    assert settled(found, baseline, np.zeros_like(baseline)).outcome is Outcome.FAIL
    assert settled(found, baseline, baseline * 0.9).outcome is Outcome.INCONCLUSIVE


def test_zeros_that_the_noise_makes_something_are_inconclusive(tmp_path: Path) -> None:
    """There is nothing to relate it to, and everything would pass."""
    zeros = np.zeros(50, np.float32)
    found = tolerated(zeros, measured_floors(tmp_path, zeros, 1e20))
    assert settled(found, zeros, zeros.copy()).outcome is Outcome.PASS
    assert settled(found, zeros, zeros + np.float32(1e19)).outcome is Outcome.INCONCLUSIVE


def test_nothing_of_zeros_passes_where_a_floor_is_judged(tmp_path: Path) -> None:
    """Whatever the noise: zeros in place of an output are never a pass."""
    baseline = floats(*np.linspace(-1, 1, 400))
    for spread in np.geomspace(1e-9, 1e9, 60):
        found = tolerated(baseline, measured_floors(tmp_path, baseline, float(spread)))
        assert settled(found, baseline, np.zeros_like(baseline)).outcome is not Outcome.PASS


def test_an_exact_graph_says_so(tmp_path: Path) -> None:
    """Its floor is 0; files are not needed, nor a step allowed."""
    baseline = floats(*np.linspace(-1, 1, 50))
    measured = measured_floors(
        tmp_path,
        baseline,
        exact=True,
        cases=(),
        folder="/nowhere",
        steps=(OutputStep(output="y", step=0.5),),
    )
    found = tolerated(baseline, measured)
    made = settled(found, baseline, baseline + np.float32(1e-4))
    assert made.outcome is Outcome.FAIL
    assert made.rule.endswith("exact graph")
    assert settled(found, baseline, np.nextafter(baseline, 2)).outcome is Outcome.PASS


def test_a_graph_that_rounds_allows_less_noise_and_one_step(tmp_path: Path) -> None:
    """By the step of that output alone."""
    baseline = floats(*np.linspace(-1, 1, 400))
    smooth = measured_floors(tmp_path, baseline, 1e-3)
    rounding = replace(smooth, rounding=True)
    stepped = replace(
        rounding, steps=(OutputStep(output="y", step=0.5), OutputStep(output="z", step=9.0))
    )
    shift, single = np.float32(3e-3), baseline.copy()
    single[5] += np.float32(0.5)
    passes = [
        settled(tolerated(baseline, m), baseline, c).outcome is Outcome.PASS
        for m in (smooth, rounding, stepped)
        for c in (baseline + shift, single)
    ]
    assert passes == [True, False, False, False, True, True]


def test_a_single_fault_in_a_bfloat16_output_is_seen(tmp_path: Path) -> None:
    """64 units of its grain would be most of its scale."""
    kind = np.dtype(ml_dtypes.bfloat16)
    baseline = np.linspace(-1, 1, 2000).astype(kind)
    candidate = baseline.copy()
    candidate[100] = kind.type(float(baseline[100]) + 0.3)
    assert element_type(baseline) == "bfloat16"
    found = tolerated(baseline, measured_floors(tmp_path, baseline, 1e-4))
    assert settled(found, baseline, candidate).outcome is Outcome.FAIL
    one = (baseline.astype(np.float32) * np.float32(1 + 2**-8)).astype(kind)
    assert settled(found, baseline, one).outcome is Outcome.PASS
