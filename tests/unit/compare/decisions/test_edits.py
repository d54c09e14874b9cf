from collections.abc import Sequence
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.decisions.edits import edit_distance, trimmed

WORDS = st.lists(st.integers(0, 3), max_size=12)


def reference(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the edit distance by its recursive definition."""

    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        replaced = distance(i - 1, j - 1) + (left[i - 1] != right[j - 1])
        return min(replaced, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(left), len(right))


@given(WORDS, WORDS)
@settings(deadline=None, max_examples=300)
def test_it_is_the_definition(left: list[int], right: list[int]) -> None:
    """In both directions."""
    expected = reference(left, right)
    sides = np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)
    assert edit_distance(*sides) == edit_distance(*sides[::-1]) == expected


def test_known_words() -> None:
    """The textbook's."""
    words = [np.array([ord(c) for c in word]) for word in ("kitten", "sitting", "", "kitten")]
    assert edit_distance(words[0], words[1]) == 3
    assert edit_distance(words[0], words[2]) == 6
    assert edit_distance(words[0], words[3]) == 0


@given(WORDS, WORDS, WORDS, WORDS)
@settings(deadline=None)
def test_what_is_common_costs_nothing(
    start: list[int], left: list[int], right: list[int], end: list[int]
) -> None:
    """Trimming keeps the distance, and no more than a beginning and an end go."""
    sides = [np.array([*start, *middle, *end], dtype=np.int64) for middle in (left, right)]
    cut = trimmed(*sides)
    assert reference(cut[0].tolist(), cut[1].tolist()) == reference(left, right)
    assert max(side.size for side in cut) <= max(len(left), len(right))
