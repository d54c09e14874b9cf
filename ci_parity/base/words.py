"""Words that findings and reports share."""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `1,204 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
