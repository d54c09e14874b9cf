"""What a config says of tests of single operators, and which of two rules is the looser one."""

from dataclasses import replace
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config import load
from ci_parity.config.model import CoveragePolicy
from ci_parity.config.policy_order import Order, policy_changes
from ci_parity.config.strictest import guarded
from tests.unit.config.test_placement import deployment

FULL = {"measure": True, "failing": "fail", "untested": "warn"}


def test_nothing_is_measured_unless_it_is_asked_for() -> None:
    """And a config without a word of it is the same policy as before there was one."""
    assert load.policy({}).coverage == CoveragePolicy(
        measure=False, failing="fail", untested="warn"
    )
    assert "coverage" not in deployment().policy_json


def test_what_is_left_out_has_its_default() -> None:
    """Of a rule that is there."""
    found = load.policy({"coverage": {"measure": True}}).coverage
    assert found == CoveragePolicy(measure=True, failing="fail", untested="warn")


@pytest.mark.parametrize(
    "raw", [{"failing": "ignore"}, {"untested": "fail"}, {"measure": "kept"}, {"measured": True}]
)
def test_a_rule_that_is_none_is_refused(raw: dict[str, Any]) -> None:
    """What fails cannot be ignored."""
    with pytest.raises(ConfigError):
        load.policy({"coverage": raw})


@pytest.mark.parametrize(
    ("changed", "order"),
    [
        ({"measure": False}, Order.LOOSER),
        ({"failing": "warn"}, Order.LOOSER),
        ({"untested": "ignore"}, Order.LOOSER),
    ],
)
def test_what_says_less_is_looser(changed: dict[str, Any], order: Order) -> None:
    """And the way back is tighter."""
    before, after = {"coverage": FULL}, {"coverage": FULL | changed}
    assert [change.order for change in policy_changes(before, after)] == [order]
    assert [change.order for change in policy_changes(after, before)] == [Order.TIGHTER]


def test_a_rule_that_is_gone_is_looser() -> None:
    """One that comes is tighter."""
    gone = policy_changes({"coverage": FULL}, {})
    assert {change.order for change in gone} == {Order.LOOSER}
    assert {c.order for c in policy_changes({}, {"coverage": FULL})} == {Order.TIGHTER}


def test_a_candidate_is_judged_by_what_it_loosened() -> None:
    """The baseline's value counts there, its own elsewhere."""
    base, own = deployment(), deployment()
    base = replace(base, policy=replace(base.policy, coverage=CoveragePolicy(measure=True)))
    own = replace(
        own, policy=replace(own.policy, coverage=CoveragePolicy(measure=False, untested="ignore"))
    )
    before = {"coverage": FULL | {"untested": "ignore"}}
    after = {"coverage": {"measure": False, "failing": "fail", "untested": "ignore"}}
    policy, _ = guarded(own, base, policy_changes(before, after))
    assert policy.coverage == CoveragePolicy(measure=True, failing="fail", untested="ignore")
