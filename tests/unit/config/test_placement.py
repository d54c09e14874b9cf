"""What a config asks of where nodes run: read, ordered, guarded, and allowed to be loosened."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.filling import schema
from ci_parity.config.ledger import build_ledger
from ci_parity.config.load import build, load_deployment
from ci_parity.config.model import Deployment, PlacementPolicy
from ci_parity.config.policy_order import Order, PolicyChange, loosened, policy_changes
from ci_parity.config.strictest import guarded

T, L, U = Order.TIGHTER, Order.LOOSER, Order.UNCLEAR


def deployment(**placements: Mapping[str, Any]) -> Deployment:
    """Build a deployment whose targets ask this."""
    value = {
        "version": 1,
        "variants": {"exported": {"path": "model.onnx"}},
        "fixtures": "fixtures",
        "targets": {"cpu": {}, **{name: {"placement": raw} for name, raw in placements.items()}},
    }
    return build(value, root=Path(), origin="test")


def changes(base: Deployment, own: Deployment) -> tuple[PolicyChange, ...]:
    """Return every key of the policy that differs."""
    return policy_changes(json.loads(base.policy_json), json.loads(own.policy_json))


def test_what_a_target_asks_is_part_of_the_policy() -> None:
    """By its name; a target that asks nothing is not in it, and leaves no trace."""
    found = deployment(
        gpu={"cpu_allowed": ["Shape", "Gather"], "min_share": "97.5%", "max_memcpy": 0}, npu={}
    )
    assert found.policy.placement == {
        "gpu": PlacementPolicy(cpu_allowed=("Shape", "Gather"), min_share=0.975, max_memcpy=0)
    }
    assert json.loads(found.policy_json)["placement"].keys() == {"gpu"}
    assert "placement" not in json.loads(deployment().policy_json)
    assert [item.name for item in found.targets] == ["cpu", "gpu", "npu"]


def test_a_part_that_is_left_out_asks_nothing() -> None:
    """An empty list is not the same: then nothing may run elsewhere."""
    asked = deployment(a={"max_memcpy": 3}, b={"cpu_allowed": []}).policy.placement
    assert asked["a"] == PlacementPolicy(max_memcpy=3)
    assert asked["b"] == PlacementPolicy(cpu_allowed=())
    types = deployment(a={"precision": ["float32"], "changes": "fail"}).policy.placement["a"]
    assert types == PlacementPolicy(precision=("float32",), changes="fail")


@pytest.mark.parametrize(
    "raw",
    [
        "{min_share: 0.95}",
        '{min_share: "101%"}',
        '{min_share: "100.5%"}',
        "{max_memcpy: -1}",
        "{cpu_allowed: Shape}",
        '{cpu_allowed: ["a b"]}',
        "{max_memcopy: 1}",
        "{precision: [fp16]}",
        "{precision: []}",
        "{changes: ignore}",
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, raw: str) -> None:
    """At its place."""
    path = tmp_path / "ci-parity.yml"
    head = "version: 1\nvariants: {exported: {path: m.onnx}}\nfixtures: cases\n"
    path.write_text(f"{head}targets: {{gpu: {{placement: {raw}}}}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\$\.targets\.gpu\.placement"):
        load_deployment(path)


@pytest.mark.parametrize(
    ("before", "after", "key", "expected"),
    [
        ({"min_share": "95%"}, {"min_share": "90%"}, "min_share", L),
        ({"min_share": "95%"}, {"min_share": "99.5%"}, "min_share", T),
        ({"min_share": "95%"}, {}, "min_share", L),
        ({}, {"min_share": "1%"}, "min_share", T),
        ({"max_memcpy": 1}, {"max_memcpy": 2}, "max_memcpy", L),
        ({"max_memcpy": 1}, {}, "max_memcpy", L),
        ({}, {"max_memcpy": 10}, "max_memcpy", T),
        ({"cpu_allowed": ["A"]}, {"cpu_allowed": ["A", "B"]}, "cpu_allowed", L),
        ({"cpu_allowed": ["A", "B"]}, {"cpu_allowed": ["B"]}, "cpu_allowed", T),
        ({"cpu_allowed": ["A"]}, {"cpu_allowed": ["B"]}, "cpu_allowed", U),
        ({"cpu_allowed": []}, {}, "cpu_allowed", L),
        ({}, {"cpu_allowed": ["A"]}, "cpu_allowed", T),
        ({"precision": ["float32"]}, {"precision": ["float32", "float16"]}, "precision", L),
        ({"precision": ["float32"]}, {"precision": ["float16"]}, "precision", U),
        ({}, {"precision": ["float16"]}, "precision", T),
        ({"changes": "fail"}, {"changes": "warn"}, "changes", L),
        ({"changes": "fail"}, {}, "changes", L),
        ({}, {"changes": "fail"}, "changes", T),
    ],
)
def test_each_part_has_a_direction(
    before: Mapping[str, Any], after: Mapping[str, Any], key: str, expected: Order
) -> None:
    """Also where one side does not ask at all."""
    (change,) = changes(deployment(gpu=before), deployment(gpu=after))
    assert (change.key, change.order) == (f"placement.gpu.{key}", expected)


def test_the_order_of_allowed_operators_is_none() -> None:
    """The same names are the same list."""
    sides = [deployment(gpu={"cpu_allowed": names}) for names in (["A", "B"], ["B", "A"])]
    assert changes(sides[0], sides[1]) == ()


def test_a_loosened_target_is_judged_as_the_baseline_asks() -> None:
    """Whole; the other targets as the candidate asks."""
    base = deployment(a={"min_share": "95%", "max_memcpy": 2}, b={"max_memcpy": 1}, c={})
    own = deployment(a={"min_share": "50%", "max_memcpy": 0}, b={"max_memcpy": 0}, c={})
    counting = loosened(json.loads(base.policy_json), json.loads(own.policy_json))
    assert [change.key for change in counting] == ["placement.a.min_share"]
    policy, _ = guarded(own, base, counting)
    assert policy.placement["a"] == base.policy.placement["a"]
    assert policy.placement["b"] == own.policy.placement["b"]
    assert policy.tolerance == own.policy.tolerance


def test_what_is_no_longer_asked_comes_back() -> None:
    """And what is newly asked stays."""
    base, own = deployment(a={"max_memcpy": 2}), deployment(b={"max_memcpy": 1})
    counting = loosened(json.loads(base.policy_json), json.loads(own.policy_json))
    policy, _ = guarded(own, base, counting)
    assert policy.placement == {**base.policy.placement, **own.policy.placement}


@pytest.mark.parametrize("key", ["placement", "placement.gpu", "placement.gpu.min_share"])
def test_an_entry_of_the_ledger_may_allow_it(key: str) -> None:
    """At each depth."""
    raw = {"key": key, "who": "ada", "why": "the new head runs on the CPU", "until": "2027-03-01"}
    assert build_ledger([raw], schema())[0].key == key
