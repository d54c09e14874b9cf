from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.boxes import Table, overlap
from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.compare.decisions.matching import Matching, match


def table(box: Any, score: Any = None, label: Any = None, image: Any = None) -> Table:
    """Return detections; all of one class in one image unless they say otherwise."""
    box = np.array(box, np.float64).reshape(-1, 4)
    rows = len(box)
    return Table(
        box=box,
        score=np.zeros(rows) if score is None else np.array(score, np.float64),
        label=np.zeros(rows) if label is None else np.array(label, np.float64),
        image=np.zeros(rows, np.int64) if image is None else np.array(image, np.int64),
        kept=np.ones(rows, bool), odd=np.zeros(rows, bool), scored=score is not None,
    )  # fmt: skip


def pairs(found: Matching) -> list[tuple[int, int]]:
    """Return the pairs of a matching."""
    return list(zip(found.left.tolist(), found.right.tolist(), strict=True))


def reference(left: Table, right: Table, iou: float) -> list[tuple[int, int]]:
    """Return the pairs of a plain greedy loop."""
    ratio = overlap(left.box, right.box)
    wanted = sorted(
        (-ratio[i, j], abs(left.score[i] - right.score[j]), i, j)
        for i in range(len(left.box))
        for j in range(len(right.box))
        if ratio[i, j] >= iou
        and left.label[i] == right.label[j]
        and left.image[i] == right.image[j]
    )
    free = set(range(len(left.box))), set(range(len(right.box)))
    found = []
    for *_, i, j in wanted:
        if i in free[0] and j in free[1]:
            free[0].remove(i)
            free[1].remove(j)
            found.append((i, j))
    return sorted(found)


def some(rng: np.random.Generator) -> Table:
    """Return up to eight boxes of two classes in two images, many of them equal."""
    rows = int(rng.integers(0, 9))
    corner = rng.integers(0, 3, (rows, 2))
    box = np.concatenate([corner, corner + rng.integers(1, 4, (rows, 2))], axis=1)
    return table(box, rng.integers(0, 3, rows), rng.integers(0, 2, rows), rng.integers(0, 2, rows))


@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.5, 1.0]))
@settings(deadline=None, max_examples=200)
def test_pairs_are_those_of_a_plain_greedy_loop(seed: int, iou: float) -> None:
    """And every other row is left alone."""
    rng = np.random.default_rng(seed)
    left, right = some(rng), some(rng)
    found = match(left, right, iou)
    assert pairs(found) == reference(left, right, iou)
    rows = [(found.left, found.left_alone, left), (found.right, found.right_alone, right)]
    for paired, alone, side in rows:
        together = np.concatenate([paired, alone])
        assert sorted(together.tolist()) == list(range(len(side.box)))
    ratio = overlap(left.box, right.box)
    assert found.iou.tolist() == [ratio[i, j] for i, j in pairs(found)]


@given(st.integers(0, 2**32))
@settings(deadline=None)
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    """A permuted set pairs with itself wholly."""
    rng = np.random.default_rng(seed)
    left = some(rng)
    order = rng.permutation(len(left.box))
    right = table(left.box[order], left.score[order], left.label[order], left.image[order])
    found = match(left, right, 1.0)
    assert found.left_alone.size == found.right_alone.size == 0
    assert left.box[found.left].tolist() == right.box[found.right].tolist()


def test_equal_boxes_pair_by_their_scores() -> None:
    """The nearer ones, though rows come in another order."""
    box = [[0, 0, 2, 2], [0, 0, 2, 2]]
    found = match(table(box, [0.9, 0.5]), table(box, [0.5, 0.9]), 0.5)
    assert pairs(found) == [(0, 1), (1, 0)]


def test_rows_that_are_no_detections_do_not_pair() -> None:
    """They are on neither list."""
    left, right = table([[0, 0, 1, 1]]), table([[0, 0, 1, 1]])
    left.kept[0] = False
    found = match(left, right, 0.5)
    assert (pairs(found), found.left_alone.size, found.right_alone.tolist()) == ([], 0, [0])


def test_many_groups_and_many_rows_pair() -> None:
    """A batch of crowded images."""
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 600, (5000, 2))
    box = np.concatenate([corner, corner + rng.uniform(5, 60, (5000, 2))], axis=1)
    label, image = rng.integers(0, 80, 5000), rng.integers(0, 8, 5000)
    score = rng.uniform(size=5000)
    order = rng.permutation(5000)
    moved = box[order] + rng.normal(0, 1e-3, (5000, 4))
    found = match(
        table(box, score, label, image), table(moved, score[order], label[order], image[order]), 0.5
    )
    assert np.array_equal(order[found.right], found.left)
    assert found.left.size == 5000


def test_too_many_are_refused() -> None:
    """Before they are compared with each other."""
    above = np.arange(15_000.0)[:, None] * [0, 2, 0, 2]
    many = table(above + np.array([0, 0, 1, 1]))
    with pytest.raises(UnusableError, match="too many to be paired"):
        match(many, many, 0.5)
    crowded = table(np.tile([[0, 0, 1, 1]], (2_100, 1)))
    with pytest.raises(UnusableError, match="overlap each other"):
        match(crowded, crowded, 0.5)
