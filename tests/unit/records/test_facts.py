"""Facts: short, visible, and never left out to mean something."""

import pytest

from ci_parity.records.facts import (
    ABSENT,
    EMPTY,
    MAX_CHARS,
    differences,
    fact,
    failed,
    measured,
    reading,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  550.54.15\n", "550.54.15"),
        ("", EMPTY),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("Grün → 12", "Grün → 12"),
    ],
)
def test_a_fact_is_one_visible_line(text: str, shown: str) -> None:
    """Nothing in it can break a table, turn a line around or fail to be written."""
    assert fact(text) == shown


def test_a_long_fact_is_cut_and_stays_itself() -> None:
    """Two long texts with one beginning remain two facts."""
    first, second = fact("x" * 5000 + "a"), fact("x" * 5000 + "b")
    assert len(first) <= MAX_CHARS
    assert first != second


def raising(error: Exception) -> str:
    """Raise instead of reading."""
    raise error


@pytest.mark.parametrize(
    ("error", "value"),
    [
        (FileNotFoundError(2, "No such file"), ABSENT),
        (NotADirectoryError(20, "Not a directory"), ABSENT),
        (PermissionError(13, "Permission denied"), "failed: Permission denied"),
        (OSError("odd"), "failed: OSError"),
        (ValueError("no version"), "failed: no version"),
    ],
)
def test_missing_is_absent_and_trouble_is_failed(error: Exception, value: str) -> None:
    """A probe that fails is not a thing that is not there."""
    assert reading(lambda: raising(error)) == value
    assert not measured(value)


def test_differences_see_what_comes_goes_and_fails() -> None:
    """Absent on one side is a difference like any other, and so is a failure."""
    before = {"same": "1", "gone": "2", "broken": "3"}
    after = {"same": "1", "broken": failed("x"), "new": "4"}
    assert differences(before, after) == {
        "broken": ("3", "failed: x"),
        "new": (ABSENT, "4"),
        "gone": ("2", ABSENT),
    }
    assert differences({"a": ABSENT}, {}) == {}
