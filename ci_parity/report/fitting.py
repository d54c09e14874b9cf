"""Texts in pictures: how wide they are, and what of a long one is shown."""

import unicodedata

from ci_parity.base.escape import visible


def fitting(text: str, width: int, end: int | None = None) -> str:
    """Return text at most so wide, what lies before its end left out; wide characters take two.

    Args:
        text: what to show.
        width: how wide it may be, in cells of a letter's width.
        end: how much of that the end of it may take; two thirds by default.
    """
    ends = text if len(text) <= 4 * width else text[: 2 * width] + text[-2 * width :]
    line = visible(ends, 4 * width)
    if cells(line) <= width:
        return line
    end = 2 * width // 3 if end is None else end
    head, tail = line, line[::-1]
    while cells(head) > width - end - 1:
        head = head[:-1]
    while cells(tail) > end:
        tail = tail[:-1]
    return f"{head}…{tail[::-1]}"


def cells(text: str) -> int:
    """Return how many cells of a letter's width a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
