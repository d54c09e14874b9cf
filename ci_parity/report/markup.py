"""The two blocks that a comment is made of besides lines: tables, and what is folded."""

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; every cell is Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def folded(title: str, body: str) -> str:
    """Return Markdown that opens on a click; the title is ours."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
