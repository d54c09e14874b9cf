import re
from pathlib import Path

import numpy as np
import pytest

from ci_parity.compare.tolerance import rule_for
from ci_parity.config.load import policy
from ci_parity.config.model import Tolerance
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ELEMENT_TYPES
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
