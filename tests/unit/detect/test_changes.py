"""Identities against a baseline's, axis by axis."""

from dataclasses import replace

import pytest

from ci_parity.base.canonical import canonical_bytes
from ci_parity.detect.changes import compare_identities, forced
from ci_parity.records.condensed import condense
from ci_parity.records.identity import Axis, BaselineSource, Identity

SOURCE = BaselineSource(kind="log", label="record 3")
IDENTITY = Identity(
    target="cpu",
    variant="int8",
    model="a" * 64,
    runtime="onnxruntime==1.31.1",
    provider="CPUExecutionProvider",
    options='{"provider":{},"session":{"intra_op_num_threads":1}}',
    optimization="b" * 64,
    fixtures="c" * 64,
    policy='{"repeat":1,"tolerance":"ladder"}',
)


def test_equal_identities_need_no_run() -> None:
    """The same facts on both sides are no change."""
    changes = compare_identities(SOURCE, [IDENTITY], [IDENTITY])
    assert changes.changes == ()
    assert not changes.must_run


@pytest.mark.parametrize(
    ("difference", "axis", "before", "after"),
    [
        ({"model": "e" * 64}, Axis.MODEL, "a" * 12, "e" * 12),
        ({"runtime": "onnxruntime==1.32.0"}, Axis.RUNTIME, IDENTITY.runtime, "onnxruntime==1.32.0"),
        (
            {"provider": "CUDAExecutionProvider"},
            Axis.RUNTIME,
            "CPUExecutionProvider",
            "CUDAExecutionProvider",
        ),
        (
            {"options": '{"provider":{},"session":{"intra_op_num_threads":4}}'},
            Axis.OPTIMIZATION,
            "intra_op_num_threads=1",
            "intra_op_num_threads=4",
        ),
        (
            {"options": '{"provider":{"device_id":"1"},"session":{"intra_op_num_threads":1}}'},
            Axis.OPTIMIZATION,
            "device_id=(default)",
            "device_id=1",
        ),
        ({"optimization": ""}, Axis.OPTIMIZATION, "recipe " + "b" * 12, "recipe (none)"),
        ({"fixtures": "e" * 64}, Axis.FIXTURES, "c" * 12, "e" * 12),
        (
            {"policy": '{"repeat":1,"tolerance":{"rtol":0.1}}'},
            Axis.POLICY,
            "tolerance=ladder, tolerance.rtol=(default)",
            "tolerance=(default), tolerance.rtol=0.1",
        ),
    ],
)
def test_each_axis_alone(difference: dict[str, str], axis: Axis, before: str, after: str) -> None:
    """A difference on one axis is that axis' and no other's."""
    changes = compare_identities(SOURCE, [IDENTITY], [replace(IDENTITY, **difference)])
    assert [(c.axis, c.before, c.after) for c in changes.changes] == [(axis, before, after)]
    assert changes.must_run


def test_several_axes_at_once() -> None:
    """Each axis that moved is listed once."""
    moved = replace(IDENTITY, model="e" * 64, runtime="onnxruntime==1.32.0", policy="{}")
    changes = compare_identities(SOURCE, [IDENTITY], [moved])
    assert [c.axis for c in changes.changes] == [Axis.RUNTIME, Axis.MODEL, Axis.POLICY]


def test_no_baseline_runs_everything_without_inventing_changes() -> None:
    """Without a baseline there is nothing to differ from, and everything must run."""
    changes = compare_identities(BaselineSource(kind="none", reason="first"), [], [IDENTITY])
    assert changes.changes == ()
    assert changes.must_run


def test_a_new_target_and_a_removed_one_are_changes() -> None:
    """What only one side has is listed and makes a run necessary."""
    added = replace(IDENTITY, target="gpu")
    changes = compare_identities(SOURCE, [IDENTITY], [added])
    assert {(c.target, c.before, c.after) for c in changes.changes} == {
        ("gpu", "(none)", "a" * 12),
        ("cpu", "a" * 12, "(none)"),
    }
    assert changes.must_run
    assert changes.baselines == ()


def test_forced_keeps_the_differences_and_says_why() -> None:
    """An order to run changes nothing but the decision."""
    changes = forced(compare_identities(SOURCE, [IDENTITY], [IDENTITY]), "asked to")
    assert changes.must_run
    assert changes.changes == ()
    assert changes.source.reason == "asked to"


def facts(**values: str) -> str:
    """Return facts as an identity keeps them."""
    return canonical_bytes(values).decode()


@pytest.mark.parametrize(
    ("field", "axis"),
    [("converter", Axis.CONVERTER), ("components", Axis.RUNTIME), ("host", Axis.DRIVER)],
)
def test_facts_known_on_both_sides_are_compared(field: str, axis: Axis) -> None:
    """A fact that differs is a change of its axis, with the fact before and after."""
    sides = [replace(IDENTITY, **{field: facts(a="1", b=value)}) for value in ("2", "3")]
    (change,) = compare_identities(SOURCE, [sides[0]], [sides[1]]).changes
    assert (change.axis, change.before, change.after) == (axis, "b=2", "b=3")


@pytest.mark.parametrize("field", ["converter", "components", "host"])
def test_facts_unknown_on_one_side_are_no_change(field: str) -> None:
    """What was not known before cannot be said to have changed."""
    known = replace(IDENTITY, **{field: facts(a="1")})
    assert not compare_identities(SOURCE, [IDENTITY], [known]).must_run
    assert not compare_identities(SOURCE, [known], [IDENTITY]).must_run


def test_condensed_facts_still_tell_two_identities_apart() -> None:
    """Facts that did not fit into the log are compared by their digest."""
    text = facts(a="1", b="2")
    before = replace(IDENTITY, host=condense(text))
    assert not compare_identities(SOURCE, [before], [replace(IDENTITY, host=text)]).must_run
    moved = replace(IDENTITY, host=facts(a="1", b="3"))
    (change,) = compare_identities(SOURCE, [before], [moved]).changes
    assert change.axis is Axis.DRIVER
    assert change.before != change.after


def test_a_bumped_runtime_is_not_compared_file_by_file() -> None:
    """The components of another version differ of course; the requirement says it."""
    before = replace(IDENTITY, components=facts(a="1"))
    after = replace(IDENTITY, runtime="onnxruntime==1.32.0", components=facts(a="2"))
    (change,) = compare_identities(SOURCE, [before], [after]).changes
    assert change.after == "onnxruntime==1.32.0"


def test_a_condensed_policy_still_differs() -> None:
    """A policy too long for the log is compared by its digest."""
    before = replace(IDENTITY, policy=condense(IDENTITY.policy))
    assert not compare_identities(SOURCE, [before], [IDENTITY]).must_run
    (change,) = compare_identities(SOURCE, [before], [replace(IDENTITY, policy="{}")]).changes
    assert change.axis is Axis.POLICY
