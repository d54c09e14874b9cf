from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.ranking import compare_ranking, highest
from ci_parity.config.decisions import NearTies, TopK
from ci_parity.records.outcome import Outcome
from tests.unit.compare.decisions.judging import judged, leeway, within

TABLES = st.integers(0, 2**32).map(np.random.default_rng)


def top_k(k: int = 1, *, axis: int = -1, ordered: bool = False, near: float | None = None) -> TopK:
    """Return a policy."""
    ties = NearTies(margin=near, fail=False)
    return TopK(k=k, axis=axis, ordered=ordered, max_flips=0, near=ties, labels=None)


def reference(row: Any, k: int) -> list[int]:
    """Return the highest classes of one row, the first of equal ones before the others."""
    return sorted(range(len(row)), key=lambda c: (-row[c], c))[:k]


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), TABLES)
@settings(deadline=None)
def test_the_highest_are_those_of_a_plain_sort(
    rows: int, classes: int, k: int, rng: np.random.Generator
) -> None:
    """With many ties, infinities among them; of equal elements the first counts."""
    k = min(k, classes)
    table = rng.choice([-np.inf, -1.0, 0.0, 0.5, 1.0, np.inf], (rows, classes))
    assert highest(table, k).tolist() == [reference(row, k) for row in table]


@given(st.integers(1, 6), st.integers(2, 7), st.integers(1, 4), st.booleans(), TABLES)
@settings(deadline=None)
def test_flips_are_counted_as_a_plain_loop_counts_them(
    rows: int, classes: int, k: int, ordered: bool, rng: np.random.Generator
) -> None:
    """Rows whose highest classes differ, as sets or as lists, and the first of them."""
    k = min(k, classes - 1)
    left = rng.integers(0, 5, (rows, classes)).astype(np.float32)
    right = np.where(rng.random((rows, classes)) < 0.3, rng.permuted(left, axis=1), left)
    found = compare_ranking(left, right, top_k(k, ordered=ordered, near=-1), leeway(left))
    kind = list if ordered else set
    expected = [
        row
        for row in range(rows)
        if kind(reference(left[row], k)) != kind(reference(right[row], k))
    ]
    assert found.flips + found.near == len(expected)
    if expected:
        assert found.first is not None
        assert found.first.row == expected[0]
        assert list(found.first.before) == reference(left[expected[0]], k)
        assert list(found.first.after) == reference(right[expected[0]], k)


@given(st.integers(2, 5), st.floats(0, 2), TABLES)
@settings(deadline=None)
def test_a_flip_that_the_tolerance_can_explain_is_a_near_tie(
    classes: int, allowed: float, rng: np.random.Generator
) -> None:
    """Within twice what one element may move, because two of them do."""
    left = rng.uniform(0, 3, (1, classes))
    right = rng.permuted(left, axis=1)
    found = compare_ranking(left, right, top_k(), leeway(left, within(allowed)))
    before, after = left[0].argmax(), right[0].argmax()
    if before == after:
        assert (found.flips, found.near) == (0, 0)
    else:
        near = left[0, before] - left[0, after] <= 2 * allowed
        assert (found.flips, found.near) == (int(not near), int(near))


@given(st.integers(1, 4), st.integers(2, 6), st.floats(1e-4, 0.5), TABLES)
@settings(deadline=None)
def test_noise_inside_the_tolerance_never_flips_beyond_a_near_tie(
    rows: int, classes: int, allowed: float, rng: np.random.Generator
) -> None:
    """For any k and for orders too: what the tensors let through is explained."""
    left = rng.uniform(-1, 1, (rows, classes))
    right = left + rng.uniform(-allowed, allowed, left.shape)
    for k in range(1, classes):
        for ordered in (False, True):
            found = compare_ranking(
                left, right, top_k(k, ordered=ordered), leeway(left, within(allowed))
            )
            assert found.flips == 0


def test_the_margin_is_what_the_baseline_gives_up() -> None:
    """The largest drop over the ranks; here from 9 to 6, beside one from 8 to 7."""
    left, right = np.array([[9.0, 8.0, 7.0, 6.0]]), np.array([[0.0, 0.0, 2.0, 1.0]])
    found = compare_ranking(left, right, top_k(2), leeway(left))
    assert found.first is not None
    assert (found.first.before, found.first.after, found.first.margin) == ((0, 1), (2, 3), 2.0)
    swapped = compare_ranking(left, left[:, [1, 0, 2, 3]], top_k(2, ordered=True), leeway(left))
    assert swapped.first is not None
    assert swapped.first.margin == 1.0


def test_a_flip_fails() -> None:
    """With the row, both classes by name, the margin, and how many were allowed."""
    found = judged({"top_k": {}}, [[0.5, 0.25], [0.75, 0.25]], [[0.5, 0.25], [0.25, 0.75]])
    assert (found.id, found.outcome, found.advisory) == ("decision.top_k", Outcome.FAIL, False)
    assert (found.measured, found.limit, found.required) == (1.0, 0.0, 1.0)
    assert "changed in 1 of 2 rows, first in row 1: from 0 to 1" in found.evidence
    assert "baseline margin 0.5" in found.evidence
    assert found.remedy


def test_as_many_flips_as_are_allowed_pass() -> None:
    """And are shown."""
    sides = [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]
    assert judged({"top_k": {"max_flips": 1}}, *sides).outcome is Outcome.FAIL
    found = judged({"top_k": {"max_flips": 2}}, *sides)
    assert (found.outcome, found.measured) == (Outcome.PASS, 2.0)
    assert "changed in 2 of 2 rows" in found.evidence


@pytest.mark.parametrize("policy", [{"near_tie": 1e-3}, {}])
def test_a_flip_at_a_near_tie_is_shown_and_passes(policy: dict[str, Any]) -> None:
    """Whether the margin is given or follows from the tolerance."""
    found = judged({"top_k": policy}, [[0.5, 0.4995]], [[0.4995, 0.5]], within(4e-4))
    assert (found.outcome, found.measured) == (Outcome.PASS, 0.0)
    assert "at near ties in 1 of 1 row, first in row 0: from 0 to 1" in found.evidence


def test_near_ties_fail_where_the_policy_says_so() -> None:
    """Then they are counted with the others."""
    sides = [[0.5, 0.4995], [1, 0]], [[0.4995, 0.5], [0, 1]]
    found = judged({"top_k": {"near_tie": 1e-3, "near_ties": "fail", "max_flips": 1}}, *sides)
    assert (found.outcome, found.measured) == (Outcome.FAIL, 2.0)


def test_a_given_margin_replaces_the_tolerance() -> None:
    """A tolerance of 1 explains every flip of a probability; a margin of 0 none but exact ties."""
    sides = [[0.75, 0.25]], [[0.25, 0.75]]
    assert judged({"top_k": {}}, *sides, within(1)).outcome is Outcome.PASS
    assert judged({"top_k": {"near_tie": 0}}, *sides, within(1)).outcome is Outcome.FAIL
    tied = judged({"top_k": {"near_tie": 0}}, [[0.5, 0.5]], [[0.25, 0.5]])
    assert tied.outcome is Outcome.PASS
    assert "near ties" in tied.evidence


def test_sets_ignore_the_order_and_orders_do_not() -> None:
    """The second and third best swap."""
    sides = [[5.0, 4.0, 3.0, 0.0]], [[5.0, 3.0, 4.0, 0.0]]
    assert judged({"top_k": {"k": 3}}, *sides).outcome is Outcome.PASS
    found = judged({"top_k": {"k": 3, "order": True}}, *sides)
    assert found.outcome is Outcome.FAIL
    assert "from 0, 1, 2 to 0, 2, 1" in found.evidence


def test_sets_name_who_left_and_who_came() -> None:
    """Not the members that stayed."""
    found = judged({"top_k": {"k": 2}}, [[5.0, 4.0, 3.0]], [[5.0, 3.0, 4.0]])
    assert "from 1 to 2, baseline margin 1" in found.evidence


def test_classes_may_lie_along_any_axis() -> None:
    """A segmentation has a class for each pixel."""
    left = np.zeros((1, 3, 2, 2), np.float32)
    left[0, 1] = 1
    right = left.copy()
    right[0, :, 1, 0] = [2, 0, 0]
    found = judged({"top_k": {"axis": 1}}, left, right)
    assert found.outcome is Outcome.FAIL
    assert "in 1 of 4 rows, first in row [0, 1, 0]: from 1 to 0" in found.evidence


@pytest.mark.parametrize("dtype", [np.float16, np.int8, ml_dtypes.bfloat16])
def test_narrow_scores_rank_too(dtype: Any) -> None:
    """A quantised classifier decides like any other."""
    found = judged({"top_k": {}}, [[1, 2]], [[2, 1]], dtype=dtype)
    assert found.outcome is Outcome.FAIL


def test_a_label_that_stays_shows_how_far_its_score_moved() -> None:
    """The decision hides a change by half of the score; the finding does not."""
    found = judged({"top_k": {}}, [[0.9, 0.1], [0.6, 0.4]], [[0.9, 0.1], [0.95, 0.05]])
    assert found.outcome is Outcome.PASS
    assert "label agrees in 2 of 2 rows" in found.evidence
    assert "score moved by up to 0.35: row 1, class 0, 0.6 to 0.95" in found.evidence
    assert found.evidence.endswith(", tolerance there 0")
    loose = judged(
        {"top_k": {}}, [[0.9, 0.1], [0.6, 0.4]], [[0.9, 0.1], [0.95, 0.05]], within(0.25)
    )
    assert loose.evidence.endswith(", tolerance there 0.25")


def test_equal_outputs_say_so() -> None:
    """Nothing moved."""
    found = judged({"top_k": {}}, [[1.0, 2.0]], [[1.0, 2.0]])
    assert found.evidence == "label agrees in 1 of 1 row; no score moved"


def test_nan_on_the_candidate_fails() -> None:
    """The baseline decided, the candidate cannot; no limit would have let it pass."""
    found = judged({"top_k": {"max_flips": 9}}, [[1, 2], [1, 2]], [[1, 2], [np.nan, 2]])
    assert (found.outcome, found.required) == (Outcome.FAIL, None)
    assert "not finite in 1 row, first in row 1" in found.evidence


def test_nan_on_the_baseline_is_no_pass() -> None:
    """Not even where the candidate has the same; a flip elsewhere still fails."""
    same = judged({"top_k": {}}, [[np.nan, 2]], [[np.nan, 2]])
    assert same.outcome is Outcome.INCONCLUSIVE
    flip = judged({"top_k": {}}, [[np.nan, 2], [1, 2]], [[np.nan, 2], [2, 1]])
    assert flip.outcome is Outcome.FAIL


def test_masked_logits_rank() -> None:
    """An infinity is above or below everything, and no NaN."""
    sides = [[-np.inf, 1.0, 0.5]], [[-np.inf, 0.5, 1.0]]
    assert judged({"top_k": {}}, *sides).outcome is Outcome.FAIL
    assert judged({"top_k": {}}, sides[0], sides[0]).outcome is Outcome.PASS
    assert judged({"top_k": {}}, [[np.inf, np.inf]], [[1.0, np.inf]]).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("policy", "shape"),
    [({}, (2, 1)), ({"k": 3}, (2, 3)), ({"k": 4, "order": True}, (2, 3)), ({"axis": 2}, (2, 3))],
)
def test_a_choice_that_is_none_is_inconclusive(
    policy: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """One class always wins, all classes are always the highest, an axis is not there."""
    found = judged({"top_k": policy}, np.zeros(shape), np.zeros(shape))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.evidence.startswith("not decided: ")


def test_all_classes_in_their_order_are_a_choice() -> None:
    """A ranking of three is one."""
    policy = {"top_k": {"k": 3, "order": True}}
    assert judged(policy, [[3, 2, 1]], [[3, 2, 1]]).outcome is Outcome.PASS
    assert judged(policy, [[3, 2, 1]], [[3, 1, 2]]).outcome is Outcome.FAIL


def test_no_rows_on_either_side_pass() -> None:
    """As empty outputs do."""
    found = judged({"top_k": {}}, np.zeros((0, 3)), np.zeros((0, 3)))
    assert (found.outcome, found.evidence) == (Outcome.PASS, "no row on either side")


def test_a_million_rows_are_one_finding() -> None:
    """The first flip is found wherever it stands."""
    left = np.zeros((1_000_000, 4), np.float32)
    left[:, 2] = 1
    right = left.copy()
    right[[765_432, 999_999], 0] = 2
    found = judged({"top_k": {"k": 1}}, left, right)
    assert found.measured == 2
    assert "in 2 of 1,000,000 rows, first in row 765432: from 2 to 0" in found.evidence


def test_what_is_said_of_every_kind_of_row() -> None:
    """Agreement, flip, near tie, NaN of the baseline, lost on the candidate: one row each."""
    left = [[1, 0], [1, 0], [0.5, 0.4995], [np.nan, 0], [1, 0], [2, 0]]
    right = [[1, 0], [0, 1], [0.4995, 0.5], [1, 0], [np.inf, 0], [3, 0]]
    found = judged({"top_k": {"near_tie": 1e-3}}, left, right)
    assert "not finite in 1 row, first in row 4" in found.evidence
    assert "changed in 1 of 6 rows, first in row 1" in found.evidence
    assert "near ties in 1 of 6 rows, first in row 2" in found.evidence
    assert "label agrees in 2 of 6 rows" in found.evidence
    assert "score moved by up to 1: row 1, class 0, 1 to 0" in found.evidence


def test_the_first_of_each_kind_is_named_over_many_blocks() -> None:
    """Wherever the next one stands."""
    left = np.zeros((700_000, 3), np.float32)
    left[:, 0] = 1
    right = left.copy()
    for row in (400_000, 650_000):
        right[row, 1] = 2
        left[row + 1, 1] = 0.9999
        right[row + 1, 1] = 1.0001
        right[row + 2, 0] = np.nan
    found = judged({"top_k": {"near_tie": 1e-3}}, left, right)
    assert "not finite in 2 rows, first in row 400002" in found.evidence
    assert "changed in 2 of 700,000 rows, first in row 400000" in found.evidence
    assert "near ties in 2 of 700,000 rows, first in row 400001" in found.evidence
