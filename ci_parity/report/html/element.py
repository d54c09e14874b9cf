"""HTML and SVG elements from Python: whatever is not an element already is text, and harmless.

Text that came from a model, a path or a branch name reaches the page as a plain `str`, and a `str`
is always escaped: only `element` and `verbatim` make `Html`, and joining or formatting it gives a
`str` again, which would be escaped once more and seen. Control and bidirectional characters are
spelt out, long texts cut. Addresses pass `address`, which knows two schemes.
"""

from collections.abc import Iterable
from html import escape
from typing import Final
from urllib.parse import quote, urlsplit

from ci_parity.base.escape import visible

LONGEST = 160
_VOID: Final = {"input", "meta"}
_SHAPES: Final = {"circle", "path", "rect"}


class Html(str):
    """Markup that is known to be well formed."""

    __slots__ = ()


Child = Html | str | None | Iterable["Child"]
Value = str | int | float | bool | None


def element(kind: str, /, *children: Child, **attributes: Value) -> Html:
    """Return an element; what is no `Html` among its children is text.

    Args:
        kind: the name of the element, ours.
        children: texts, elements, sequences of both, and None for nothing.
        attributes: their names are ours: `class_` and `for_` lose the underscore at their end,
            others become hyphens. True stands for one without a value; None and False leave it out.
    """
    opened = f"<{kind}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if kind in _SHAPES:
        return Html(f"{opened}/>")
    return Html(f"{opened}>" if kind in _VOID else f"{opened}>{together(children)}</{kind}>")


def together(children: Child) -> Html:
    """Return several elements and texts as one."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return text(children)
    return Html("".join(together(child) for child in children))


def text(words: str, limit: int = LONGEST) -> Html:
    """Return one line of text, at most so long, that acts as nothing else."""
    return Html(escape(visible(words, limit)))


def verbatim(markup: str) -> Html:
    """Return markup of our own files or renderers, which nothing foreign is part of unescaped."""
    return Html(markup)


def spaced(*children: Child) -> Html:
    """Return elements and texts with a blank between each two; what is empty is left out."""
    return Html(" ".join(shown for shown in map(together, children) if shown))


def code(words: str, limit: int = LONGEST) -> Html:
    """Return a name that came from outside; empty text gives nothing."""
    shown = visible(words, limit)
    return element("code", shown, dir="ltr") if shown.strip() else Html("")


def link(child: Child, href: str, **attributes: Value) -> Html:
    """Return a link to an address, only the child where that is none we know."""
    return element("a", child, href=href, **attributes) if href else together(child)


def address(url: str) -> str:
    """Return the address of a page on the web, empty for anything else."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    known = parts.scheme in {"http", "https"} and bool(parts.netloc)
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) < 2000
    return url if known and plain else ""


def beside(path: str) -> str:
    """Return the address of a file by its path from the page's folder."""
    return "./" + quote(path.encode("utf-8", "surrogateescape"), safe="/.").lstrip("/")


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_quoted(value)}"'


def _quoted(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return escape(visible(value, 2000) if isinstance(value, str) else str(value))
