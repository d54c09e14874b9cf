"""The partial order of policies, key by key; what cannot be compared is never silently looser."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.config.filling import schema
from ci_parity.config.load import build
from ci_parity.config.policy_order import Order, loosened, policy_changes, tolerance_order

T, L, U = Order.TIGHTER, Order.LOOSER, Order.UNCLEAR
STRICT, LAX = {"rtol": 1e-4, "atol": 1e-6}, {"rtol": 1e-3, "atol": 1e-5}


def judged_by(
    policy: Mapping[str, Any], contract: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what an identity keeps of a policy and a contract, every default set."""
    value = {
        "version": 1,
        "variants": {"exported": {"path": "model.onnx"}},
        "fixtures": "fixtures",
        "policy": policy,
        **({"contract": contract} if contract is not None else {}),
    }
    built = build(value, root=Path(), origin="test")
    kept: dict[str, Any] = json.loads(built.policy_json)
    return kept


def orders(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Order]:
    """Return the order of every key in which two configured policies differ."""
    changes = policy_changes(judged_by(before), judged_by(after))
    return {change.key: change.order for change in changes}


def test_equal_policies_have_no_changes() -> None:
    """A default that is written out is no change."""
    written = {"repeat": 1, "latency": {"measure": True}, "ledger": []}
    assert orders({}, written) == {}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (STRICT, LAX, L),
        (LAX, STRICT, T),
        (STRICT, {"rtol": 1e-3, "atol": 1e-7}, U),
        ({"rtol": 1e-4}, STRICT, L),
        (STRICT, {"atol": 1e-6}, T),
        ("calibrated", STRICT, U),
        (STRICT, "calibrated", U),
        ("calibrated", "ladder", U),
        ("ladder", {"rtol": 0, "atol": 0}, T),
        ({"rtol": 0}, "ladder", L),
        ("ladder", {"rtol": 1e-9, "surprise": 1}, U),
    ],
)
def test_tolerances(before: object, after: object, expected: Order) -> None:
    """Numbers compare with numbers; words stand for other numbers in every case."""
    assert tolerance_order(before, after) is expected


def test_an_output_without_its_own_tolerance_has_the_policys() -> None:
    """A tolerance added for one output is compared with what held for it before."""
    assert orders({"tolerance": STRICT}, {"tolerance": STRICT, "outputs": {"y": LAX}}) == {
        "outputs.y": L
    }
    assert orders({"tolerance": LAX}, {"tolerance": LAX, "outputs": {"y": STRICT}}) == {
        "outputs.y": T
    }
    removed = orders({"tolerance": LAX, "outputs": {"y": STRICT}}, {"tolerance": LAX})
    assert removed == {"outputs.y": L}
    common = orders({"tolerance": STRICT, "outputs": {"y": LAX}}, {"tolerance": LAX})
    assert common == {"tolerance": L}


LATENCY = {"latency": {"enforce": True}}


@pytest.mark.parametrize(
    ("before", "after", "key", "expected"),
    [
        ({"repeat": 5}, {"repeat": 2}, "repeat", L),
        ({"repeat": 2}, {"repeat": 5}, "repeat", T),
        ({"timeout_s": 5}, {"timeout_s": 6}, "timeout_s", L),
        ({}, {"latency": {"measure": False}}, "latency.measure", L),
        ({"latency": {"measure": False}}, {}, "latency.measure", T),
        ({}, {"latency": {"sessions": 2}}, "latency.sessions", L),
        ({}, {"latency": {"pairs": 50}}, "latency.pairs", T),
        ({}, {"latency": {"max_regression": "5.5%"}}, "latency.max_regression", L),
        ({}, {"latency": {"max_regression": "4%"}}, "latency.max_regression", T),
        (LATENCY, {}, "latency.enforce", L),
        ({}, LATENCY, "latency.enforce", T),
        ({}, {"self_checks": {"repeat": 1}}, "self_checks.repeat", L),
        ({}, {"self_checks": {"rows": False}}, "self_checks.rows", L),
        ({}, {"self_checks": {"rows": True}}, "self_checks.rows", T),
        ({"self_checks": {"order": True}}, {}, "self_checks.order", L),
        ({"self_checks": {"deterministic": True}}, {}, "self_checks.deterministic", L),
    ],
)
def test_settings(
    before: Mapping[str, Any], after: Mapping[str, Any], key: str, expected: Order
) -> None:
    """Each has a direction."""
    assert orders(before, after) == {key: expected}


def test_how_latency_is_measured_does_not_matter_where_it_is_not() -> None:
    """Fewer sessions of nothing are no loosening."""
    off, fewer = {"measure": False}, {"measure": False, "sessions": 2, "max_regression": "50%"}
    assert orders({"latency": off}, {"latency": fewer}) == {}
    assert orders({}, {"latency": fewer}) == {"latency.measure": L}


TOP = {"top_k": {"k": 5, "max_flips": 2, "near_tie": 0.1, "near_ties": "fail"}}
BOXES = {"scores": "scores", "score": 0.5, "max_score_change": 0.1, "max_unmatched": 2}


@pytest.mark.parametrize(
    ("kind", "before", "after", "key", "expected"),
    [
        ("top_k", {}, {"max_flips": 1}, "max_flips", L),
        ("top_k", {"max_flips": 1}, {}, "max_flips", T),
        ("top_k", {}, {"k": 5}, "k", U),
        ("top_k", {}, {"axis": 1}, "axis", U),
        ("top_k", {"order": True}, {}, "order", L),
        ("top_k", {"near_tie": 0.1}, {"near_tie": 0.2}, "near_tie", L),
        ("top_k", {}, {"near_tie": 0.2}, "near_tie", U),
        ("top_k", {"near_ties": "fail"}, {}, "near_ties", L),
        ("top_k", {"labels": "a.txt"}, {}, "labels", L),
        ("threshold", {"at": 0.5}, {"at": 0.6}, "at", U),
        ("kl", {"max": 0.1}, {"max": 0.2}, "max", L),
        ("kl", {"max": 0.1}, {"max": 0.1, "softmax": True}, "softmax", U),
        ("cosine", {"min": 0.9}, {"min": 0.8}, "min", L),
        ("cosine", {"min": 0.9}, {"min": 0.95}, "min", T),
        ("detections", BOXES, {**BOXES, "score": 0.6}, "score", L),
        ("detections", BOXES, {**BOXES, "iou": 0.6}, "iou", U),
        ("detections", BOXES, {**BOXES, "max_unmatched": 3}, "max_unmatched", L),
        ("detections", BOXES, {**BOXES, "max_score_change": 0.05}, "max_score_change", T),
        ("detections", BOXES, {k: v for k, v in BOXES.items() if k != "max_score_change"},
         "max_score_change", L),
        ("detections", BOXES, {k: v for k, v in BOXES.items() if k != "score"}, "score", T),
        ("text", {"decode": "ctc"}, {"decode": "ctc", "max_edit_distance": 1},
         "max_edit_distance", L),
        ("text", {"decode": "ctc"}, {"decode": "ctc", "blank": 3}, "blank", U),
        ("judge", {"entry": "j.py:f"}, {"entry": "k.py:f"}, "entry", U),
    ],
)  # fmt: skip
def test_decisions(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], key: str, expected: Order
) -> None:
    """What is decided, and what merely may change."""
    sides = [{"decisions": {"y": {kind: side}}} for side in (before, after)]
    assert orders(*sides) == {f"decisions.y.{kind}.{key}": expected}


def test_the_time_of_a_judge_is_no_limit() -> None:
    """It says how long we wait, not what may change."""
    sides = [
        {"decisions": {"j": {"judge": {"entry": "j.py:f", "timeout_s": seconds}}}}
        for seconds in (1, 2)
    ]
    assert orders(*sides) == {}


@pytest.mark.parametrize("kind", ["top_k", "kl", "detections"])
def test_a_removed_decision_is_looser(kind: str) -> None:
    """Whether the whole entry goes or one of its kinds."""
    value = {"top_k": {}, "kl": {"max": 0.1}, "detections": {}}
    whole = {"decisions": {"y": value}}
    less = {"decisions": {"y": {k: v for k, v in value.items() if k != kind}}}
    assert orders(whole, less) == {f"decisions.y.{kind}": L}
    assert set(orders(whole, {}).values()) == {L}


def test_an_added_decision_is_tighter_unless_it_stands_in_for_the_tensors() -> None:
    """Boxes matched as a set are no longer compared in their order."""
    assert orders({}, {"decisions": {"y": TOP}}) == {"decisions.y.top_k": T}
    assert orders({}, {"decisions": {"y": {"detections": {}}}}) == {"decisions.y.detections": U}


PORT = {"dtype": "float32", "shape": ["batch", 3], "range": [-1, 1]}
CONTRACT: Mapping[str, Any] = {
    "opset": {"ai.onnx": 17, "com.microsoft": 1},
    "inputs": {"x": PORT},
    "outputs": {"y": PORT},
    "sizes": {"batch": [1, 4]},
    "batch": "batch",
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"opset": {"ai.onnx": 18, "com.microsoft": 1}}, {"contract.opset.ai.onnx": L}),
        ({"opset": {"ai.onnx": 16, "com.microsoft": 1}}, {"contract.opset.ai.onnx": T}),
        ({"opset": 17}, {"contract.opset.com.microsoft": T}),
        ({"opset": None}, {"contract.opset": L}),
        ({"sizes": {"batch": [1]}}, {"contract.sizes.batch": L}),
        ({"sizes": {"batch": [4, 1]}}, {}),
        ({"sizes": {"batch": [1, 4, 8]}}, {"contract.sizes.batch": T}),
        ({"sizes": {"batch": [2, 4]}}, {"contract.sizes.batch": U}),
        ({"sizes": None}, {"contract.sizes.batch": L}),
        ({"batch": None}, {"contract.batch": L}),
        ({"inputs": {"x": PORT, "z": {}}}, {"contract.inputs.z": U}),
        ({"inputs": {"x": {**PORT, "range": [-2, 2]}}}, {"contract.inputs.x.range": U}),
        ({"outputs": {"y": {**PORT, "range": [-2, 2]}}}, {"contract.outputs.y.range": L}),
        ({"outputs": {"y": {**PORT, "range": [0, 1]}}}, {"contract.outputs.y.range": T}),
        ({"outputs": {"y": {**PORT, "range": [0, None]}}}, {"contract.outputs.y.range": U}),
        ({"outputs": {"y": {**PORT, "dtype": "float16"}}}, {"contract.outputs.y.dtype": U}),
        ({"outputs": {"z": PORT}}, {"contract.outputs.y": L, "contract.outputs.z": T}),
        ({"outputs": None}, {"contract.outputs.y": L}),
        ({"padding": {"axis": "batch", "values": {"x": 0}}}, {"contract.padding": T}),
    ],
)
def test_contracts(change: Mapping[str, Any], expected: Mapping[str, Order]) -> None:
    """A promise that is taken back is looser, one that is added tighter."""
    changed = {k: v for k, v in {**CONTRACT, **change}.items() if v is not None}
    found = policy_changes(judged_by({}, CONTRACT), judged_by({}, changed))
    assert {c.key: c.order for c in found} == expected


def test_a_contract_that_appears_or_goes() -> None:
    """Every part of it."""
    gone = policy_changes(judged_by({}, CONTRACT), judged_by({}))
    assert {c.order for c in gone} == {L}
    assert {c.path[1] for c in gone} == {"opset", "inputs", "outputs", "sizes", "batch"}
    come = policy_changes(judged_by({}), judged_by({}, CONTRACT))
    assert {c.order for c in come} == {T}


def test_other_bytes_of_a_file_cannot_be_compared() -> None:
    """A judge or an alphabet that was edited may mean anything."""
    base = {**judged_by({}), "files": {"judge.py": "1" * 64, "old.txt": "2" * 64}}
    changed = {**judged_by({}), "files": {"judge.py": "3" * 64}}
    (change,) = policy_changes(base, changed)
    assert (change.path, change.order) == (("files", "judge.py"), U)


def test_a_key_without_a_rule_counts_as_loosened() -> None:
    """Whatever a later version adds to a policy is not loosened in silence."""
    base, changed = {**judged_by({}), "power": {"max": "5%"}}, judged_by({})
    (change,) = loosened(base, changed)
    assert (change.key, change.order) == ("power", U)
    assert (change.before, change.after) == ('{"max":"5%"}', "(none)")


def test_only_what_is_not_tighter_counts_as_loosened() -> None:
    """Tightened keys are left out."""
    before, after = judged_by({"repeat": 2, "timeout_s": 5}), judged_by({"timeout_s": 4})
    assert [change.key for change in loosened(before, after)] == ["repeat"]


def test_values_are_shown_short() -> None:
    """A long value does not fill the comment."""
    base = {**judged_by({}), "power": "x" * 1000}
    (change,) = policy_changes(base, judged_by({}))
    assert len(change.before) <= 160


def test_every_setting_of_the_schema_has_a_direction() -> None:
    """Flags, counts and limits of measuring and self-checks are ranked, not merely noticed."""
    samples: Mapping[str, tuple[Any, Any]] = {
        "boolean": (True, False), "integer": (3, 2), "number": (3, 2), "string": ("5%", "6%"),
        "array": ([1, 2], [1]), "margin": ("2%", "3%"), "pin": ("0", "1"),
    }  # fmt: skip
    unranked = []
    for group in ("latency", "memory", "self_checks"):
        for key, part in schema()["$defs"][group]["properties"].items():
            kind = part.get("type", "boolean")
            pair = samples.get(key, samples[kind])
            before, after = ({group: {key: value}} for value in pair)
            if U in orders(before, after).values():
                unranked.append(f"{group}.{key}")
    assert unranked == []


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        ({"margin": "2%"}, {"margin": "1%"}, T),
        ({"margin": "1%"}, {"margin": "2%"}, L),
        ({"margin": "auto"}, {"margin": "1%"}, U),
        ({"margin": "1%"}, {}, U),
        ({"cases": 2}, {"cases": 3}, T),
        ({"time_budget_s": 60}, {"time_budget_s": 30}, L),
        ({"batch_sizes": [1]}, {"batch_sizes": [8]}, U),
        ({"batch_sizes": [1]}, {"batch_sizes": [8, 1]}, T),
    ],
)
def test_how_latency_is_measured_has_an_order(
    before: dict[str, Any], after: dict[str, Any], order: Order
) -> None:
    """More evidence and less room are tighter; a word and a number cannot be compared."""
    key = next(iter({**before, **after}))
    assert orders({"latency": before}, {"latency": after}) == {f"latency.{key}": order}


def test_which_cpus_are_free_is_no_rule() -> None:
    """Both sides run on the same ones, whichever they are."""
    assert orders({"latency": {"pin": "0-1"}}, {"latency": {"pin": "2"}}) == {}


def test_a_policy_of_an_earlier_version_asked_for_less() -> None:
    """What it did not know was not asked for, so that asking is no loosening."""
    known = judged_by({})
    earlier = {key: part for key, part in known.items() if key != "memory"}
    added = ("margin", "time_budget_s", "cases", "batch_sizes", "pin")
    earlier["latency"] = {k: v for k, v in known["latency"].items() if k not in added}
    assert loosened(earlier, known) == ()
