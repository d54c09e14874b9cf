"""Identities against a baseline's, axis by axis."""

from dataclasses import replace

import pytest

from ci_parity.detect.changes import compare_identities, forced
from ci_parity.records.identity import Axis, BaselineSource, Identity

SOURCE = BaselineSource(kind="log", label="line 3")
IDENTITY = Identity(
    target="cpu",
    variant="int8",
    model="a" * 64,
    runtime="onnxruntime==1.31.1",
    provider="CPUExecutionProvider",
    options='{"provider":{},"session":{"intra_op_num_threads":1}}',
    optimization="b" * 64,
    fixtures="c" * 64,
    policy="d" * 64,
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
        ({"policy": "e" * 64}, Axis.POLICY, "d" * 12, "e" * 12),
    ],
)
def test_each_axis_alone(difference: dict[str, str], axis: Axis, before: str, after: str) -> None:
    """A difference on one axis is that axis' and no other's."""
    changes = compare_identities(SOURCE, [IDENTITY], [replace(IDENTITY, **difference)])
    assert [(c.axis, c.before, c.after) for c in changes.changes] == [(axis, before, after)]
    assert changes.must_run


def test_several_axes_at_once() -> None:
    """Each axis that moved is listed once."""
    moved = replace(IDENTITY, model="e" * 64, runtime="onnxruntime==1.32.0", policy="f" * 64)
    changes = compare_identities(SOURCE, [IDENTITY], [moved])
    assert [c.axis for c in changes.changes] == [Axis.MODEL, Axis.RUNTIME, Axis.POLICY]


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
