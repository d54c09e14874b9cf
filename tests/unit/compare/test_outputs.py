import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.metrics import LinearAllowance, float_metrics, scales_of
from ci_parity.compare.outputs import Side, compare_outputs
from ci_parity.compare.tolerance import rule_for
from ci_parity.config.load import policy
from ci_parity.config.model import Policy, Tolerance
from ci_parity.records.arrays import flatten
from ci_parity.records.finding import OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Value
from tests.support.observations import LADDER, against, compared, floats, records, texts


def scalar(value: float) -> Any:
    """Return a float32 of rank 0."""
    return np.array(value, np.float32)


def plain(parts: Any) -> dict[str, Any]:
    """Return flattened arrays as lists."""
    return {name: array.tolist() for name, array in parts.items()}


# Flattening.


def test_a_tensor_is_its_own_part() -> None:
    """Under the output's name."""
    assert plain(flatten("y", floats(1, 2))) == {"y": [1, 2]}


def test_a_zipmap_is_two_arrays() -> None:
    """A sequence of maps with equal keys: one table of probabilities, items by keys."""
    rows: Value = [{0: scalar(0.25), 1: scalar(0.75)}, {0: scalar(0.5), 1: scalar(0.5)}]
    parts = flatten("p", rows)
    assert plain(parts) == {
        "p.keys": [[0, 1], [0, 1]],
        "p.values": [[0.25, 0.75], [0.5, 0.5]],
    }
    assert parts["p.values"].dtype == np.float32
    assert parts["p.keys"].dtype == np.int64


def test_the_order_of_keys_does_not_matter() -> None:
    """A hash map has none."""
    one: Value = [{"b": scalar(2), "a": scalar(1)}]
    other: Value = [{"a": scalar(1), "b": scalar(2)}]
    assert plain(flatten("p", one)) == plain(flatten("p", other))
    assert plain(flatten("p", one)) == {"p.keys": [["a", "b"]], "p.values": [[1, 2]]}


def test_rows_with_other_keys_stay_apart() -> None:
    """Items are then named by their position."""
    rows: Value = [{"a": scalar(1)}, {"a": scalar(1), "b": scalar(2)}]
    assert plain(flatten("p", rows)) == {
        "p.length": 2,
        "p[0].keys": ["a"], "p[0].values": [1.0],
        "p[1].keys": ["a", "b"], "p[1].values": [1.0, 2.0],
    }  # fmt: skip


def test_a_map_of_tensors_is_named_by_key() -> None:
    """Numbers and text are told apart; so are shapes."""
    value: Value = {2: floats(1, 2), "2": floats(3)}
    assert plain(flatten("m", value)) == {
        "m.keys": ["2", "2"],
        "m[2]": [1, 2],
        "m['2']": [3],
    }


def test_nested_sequences_are_named_by_path() -> None:
    """With a length at every depth."""
    value: Value = [floats(1), [texts("a"), None]]
    assert plain(flatten("s", value)) == {
        "s.length": 2, "s[0]": [1],
        "s[1].length": 2, "s[1][0]": ["a"], "s[1][1].absent": [],
    }  # fmt: skip


LEAVES = st.none() | st.lists(st.integers(0, 2), max_size=2).map(lambda v: np.array(v, np.int64))
KEYS = st.integers(-2, 2) | st.sampled_from(["a", "1", "keys", "values", "length"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def content(value: Value) -> Any:
    """Return what a value is, as something Python compares."""
    if isinstance(value, list):
        return [content(item) for item in value]
    if isinstance(value, dict):
        return {(type(key).__name__, key): content(item) for key, item in value.items()}
    return None if value is None else (value.shape, value.tolist())


@given(VALUES, VALUES)
@settings(deadline=None, max_examples=300)
def test_values_that_differ_flatten_to_parts_that_differ(left: Value, right: Value) -> None:
    """No two different values have the same parts, so that none passes for the other."""
    first, second = flatten("v", left), flatten("v", right)
    same = first.keys() == second.keys() and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
        for a, b in zip(first.values(), (second[name] for name in first), strict=True)
    )
    assert same is (content(left) == content(right))


# The limit that would just have passed.


def comparison(folder: Path, left: Any, right: Any, limits: Policy) -> OutputComparison:
    """Return the one comparison of one output."""
    found = compared(folder, {"y": left}, {"y": right}, policy=limits)
    (only,) = found.outputs
    return only


def explicit(rtol: float, atol: float) -> Policy:
    """Return a policy with any two numbers, the schema's limits aside."""
    return dataclasses.replace(LADDER, tolerance=Tolerance(rtol=rtol, atol=atol))


@given(
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.integers(0, 2**32),
    st.floats(-6, 0).map(lambda e: 10**e),
    st.just(0.0) | st.floats(-6, 0).map(lambda e: 10**e),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_the_required_limit_is_the_one_that_just_passes(
    tmp_path_factory: pytest.TempPathFactory, dtype: Any, seed: int, first: float, second: float,
    swapped: bool,
) -> None:  # fmt: skip
    """A hair above it the output passes, a hair below it fails, both numbers scaled alike."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal(7).astype(dtype)
    right = (left * (1 + rng.standard_normal(7) / 50)).astype(dtype)
    rtol, atol = (second, first) if swapped else (first, second)
    folder = tmp_path_factory.mktemp("required")
    found = comparison(folder / "0", left, right, explicit(rtol, atol))
    assert found.limit == (rtol or atol)
    assert found.required is not None
    assert found.limit is not None
    assert (found.required <= found.limit) is (found.outcome is Outcome.PASS)
    for index, (hair, outcome) in enumerate(((1 + 1e-9, Outcome.PASS), (1 - 1e-6, Outcome.FAIL))):
        factor = found.required / found.limit * hair
        scaled = explicit(rtol * factor, atol * factor)
        assert comparison(folder / f"{index}s", left, right, scaled).outcome is outcome


@given(st.sampled_from(["float16", "float32", "float64"]), st.integers(0, 2**32))
@settings(deadline=None)
def test_the_ladders_required_limit_is_the_one_that_just_passes(dtype: str, seed: int) -> None:
    """There the fraction of the scale is scaled along with the relative limit."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((1, 3, 20)).astype(dtype)
    right = (left + rng.standard_normal(left.shape) / 100).astype(dtype)
    rule = rule_for(None, dtype)
    scales = scales_of(left)
    applied = LinearAllowance(rtol=rule.rtol, fraction=rule.fraction, scales=scales)
    used = float_metrics(left, right, applied).excess
    for hair, passes in ((1 + 1e-9, True), (1 - 1e-6, False)):
        k = used * hair
        scaled = LinearAllowance(rtol=k * rule.rtol, fraction=k * rule.fraction, scales=scales)
        assert (float_metrics(left, right, scaled).excess <= 1) is passes


def test_a_limit_of_zero_asks_for_an_absolute_one(tmp_path: Path) -> None:
    """Where both numbers are 0, the largest difference is the limit that just passes."""
    left, right = floats(1, 0, 3), floats(1, 0.5, 3.25)
    found = comparison(tmp_path / "zero", left, right, policy({"tolerance": {"atol": 0}}))
    assert (found.outcome, found.limit, found.required) == (Outcome.FAIL, 0.0, 0.5)
    exactly = comparison(tmp_path / "half", left, right, policy({"tolerance": {"atol": 0.5}}))
    assert exactly.outcome is Outcome.PASS


def test_no_limit_is_required_where_none_would_pass(tmp_path: Path) -> None:
    """Neither a lost infinity nor a relative limit on a zero can be bought."""
    lost = comparison(tmp_path / "lost", floats(np.inf), floats(1), LADDER)
    zero = comparison(tmp_path / "zero", floats(0), floats(1), explicit(0.1, 0))
    assert (lost.required, zero.required) == (None, None)


def test_equal_outputs_require_nothing(tmp_path: Path) -> None:
    """Zero, not a hyphen: it was measured."""
    found = comparison(tmp_path, floats(1, 2), floats(1, 2), LADDER)
    assert (found.required, found.max_abs, found.max_ulp, found.worst_index) == (0, 0, 0, None)


# What a comparison says.


def test_a_comparison_has_every_figure(tmp_path: Path) -> None:
    """Against figures worked out by hand."""
    left = floats(1, 2, 4).reshape(1, 3)
    right = floats(1, 2.5, 4).reshape(1, 3)
    found = comparison(tmp_path, left, right, explicit(0.1, 0.05))
    figures = {
        "mean_abs": 0.5 / 3, "rms_abs": (0.25 / 3) ** 0.5, "p50_abs": 0.0, "p99_abs": 0.5,
        "p999_abs": 0.5, "bias": 0.5 / 3, "sqnr_db": 10 * math.log10(21 / 0.25),
        "cosine": 22 / (21 * 23.25) ** 0.5, "nonfinite": 0, "excess": 2.0,
        "rms_excess": (2.0**2 / 3) ** 0.5,
    }  # fmt: skip
    assert {name: getattr(found, name) for name in figures} == pytest.approx(figures)
    rest: dict[str, Any] = dict.fromkeys(figures)
    assert dataclasses.replace(found, **rest) == OutputComparison(
        subject=Subject(
            target="cpu", variant="exported", boundary="baseline→candidate", case="c", output="y"
        ),
        outcome=Outcome.FAIL, dtype="float32", shape=(1, 3), elements=3, mismatched=1,
        max_abs=0.5, max_rel=0.25, max_ulp=2.0**21, rel_to_scale=0.125, limit=0.1,
        required=0.1 * (0.5 / (0.05 + 0.1 * 2)), rule="rtol 0.1, atol 0.05 (policy)",
        worst_index=(0, 1), worst_baseline="2.0", worst_candidate="2.5",
    )  # fmt: skip


def test_a_finding_repeats_the_figures_in_words(tmp_path: Path) -> None:
    """Where, both values, how far, under which rule."""
    found = compared(tmp_path, {"y": floats(1, 2)}, {"y": floats(1, 3)}, policy=explicit(0, 0.25))
    (finding,) = against(found)
    assert finding.evidence == (
        "1 of 2 elements differ; at [1] baseline 2.0, candidate 3.0; largest difference 1; "
        "rtol 0, atol 0.25 (policy)"
    )
    assert (finding.measured, finding.limit, finding.required) == (1.0, 0.25, 1.0)
    assert finding.remedy


def test_long_strings_are_cut(tmp_path: Path) -> None:
    """A document is not evidence."""
    found = comparison(tmp_path, texts("x" * 10_000), texts("y"), LADDER)
    assert len(found.worst_baseline) == 81
    assert found.worst_candidate == "'y'"


def test_every_output_is_compared_though_one_is_missing(tmp_path: Path) -> None:
    """The reader sees all of it at once."""
    found = compared(tmp_path, {"a": floats(1), "b": floats(1)}, {"b": floats(2), "c": floats(1)})
    assert [f.id for f in against(found)] == ["output.missing", "output.extra", "output.values"]


def test_sides_live_in_folders_of_their_own(tmp_path: Path) -> None:
    """Files of one name in two folders are two files."""
    sides = [
        Side(outputs=records(tmp_path / name, {"y": floats(value)}), folder=tmp_path / name)
        for name, value in (("a", 1.0), ("b", 2.0))
    ]
    assert sides[0].outputs == sides[1].outputs
    found = compare_outputs(Subject(), sides[0], sides[1], LADDER)
    assert [f.outcome for f in found.findings] == [Outcome.FAIL]
