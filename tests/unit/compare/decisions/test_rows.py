import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.compare.decisions.rows import blocks, rows_of

SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@given(SHAPES, st.integers(0, 3), st.booleans())
@settings(deadline=None)
def test_rows_are_what_moving_the_axis_last_gives(
    shape: tuple[int, ...], axis: int, negative: bool
) -> None:
    """In the order of all other axes, whatever the block size."""
    axis %= len(shape)
    array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    rows = rows_of(array, axis - len(shape) if negative else axis)
    expected = np.moveaxis(array, axis, -1).reshape(math.prod(rows.rest), shape[axis])
    assert rows.rest == shape[:axis] + shape[axis + 1 :]
    assert (rows.count, rows.classes) == expected.shape
    found = np.zeros_like(expected, dtype=np.float64)
    for start, (table,) in blocks(rows):
        found[start : start + len(table)] = table
    assert np.array_equal(found, expected)
    if expected.size:
        numbers, classes = np.nonzero(expected >= 0)
        assert np.array_equal(rows.values(numbers, classes), expected.reshape(-1))
        assert np.array_equal(array.reshape(-1)[rows.flat(numbers, classes)], expected.reshape(-1))
        places = [rows.position(int(n), int(c)) for n, c in zip(numbers, classes, strict=True)]
        assert places == rows.flat(numbers, classes).tolist()


@pytest.mark.parametrize("shape", [(5, 3, 700), (1, 3, 2000), (900, 3), (3, 4, 5, 60)])
def test_blocks_cover_every_row_once(shape: tuple[int, ...]) -> None:
    """Also where one position of the outer axes is larger than a block."""
    array = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    rows = rows_of(array, 1)
    pieces = list(blocks(rows, rows, size=1024))
    assert max(table.size for _, pair in pieces for table in pair) <= 1024
    assert [start for start, _ in pieces] == list(
        np.cumsum([0, *(len(pair[0]) for _, pair in pieces)])[:-1]
    )
    together = np.concatenate([pair[1] for _, pair in pieces])
    assert np.array_equal(together, np.moveaxis(array, 1, -1).reshape(-1, shape[1]))


def test_a_row_is_named_by_its_position() -> None:
    """One number where there is one other axis, a list where there are more."""
    assert rows_of(np.zeros((4, 3)), -1).name(2) == "row 2"
    assert rows_of(np.zeros((4, 3, 5)), 1).name(7) == "row [1, 2]"


@pytest.mark.parametrize(
    ("array", "axis", "said"),
    [
        (np.zeros(3), 1, "axis 1 does not exist"),
        (np.zeros(3), -2, "axis -2 does not exist"),
        (np.zeros(()), -1, "axis -1 does not exist"),
        (np.zeros(3, bool), -1, "bool holds no scores"),
        (np.zeros(3, complex), -1, "complex128 holds no scores"),
        (np.zeros(3, np.int64), -1, "int64 holds numbers that are no scores"),
        (np.array(["a"], object), -1, "string holds no scores"),
    ],
)
def test_what_has_no_rows_of_scores_is_refused(array: np.ndarray, axis: int, said: str) -> None:
    """With the reason."""
    with pytest.raises(UnusableError, match=said):
        rows_of(array, axis)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.int8, np.uint32, ml_dtypes.bfloat16, ml_dtypes.int4]
)
def test_every_kind_of_score_is_widened(dtype: type) -> None:
    """Quantised ones and those NumPy lacks too."""
    rows = rows_of(np.array([[1, 2, 3]]).astype(dtype), -1)
    ((_, (table,)),) = blocks(rows)
    assert table.tolist() == [[1.0, 2.0, 3.0]]
