"""Words that findings and reports share."""

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `1,204 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def percent(ratio: float) -> str:
    """Return a ratio as a signed change in percent."""
    return f"{100 * (ratio - 1):+.1f} %"


def numbers(values: Sequence[float]) -> str:
    """Return numbers as a list, each in its shortest form."""
    return ", ".join(f"{value:g}" for value in values)
