"""The policy that counts where the candidate loosened its own: the stricter of every key."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.config.load import build
from ci_parity.config.model import Contract, Deployment, Policy, Tolerance
from ci_parity.config.policy_order import PolicyChange, loosened
from ci_parity.config.strictest import guarded

STRICT, LAX = {"rtol": 1e-4}, {"rtol": 1e-2}
TIGHT, WIDE = Tolerance(rtol=1e-4), Tolerance(rtol=1e-2)


def deployment(policy: Mapping[str, Any], contract: Mapping[str, Any] | None = None) -> Deployment:
    """Build a deployment with this policy."""
    value = {
        "version": 1,
        "variants": {"exported": {"path": "model.onnx"}},
        "fixtures": "fixtures",
        "policy": policy,
        **({"contract": contract} if contract else {}),
    }
    return build(value, root=Path(), origin="test")


def changes(base: Deployment, own: Deployment) -> tuple[PolicyChange, ...]:
    """Return what the second deployment loosened."""
    return loosened(json.loads(base.policy_json), json.loads(own.policy_json))


def strictest(base: Mapping[str, Any], own: Mapping[str, Any]) -> Policy:
    """Return the policy that counts."""
    sides = deployment(base), deployment(own)
    return guarded(sides[1], sides[0], changes(*sides))[0]


def test_without_loosening_it_is_the_candidates() -> None:
    """What was tightened counts from now on."""
    own = deployment({"tolerance": STRICT, "repeat": 5})
    base = deployment({"tolerance": LAX})
    assert guarded(own, base, changes(base, own)) == (own.policy, own.contract)


@pytest.mark.parametrize(
    ("base", "own", "key", "expected"),
    [
        ({"tolerance": STRICT}, {"tolerance": LAX}, "tolerance", TIGHT),
        ({"tolerance": "calibrated"}, {"tolerance": LAX}, "tolerance", "calibrated"),
        ({"repeat": 5}, {}, "repeat", 5),
        ({"timeout_s": 5}, {"timeout_s": 50}, "timeout_s", 5),
    ],
)
def test_a_loosened_key_is_the_baselines(
    base: Mapping[str, Any], own: Mapping[str, Any], key: str, expected: object
) -> None:
    """And every other the candidate's."""
    own = {**own, "latency": {"enforce": True}}
    policy = strictest(base, own)
    assert getattr(policy, key) == expected
    assert policy.latency.enforce is True


def test_settings_are_taken_one_by_one() -> None:
    """A raised limit does not take a new check away."""
    policy = strictest(
        {"latency": {"max_regression": "5%"}, "self_checks": {"repeat": 4}},
        {
            "latency": {"max_regression": "50%", "enforce": True},
            "self_checks": {"repeat": 1, "rows": True},
        },
    )
    assert (policy.latency.max_regression, policy.latency.enforce) == (0.05, True)
    assert (policy.self_checks.repeat, policy.self_checks.rows) == (4, True)


@pytest.mark.parametrize(
    ("base", "own", "expected"),
    [
        ({"tolerance": STRICT}, {"tolerance": STRICT, "outputs": {"y": LAX}}, TIGHT),
        ({"tolerance": LAX, "outputs": {"y": STRICT}}, {"tolerance": LAX}, TIGHT),
        ({"tolerance": STRICT, "outputs": {"y": LAX}}, {"tolerance": LAX}, WIDE),
        ({"tolerance": LAX}, {"tolerance": "ladder", "outputs": {"y": STRICT}}, TIGHT),
        ({"tolerance": "ladder", "outputs": {"y": STRICT}}, {"outputs": {"y": LAX}}, TIGHT),
    ],
    ids=["added", "removed", "another key", "tightened", "loosened"],
)
def test_an_output_has_the_tolerance_of_its_side(
    base: Mapping[str, Any], own: Mapping[str, Any], expected: Tolerance
) -> None:
    """Whether it has one of its own there, or the policy's."""
    policy = strictest(base, own)
    assert policy.outputs.get("y", policy.tolerance) == expected


def test_decisions_are_taken_whole() -> None:
    """A removed one comes back, a loosened one is the baseline's, an added one stays."""
    policy = strictest(
        {"decisions": {"a": {"top_k": {}}, "b": {"kl": {"max": 0.1}, "top_k": {}}}},
        {"decisions": {"b": {"kl": {"max": 0.5}, "top_k": {"order": True}}, "c": {"top_k": {}}}},
    )
    assert set(policy.decisions) == {"a", "b", "c"}
    both = policy.decisions["b"]
    assert both.kl is not None
    assert both.top_k is not None
    assert (both.kl.max_nats, both.top_k.ordered) == (0.1, False)


def test_boxes_that_became_a_set_are_tensors_again() -> None:
    """A decision that stands in for the comparison of tensors is left out."""
    policy = strictest({}, {"decisions": {"boxes": {"detections": {}}, "y": {"top_k": {}}}})
    assert set(policy.decisions) == {"y"}


def test_edited_files_bring_back_the_decisions_that_rest_on_files() -> None:
    """Nobody can tell which of them a judge's import is for."""
    judge = {"decisions": {"j": {"judge": {"entry": "j.py:f"}}, "y": {"top_k": {}}}}
    base, own = deployment(judge), deployment(judge)
    edited = loosened(
        {**json.loads(base.policy_json), "files": {"lib.py": "1"}},
        {**json.loads(own.policy_json), "files": {"lib.py": "2"}},
    )
    policy, _ = guarded(own, base, edited)
    assert policy.decisions["j"] is base.policy.decisions["j"]
    assert policy.decisions["y"] is own.policy.decisions["y"]


def test_a_contract_is_taken_whole() -> None:
    """Its sizes are those of its symbols."""
    stated = {"inputs": {"x": {"shape": ["batch", 3]}}, "sizes": {"batch": [1, 4]}}
    base, own = deployment({}, stated), deployment({}, {**stated, "sizes": {"batch": [1]}})
    assert guarded(own, base, changes(base, own))[1] == base.contract
    none = deployment({})
    assert guarded(none, base, changes(base, none))[1] == base.contract
    assert guarded(own, none, changes(none, own))[1] == own.contract
    assert none.contract == Contract()


def test_what_is_not_known_takes_everything_from_the_baseline() -> None:
    """A key of a later version cannot be taken by itself."""
    base, own = deployment({"tolerance": STRICT}), deployment({"tolerance": STRICT, "repeat": 9})
    unknown = loosened({**json.loads(base.policy_json), "power": 1}, json.loads(own.policy_json))
    assert guarded(own, base, unknown)[0] is base.policy
