from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.boxes import overlap, read_table
from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.config.decisions import Detections
from ci_parity.config.load import policy

BOXES = st.lists(st.tuples(*[st.integers(-3, 3)] * 4), max_size=4)


def detections(**words: Any) -> Detections:
    """Return a policy."""
    found = policy({"decisions": {"y": {"detections": words}}}).decisions["y"].detections
    assert found is not None
    return found


def reference(a: Any, b: Any) -> float:
    """Return the overlap of two boxes by counting unit squares, which whole numbers allow."""

    def squares(box: Any) -> set[tuple[int, int]]:
        x1, y1, x2, y2 = map(int, box)
        return {(x, y) for x in range(x1, x2) for y in range(y1, y2)}

    union = squares(a) | squares(b)
    if not union:
        return float(tuple(a) == tuple(b))
    return len(squares(a) & squares(b)) / len(union)


@given(BOXES, BOXES)
@settings(deadline=None, max_examples=200)
def test_overlap_is_the_share_of_common_squares(left: Any, right: Any) -> None:
    """Turned and empty boxes have none; two equal ones overlap wholly."""
    sides = [np.array(side, np.float64).reshape(-1, 4) for side in (left, right)]
    found = overlap(*sides)
    assert found.shape == (len(left), len(right))
    assert found == pytest.approx(
        np.array([[reference(a, b) for b in right] for a in left]).reshape(found.shape)
    )


def test_equal_boxes_overlap_exactly() -> None:
    """A limit of 1 can be met, at any size."""
    rng = np.random.default_rng(1)
    corner = rng.uniform(-1e3, 1e3, (50, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1e-6, 1e3, (50, 2))], axis=1)
    assert np.diag(overlap(boxes, boxes)).tolist() == [1.0] * 50
    huge = np.array([[-1e300, -1e300, 1e300, 1e300]])
    assert 0 <= overlap(huge, huge)[0, 0] <= 1


@pytest.mark.parametrize(
    ("box_format", "numbers"),
    [("xyxy", [1, 2, 4, 8]), ("xywh", [1, 2, 3, 6]), ("cxcywh", [2.5, 5, 3, 6]),
     ("yxyx", [2, 1, 8, 4])],
)  # fmt: skip
def test_every_format_says_the_same_box(box_format: str, numbers: list[float]) -> None:
    """From x 1 to 4, from y 2 to 8."""
    table = read_table({"y": np.array([numbers])}, "y", detections(format=box_format))
    assert table.box.tolist() == [[1, 2, 4, 8]]


def test_outputs_of_their_own() -> None:
    """Boxes, scores and classes of two images, rows in the order of the output."""
    outputs: dict[str, Any] = {
        "y": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "s": np.array([[0.9, 0.5, 0.1], [0.8, 0.2, 0.7]], np.float32),
        "c": np.array([[3, 1, 2], [0, 0, 5]], np.int64),
    }
    table = read_table(outputs, "y", detections(scores="s", classes="c", score=0.5))
    assert table.box.tolist() == outputs["y"].reshape(6, 4).tolist()
    assert table.image.tolist() == [0, 0, 0, 1, 1, 1]
    assert table.label.tolist() == [3, 1, 2, 0, 0, 5]
    assert table.kept.tolist() == [True, True, False, True, False, True]
    assert table.scored


def test_a_score_for_each_class() -> None:
    """The best class is the label, its score the score."""
    outputs = {
        "y": np.zeros((1, 2, 4)),
        "s": np.array([[[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]]]),
    }
    table = read_table(outputs, "y", detections(scores="s"))
    assert table.label.tolist() == [1, 0]
    assert table.score.tolist() == [0.7, 0.6]


def test_boxes_alone() -> None:
    """Every row is a detection of one kind."""
    table = read_table({"y": np.zeros((3, 4))}, "y", detections())
    assert (table.kept.tolist(), table.label.tolist(), table.scored) == ([True] * 3, [0] * 3, False)


def test_everything_in_one_output() -> None:
    """Columns as exporters lay them: box, score, class; or image, box, class, score."""
    packed = np.array([[[1, 2, 3, 4, 0.9, 7], [5, 6, 7, 8, 0.1, 8]]], np.float32)
    columns = {"box": 0, "score": 4, "class": 5}
    table = read_table({"y": packed}, "y", detections(columns=columns, score=0.5))
    assert table.box.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert table.score == pytest.approx([0.9, 0.1])
    assert (table.label.tolist(), table.kept.tolist()) == ([7, 8], [True, False])
    batched = np.array([[1, 1, 2, 3, 4, 7, 0.9], [0, 5, 6, 7, 8, 8, 0.1]], np.float32)
    columns = {"image": 0, "box": 1, "class": 5, "score": 6}
    table = read_table({"y": batched}, "y", detections(columns=columns))
    assert (table.image.tolist(), table.label.tolist()) == ([1, 0], [7, 8])


@pytest.mark.parametrize("count", [np.array([1, 3]), np.array([[1], [3]], np.int32)])
def test_padding_is_told_by_the_count(count: Any) -> None:
    """Of each image."""
    outputs = {"y": np.zeros((2, 3, 4)), "n": count}
    table = read_table(outputs, "y", detections(count="n"))
    assert table.kept.tolist() == [True, False, False, True, True, True]


def test_what_is_not_finite_is_odd() -> None:
    """A NaN among scores may be a detection; one in a box below the score is none."""
    boxes = np.zeros((5, 4))
    boxes[0, 1] = boxes[1, 1] = np.nan
    boxes[4, 2] = np.inf
    outputs = {"y": boxes, "s": np.array([0.9, 0.1, np.nan, 0.9, 0.9])}
    table = read_table(outputs, "y", detections(scores="s", score=0.5, format="cxcywh"))
    assert table.odd.tolist() == [True, False, True, False, True]
    assert table.kept.tolist() == [False, False, False, True, False]
    labels = {"y": np.zeros((2, 4)), "c": np.array([np.nan, 1])}
    assert read_table(labels, "y", detections(classes="c")).odd.tolist() == [True, False]


ROWS = np.zeros((2, 3, 4))
PACKED = {"columns": {"score": 4, "class": 5}}


@pytest.mark.parametrize(
    ("outputs", "words", "said"),
    [
        ({}, {}, "no output 'y'"),
        ({"y": ROWS}, {"scores": "s"}, "no output 's'"),
        ({"y": np.zeros(4)}, {}, "no rows"),
        ({"y": np.zeros((3, 5))}, {}, "four numbers"),
        ({"y": np.zeros((3, 4), bool)}, {}, "bool"),
        ({"y": ROWS, "s": np.zeros((2, 4))}, {"scores": "s"}, "do not go with rows"),
        ({"y": ROWS, "s": np.zeros((2, 3, 0))}, {"scores": "s"}, "do not go with rows"),
        ({"y": ROWS, "s": np.zeros((2, 3), np.int64)}, {"scores": "s"}, "int64"),
        ({"y": ROWS, "c": np.zeros((2, 4))}, {"classes": "c"}, "do not go with rows"),
        ({"y": ROWS, "c": np.full((2, 3), "a", object)}, {"classes": "c"}, "no numbers"),
        ({"y": ROWS, "n": np.array([1])}, {"count": "n"}, "for 2 images"),
        ({"y": ROWS, "n": np.array([1, 4])}, {"count": "n"}, "do not exist"),
        ({"y": ROWS, "n": np.array([1, -1])}, {"count": "n"}, "do not exist"),
        ({"y": ROWS, "n": np.array([1, np.nan])}, {"count": "n"}, "do not exist"),
        ({"y": ROWS}, PACKED, "no column 5"),
        ({"y": np.zeros((2, 3, 6))}, {"columns": {"image": 5}}, "does not number the images"),
        ({"y": np.full((3, 6), np.nan)}, {"columns": {"image": 5}}, "does not number"),
    ],
)
def test_what_are_no_detections_is_refused(outputs: Any, words: Any, said: str) -> None:
    """With the reason."""
    with pytest.raises(UnusableError, match=said):
        read_table(outputs, "y", detections(**words))


@pytest.mark.parametrize("shape", [(0, 4), (1, 0, 4), (0, 3, 4)])
def test_no_rows_are_no_detections(shape: tuple[int, ...]) -> None:
    """With scores, for each class too."""
    for scores in (shape[:-1], (*shape[:-1], 5)):
        outputs = {"y": np.zeros(shape), "s": np.zeros(scores)}
        assert read_table(outputs, "y", detections(scores="s")).kept.size == 0
