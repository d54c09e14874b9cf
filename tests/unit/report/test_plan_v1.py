"""A plan out and in again, and what is no plan."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.identity import BaselineSource, ChangeSet
from ci_parity.records.plan import Leg, Part, Plan
from ci_parity.report.plan_v1 import read_leg, read_plan, render_plan

SOURCE = BaselineSource(kind="merge-base", label="commit abc", commit="abc")
LEG = Leg(
    name="cpu@1", target="cpu", variants=("exported",), runs_on=("self-hosted",), shard=1, shards=2
)
PLAN = Plan(deployment="ocr", commit="c" * 40, source=SOURCE, drift=False, legs=(LEG,))


def text(change: Callable[[Any], object] = lambda _: None) -> str:
    """Return the plan as JSON, changed."""
    changes = ChangeSet(source=SOURCE, changes=(), identities=(), baselines=(), to_run=())
    value = json.loads(canonical_bytes(render_plan(PLAN, changes)))
    change(value)
    return json.dumps(value)


def test_what_was_written_is_read() -> None:
    """The plan, and each leg of it."""
    assert read_plan(text()) == PLAN
    assert read_leg(json.dumps(json.loads(text())["include"][0])) == LEG


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.update(more=1),
        lambda plan: plan.pop("commit"),
        lambda plan: plan.update(commit="HEAD"),
        lambda plan: plan.update(run=False),
        lambda plan: plan["include"].append(plan["include"][0]),
        lambda plan: plan["include"][0].update(name="../x"),
        lambda plan: plan["include"][0].update(shard=0),
        lambda plan: plan["include"][0].update(variants=[]),
        lambda plan: plan["source"].update(kind="other"),
    ],
)
def test_what_is_no_plan_is_refused(change: Callable[[Any], object]) -> None:
    """With how to pass it on."""
    with pytest.raises(EvidenceError) as caught:
        read_plan(text(change))
    assert "needs.plan.outputs.plan" in caught.value.remedy


@pytest.mark.parametrize("given", ["", "[]", "{}", "{", "null", "{" * 2_000_000])
def test_other_texts_are_refused(given: str) -> None:
    """Whatever comes in their place."""
    with pytest.raises(EvidenceError):
        read_plan(given)
    with pytest.raises(EvidenceError):
        read_leg(given)


def test_parts_deal_every_item_once() -> None:
    """In turn, so that neighbours go to different runners."""
    items = tuple("abcdefg")
    dealt = [Part(number=n, of=3).of_items(items) for n in (1, 2, 3)]
    assert dealt == [("a", "d", "g"), ("b", "e"), ("c", "f")]
    assert Part().of_items(items) == items
