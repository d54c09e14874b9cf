"""Words that findings and reports share."""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `1,204 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def percent(ratio: float) -> str:
    """Return a ratio as a signed change in percent."""
    return f"{100 * (ratio - 1):+.1f} %"
