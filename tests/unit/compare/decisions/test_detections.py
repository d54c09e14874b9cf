from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.config.load import policy
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from ci_parity.stages.judge import Judgement
from tests.support.observations import against, compared
from tests.unit.compare.decisions.judging import EXACT, case_of, within

BOXES = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]], np.float32)
SCORES = np.array([0.9, 0.8, 0.3], np.float32)
CLASSES = np.array([1, 2, 1], np.int64)
POLICY: Mapping[str, Any] = {"scores": "scores", "classes": "classes", "score": 0.25}


def outputs(rows: Any = slice(None), **changes: Any) -> dict[str, Any]:
    """Return some rows of three detections, changed."""
    usual: dict[str, Any] = {"boxes": BOXES, "scores": SCORES, "classes": CLASSES} | changes
    return {name: array[rows] for name, array in usual.items()}


def found(candidate: Any, words: Any = POLICY, baseline: Any = None, rule: Any = EXACT) -> Finding:
    """Return what is found of a candidate against the three detections."""
    sides = outputs() if baseline is None else baseline, candidate
    (only,) = case_of({"boxes": {"detections": words}}, *sides, rule).findings(())
    return only


def limits(**words: Any) -> Policy:
    """Return a policy of one detections decision."""
    return policy({"decisions": {"boxes": {"detections": {**POLICY, **words}}}})


def run(folder: Path, candidate: Any, **words: Any) -> Judgement:
    """Return what the whole comparison says of a candidate."""
    return compared(folder, outputs(), candidate, policy=limits(**words))


# The set.


def test_all_pair_up() -> None:
    """Whatever the order of the rows; overlap and scores are said."""
    finding = found(outputs([2, 0, 1]))
    assert (finding.id, finding.outcome) == ("decision.detections", Outcome.PASS)
    assert (finding.measured, finding.limit) == (0.0, 0.0)
    assert "3 of 3 detections pair up with the candidate's 3 at IoU 0.5" in finding.evidence
    assert "worst IoU 1, baseline row 0, class 1, score 0.9" in finding.evidence
    assert "largest score change 0" in finding.evidence


def test_a_lost_detection_fails() -> None:
    """It is named, with its place."""
    finding = found(outputs([0, 2]))
    assert (finding.outcome, finding.measured, finding.required) == (Outcome.FAIL, 1.0, 1.0)
    assert (
        "1 in the baseline alone: [row 1, class 2, score 0.8, at 20, 0, 30, 10]" in finding.evidence
    )


def test_a_new_detection_fails() -> None:
    """The other way round."""
    finding = found(outputs(), baseline=outputs([0, 2]))
    assert (finding.outcome, finding.measured) == (Outcome.FAIL, 1.0)
    assert "1 in the candidate alone: [row 1" in finding.evidence


def test_as_many_as_are_allowed_pass() -> None:
    """Counted on both sides together: a box that jumped is two."""
    jumped = outputs(boxes=BOXES + np.array([[0], [0], [500]], np.float32))
    assert found(jumped, {**POLICY, "max_unmatched": 1}).outcome is Outcome.FAIL
    finding = found(jumped, {**POLICY, "max_unmatched": 2})
    assert (finding.outcome, finding.measured) == (Outcome.PASS, 2.0)


def test_a_class_that_changes_fails() -> None:
    """Both classes are named."""
    finding = found(outputs(classes=np.array([1, 7, 1])))
    assert (finding.outcome, finding.measured) == (Outcome.FAIL, 2.0)
    assert "there the other side has row 1, class 7, score 0.8" in finding.evidence


def test_overlap_below_the_limit_is_no_pair() -> None:
    """Half a box further, a third overlaps."""
    moved = outputs(boxes=BOXES + np.array([[5, 0, 5, 0], [0] * 4, [0] * 4], np.float32))
    assert found(moved).outcome is Outcome.FAIL
    finding = found(moved, {**POLICY, "iou": 0.3})
    assert finding.outcome is Outcome.PASS
    assert "worst IoU 0.3333, baseline row 0" in finding.evidence


def test_a_set_that_pairs_up_shows_how_far_a_score_moved() -> None:
    """The pairing hides a change from 0.9 to 0.4; the finding does not, and a limit fails it."""
    moved = outputs(scores=np.array([0.4, 0.8, 0.3], np.float32))
    finding = found(moved)
    assert finding.outcome is Outcome.PASS
    assert "largest score change 0.5, baseline row 0, class 1, score 0.9 to 0.4" in finding.evidence
    limited = found(moved, {**POLICY, "max_score_change": 0.1})
    assert (limited.outcome, limited.limit) == (Outcome.FAIL, 0.1)
    assert limited.required == pytest.approx(0.5)
    assert found(moved, {**POLICY, "max_score_change": 0.51}).outcome is Outcome.PASS


def test_rows_below_the_score_are_no_detections() -> None:
    """They may come and go."""
    low = outputs(scores=np.array([0.9, 0.8, 0.1], np.float32))
    assert found(outputs([0, 1]), baseline=low).outcome is Outcome.PASS
    every = {"scores": "scores", "classes": "classes"}
    assert found(outputs([0, 1]), every, baseline=low).outcome is Outcome.FAIL


def test_no_detection_on_either_side_passes() -> None:
    """An empty street is a result."""
    none = outputs(slice(0, 0))
    finding = found(none, baseline=none)
    assert (finding.outcome, finding.evidence) == (Outcome.PASS, "no detection on either side")
    assert found(outputs(), baseline=none).outcome is Outcome.FAIL
    assert found(none).outcome is Outcome.FAIL


def test_images_of_a_batch_are_sets_of_their_own() -> None:
    """A detection of one image does not stand for one of another."""
    sides = [
        {"boxes": BOXES[order].reshape(3, 1, 4), "scores": SCORES[order].reshape(3, 1),
         "classes": CLASSES[order].reshape(3, 1)}
        for order in ([0, 1, 2], [1, 0, 2])
    ]  # fmt: skip
    finding = found(sides[1], baseline=sides[0])
    assert (finding.outcome, finding.measured) == (Outcome.FAIL, 4.0)
    assert "image 1" in finding.evidence


def test_a_packed_output_is_a_set() -> None:
    """As end-to-end exporters write it: [1, n, 6], a box, its score, its class."""
    packed = np.concatenate([BOXES, SCORES[:, None], CLASSES[:, None]], axis=1)[None]
    words = {"columns": {"score": 4, "class": 5}, "score": 0.25}
    sides = {"boxes": packed.astype(np.float32)}
    reordered = {"boxes": sides["boxes"][:, [2, 0, 1]]}
    assert found(reordered, words, baseline=sides).outcome is Outcome.PASS
    fewer = {"boxes": sides["boxes"][:, :2]}
    assert found(fewer, words, baseline=sides).outcome is Outcome.FAIL


# Near ties.


@pytest.mark.parametrize("words", [{"near_tie": 0.06}, {}])
def test_a_detection_at_the_score_threshold_is_a_near_tie(words: Any) -> None:
    """Whether the distance is given or follows from the tolerance."""
    finding = found(outputs([0, 1]), {**POLICY, **words}, rule=within(0.06))
    assert (finding.outcome, finding.measured) == (Outcome.PASS, 0.0)
    assert "1 in the baseline alone at the score threshold, a near tie: [row 2" in finding.evidence
    failing = {**POLICY, **words, "near_ties": "fail"}
    assert found(outputs([0, 1]), failing, rule=within(0.06)).outcome is Outcome.FAIL
    assert found(outputs([0, 1])).outcome is Outcome.FAIL


def test_a_counterpart_far_below_the_threshold_is_no_near_tie() -> None:
    """The score moved further than what is near."""
    near = outputs(scores=np.array([0.9, 0.8, 0.24], np.float32))
    far = outputs(scores=np.array([0.9, 0.8, 0.01], np.float32))
    words = {**POLICY, "near_tie": 0.07}
    assert found(near, words).outcome is Outcome.PASS
    assert found(far, words).outcome is Outcome.FAIL
    elsewhere = far | {"boxes": BOXES + np.array([[0], [0], [500]], np.float32)}
    assert found(elsewhere, words).outcome is Outcome.PASS


# What is not finite.


def test_nan_fails_where_the_baseline_has_none() -> None:
    """In a score that may be a detection's, or in a box of one."""
    score = SCORES.copy()
    score[2] = np.nan
    assert found(outputs(scores=score)).outcome is Outcome.FAIL
    box = BOXES.copy()
    box[0, 0] = np.nan
    assert found(outputs(boxes=box)).outcome is Outcome.FAIL
    same = found(outputs(boxes=box), {**POLICY, "max_unmatched": 9}, baseline=outputs(boxes=box))
    assert same.outcome is Outcome.INCONCLUSIVE


# Labels.


def test_labels_name_the_classes(tmp_path: Path) -> None:
    """A class without a name keeps the decision open."""
    (tmp_path / "names.txt").write_text("person\ncat\ndog\n", encoding="utf-8")
    decisions = {"boxes": {"detections": {**POLICY, "labels": "names.txt"}}}
    sides = outputs(), outputs([0, 2])
    (finding,) = case_of(decisions, *sides, root=tmp_path).findings(())
    assert "row 1, class 2 (dog)" in finding.evidence
    (tmp_path / "names.txt").write_text("person\ncat\n", encoding="utf-8")
    (unnamed,) = case_of(decisions, sides[0], sides[0], root=tmp_path).findings(())
    assert unnamed.outcome is Outcome.INCONCLUSIVE
    assert "class 2 has no name, 2 are given" in unnamed.evidence


# Beside the tensors.


def test_sets_of_other_sizes_are_no_shape_failure(tmp_path: Path) -> None:
    """95 boxes against 96: the decision judges the one, the tensors the others."""
    judged = run(tmp_path, outputs([2, 0]), max_unmatched=1)
    assert judged.outcome is Outcome.PASS
    assert {(o.subject.output, o.shape) for o in judged.outputs} == {
        ("boxes", (2, 4)), ("scores", (2,)), ("classes", (2,)),
    }  # fmt: skip
    lost = run(tmp_path / "lost", outputs([2, 0]))
    assert [f.id for f in against(lost)] == ["decision.detections"]


def test_paired_rows_are_still_compared(tmp_path: Path) -> None:
    """A box that pairs up but moved is the tolerance's to judge: nothing is excused."""
    moved = outputs([2, 0, 1], boxes=BOXES + np.float32(0.5))
    judged = run(tmp_path, moved)
    assert [(f.id, f.subject.output) for f in against(judged)] == [("output.values", "boxes")]
    decided = [f for f in judged.findings if f.id == "decision.detections"]
    assert [f.outcome for f in decided] == [Outcome.PASS]


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_another_order_alone_passes(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Rows are a set where the policy says so."""
    order = np.random.default_rng(seed).permutation(3)
    folder = tmp_path_factory.mktemp("order")
    assert run(folder, outputs(order)).outcome is Outcome.PASS


def test_another_order_fails_where_no_decision_says_so(tmp_path: Path) -> None:
    """Then the order is part of the meaning."""
    judged = compared(tmp_path, outputs(), outputs([1, 0, 2]))
    assert judged.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"boxes": BOXES[None]}, id="rank"),
        pytest.param({"boxes": BOXES.astype(np.float64)}, id="element type"),
        pytest.param({"boxes": np.concatenate([BOXES, BOXES], axis=1)}, id="columns"),
        pytest.param({"scores": SCORES[:2]}, id="scores of other rows"),
        pytest.param({"scores": SCORES.reshape(3, 1, 1)}, id="scores of another rank"),
    ],
)
def test_nothing_but_the_number_of_rows_may_differ(tmp_path: Path, changed: Any) -> None:
    """Every other difference of shape or type fails as ever."""
    judged = run(tmp_path, outputs() | changed)
    assert judged.outcome is Outcome.FAIL
    assert {f.id for f in against(judged)} & {"output.shape", "output.dtype"}


def test_the_count_is_the_decisions(tmp_path: Path) -> None:
    """The output that counts rows is judged by the pairing; a padded set is cut by it."""
    padded = outputs([0, 1, 2, 0, 0])
    left = {**padded, "n": np.array([3], np.int64)}
    right = {**outputs([1, 0, 2, 2, 2]), "n": np.array([2], np.int64)}
    judged = compared(tmp_path, left, right, policy=limits(count="n", max_unmatched=1))
    assert judged.outcome is Outcome.PASS
    assert "n" not in {o.subject.output for o in judged.outputs}
    strict = compared(tmp_path / "strict", left, right, policy=limits(count="n"))
    assert [f.id for f in against(strict)] == ["decision.detections"]


def test_further_outputs_follow_their_rows(tmp_path: Path) -> None:
    """A mask for each box is compared with that of the paired box."""
    masks = np.arange(3 * 2 * 2, dtype=np.float32).reshape(3, 2, 2)
    left, right = outputs() | {"masks": masks}, outputs([2, 0]) | {"masks": masks[[2, 0]]}
    lenient = limits(per_row=["masks"], max_unmatched=1)
    assert compared(tmp_path, left, right, policy=lenient).outcome is Outcome.PASS
    other = right | {"masks": masks[[0, 2]]}
    judged = compared(tmp_path / "other", left, other, policy=lenient)
    assert [(f.id, f.subject.output) for f in against(judged)] == [("output.values", "masks")]
    missing = right | {"masks": masks[:1]}
    judged = compared(tmp_path / "missing", left, missing, policy=lenient)
    assert [f.id for f in against(judged)] == ["output.shape"]


def test_rows_in_place_are_compared_as_they_are(tmp_path: Path) -> None:
    """With the output's own shape in the report."""
    judged = run(tmp_path, outputs())
    assert {o.shape for o in judged.outputs} == {(3, 4), (3,)}
    batch = {name: array[None] for name, array in outputs().items()}
    whole = compared(tmp_path / "batch", batch, batch, policy=limits())
    assert {o.shape for o in whole.outputs} == {(1, 3, 4), (1, 3)}


def test_rows_that_are_no_detections_are_not_compared(tmp_path: Path) -> None:
    """What a padded output holds beyond its detections is nobody's; a detection's is."""
    low = np.array([0.9, 0.8, 0.01], np.float32)
    junk = BOXES + np.array([[0], [0], [77]], np.float32)
    sides = outputs(scores=low), outputs(scores=low / 2 + [0.45, 0.4, 0], boxes=junk)
    sides[1]["scores"] = sides[1]["scores"].astype(np.float32)
    judged = compared(tmp_path / "0", *sides, policy=limits())
    assert judged.outcome is Outcome.PASS
    assert {o.shape for o in judged.outputs} == {(2, 4), (2,)}
    every = policy({"decisions": {"boxes": {"detections": {"scores": "scores"}}}})
    assert compared(tmp_path / "1", *sides, policy=every).outcome is Outcome.FAIL


def test_a_decision_that_cannot_be_made_excuses_nothing(tmp_path: Path) -> None:
    """The tensors are compared as they are, the decision stays open."""
    judged = run(tmp_path, outputs([0, 1]), count="none")
    assert {f.id for f in against(judged)} == {"decision.detections", "output.shape"}
    same = run(tmp_path / "same", outputs(), count="none")
    assert same.outcome is Outcome.INCONCLUSIVE
