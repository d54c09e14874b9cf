import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.decoding import PAD, collapsed, decode
from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.config.decisions import NearTies, Text


def text(decode: str = "ctc", **changes: Any) -> Text:
    """Return a policy."""
    usual: dict[str, Any] = {
        "decode": decode, "axis": -1, "time_axis": -2, "blank": 0, "end": None, "alphabet": None,
        "append_space": False, "max_edit_distance": 0, "near": NearTies(margin=None, fail=False),
    }  # fmt: skip
    return Text(**(usual | changes))


def plain(texts: Any) -> list[list[int]]:
    """Return padded symbols as lists."""
    return [[n for n in row if n != PAD] for row in texts.tolist()]


def reference(steps: list[int], blank: int) -> list[int]:
    """Return the text of one row of best classes: repeats once, then no blanks."""
    return [label for label, _ in itertools.groupby(steps) if label != blank]


@given(st.integers(0, 4), st.integers(0, 8), st.integers(0, 2), st.integers(0, 2**32))
@settings(deadline=None, max_examples=200)
def test_best_paths_collapse_as_a_plain_loop_collapses_them(
    rows: int, width: int, blank: int, seed: int
) -> None:
    """A repeat after a blank counts again; what is left stands at the left."""
    steps = np.random.default_rng(seed).integers(0, 3, (rows, width))
    found = collapsed(steps, blank)
    assert plain(found) == [reference(row, blank) for row in steps.tolist()]
    gaps = (found[:, :-1] == PAD) & (found[:, 1:] != PAD)
    assert not gaps.any()


def test_many_rows_collapse_in_pieces() -> None:
    """With the same result."""
    steps = np.random.default_rng(1).integers(0, 3, (100, 7))
    assert np.array_equal(collapsed(steps, 0, chunk=30), collapsed(steps, 0))


@pytest.mark.parametrize(
    ("order", "axis", "time_axis"),
    [((0, 1, 2), -1, -2), ((1, 0, 2), -1, 0), ((0, 2, 1), 1, 2), ((2, 0, 1), 0, -1)],
)
def test_steps_and_classes_may_lie_along_any_axis(
    order: tuple[int, ...], axis: int, time_axis: int
) -> None:
    """[batch, time, class], [time, batch, class], [batch, class, time], [class, batch, time]."""
    steps = np.array([[1, 1, 0, 2], [2, 0, 2, 2]])
    scores = np.eye(3)[steps].transpose(order)
    found = decode(scores, scores, text(axis=axis, time_axis=time_axis))
    assert plain(found.texts[0]) == plain(found.texts[1]) == [[1, 2], [2, 2]]
    assert found.rest == (2,)
    assert found.steps is not None
    assert found.steps[0].tolist() == steps.tolist()


def test_rows_with_nan_are_left_out_and_counted() -> None:
    """Of both sides, so that they do not look changed."""
    left = np.eye(3)[np.array([[1], [1], [1]])]
    right = left.copy()
    left[0, 0, 0] = right[1, 0, 2] = np.nan
    found = decode(left, right, text())
    assert (found.nan_before, found.lost) == (1, 1)
    assert plain(found.texts[0]) == plain(found.texts[1]) == [[], [], [1]]


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)])
def test_nothing_reads_as_nothing(shape: tuple[int, ...]) -> None:
    """No rows, or no steps."""
    found = decode(np.zeros(shape), np.zeros(shape), text())
    assert plain(found.texts[0]) == [[]] * shape[0]


def test_token_numbers_end_where_their_end_stands() -> None:
    """What follows is padding; lengths may differ between the sides."""
    left = np.array([[5, 6, 1, 9], [1, 5, 5, 5]])
    right = np.array([[5, 6, 1], [7, 1, 0]])
    found = decode(left, right, text("ids", end=1))
    assert plain(found.texts[0]) == [[5, 6], []]
    assert plain(found.texts[1]) == [[5, 6], [7]]
    assert plain(decode(left, left, text("ids")).texts[0]) == left.tolist()


def test_strings_are_their_characters() -> None:
    """Of any shape."""
    array = np.array([["ab", ""], ["größe", "x"]], dtype=object)
    found = decode(array, array, text("strings"))
    assert found.rest == (2, 2)
    assert ["".join(map(chr, row)) for row in plain(found.texts[0])] == ["ab", "", "größe", "x"]


SCORES = np.zeros((2, 3, 4))


@pytest.mark.parametrize(
    ("left", "right", "policy", "said"),
    [
        (SCORES, SCORES[:, :2], text(), "shape"),
        (SCORES, SCORES, text(axis=3), "axis 3"),
        (SCORES, SCORES, text(time_axis=5), "axis 5"),
        (SCORES, SCORES, text(axis=-1, time_axis=2), "both"),
        (SCORES, SCORES, text(blank=4), "class 4"),
        (np.zeros((2, 3), bool), np.zeros((2, 3), bool), text(), "bool"),
        (SCORES, SCORES, text("ids"), "token"),
        (np.array(1), np.array(1), text("ids"), "token"),
        (np.array([[-1]]), np.array([[-1]]), text("ids"), "negative"),
        (np.array([[2**63]], np.uint64), np.array([[1]], np.uint64), text("ids"), "beyond"),
        (np.array([[1], [2]]), np.array([[1]]), text("ids"), "rows"),
        (SCORES, SCORES, text("strings"), "strings"),
        (np.array(["a"], object), np.array(["a", "b"], object), text("strings"), "rows"),
    ],
)
def test_what_cannot_be_read_is_refused(left: Any, right: Any, policy: Text, said: str) -> None:
    """With the reason."""
    with pytest.raises(UnusableError, match=said):
        decode(left, right, policy)


def test_strings_without_end_are_refused() -> None:
    """One long text would make all rows as long."""
    array = np.array(["x" * 20_000] + ["y"] * 10_000, dtype=object)
    with pytest.raises(UnusableError, match="too long"):
        decode(array, array, text("strings"))
