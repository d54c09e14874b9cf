"""The blocks that a comment is made of besides lines: tables, links and what is folded."""

from collections.abc import Sequence
from urllib.parse import quote

# What an address may hold as it is; anything else could end the link or start an element.
_ADDRESS = ":/?#@!$&'*+,;=%~-._"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; every cell is Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def folded(title: str, body: str) -> str:
    """Return Markdown that opens on a click; the title is ours."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def linked(text: str, url: str) -> str:
    """Return Markdown as a link to an http(s) address, as it is without one."""
    safe = url.startswith(("https://", "http://"))
    return f"[{text}]({quote(url, safe=_ADDRESS)})" if safe else text


def more(count: int, what: str = "") -> str:
    """Return a paragraph that counts what is left out, nothing where nothing is."""
    return f"\n\n… and {count} more{f' {what}' if what else ''}." if count > 0 else ""
