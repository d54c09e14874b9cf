"""Text that came from a model, a path or a branch name, made harmless for GitHub's Markdown.

Outside code spans every character that Markdown, HTML or GitHub could act on (links, mentions,
issue references, tables, tags) becomes a character reference; control and bidirectional characters
become visible.
"""

import re
import unicodedata

_PLAIN = re.compile(r"[A-Za-z0-9 ,;()+=%/'\"-]")
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def visible(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters with every invisible character spelt out."""
    line = " ".join(text.split())
    if len(line) > limit:
        line = f"{line[: limit - 1]}…"
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _HIDDEN else c for c in line)


def prose(text: str, limit: int = 400) -> str:
    """Return untrusted text for a paragraph or a table cell."""
    line = visible(text, limit)
    return "".join(c if _PLAIN.fullmatch(c) or ord(c) > 127 else _reference(c) for c in line)


def code(text: str, limit: int = 120) -> str:
    """Return untrusted text as a code span, fit for a table cell; empty text gives an empty cell.

    GitHub neither links nor notifies inside code spans; a backtick would end the span and a pipe
    the cell, so both are replaced.
    """
    line = visible(text, limit).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line.strip() else ""


def _reference(character: str) -> str:
    # A full stop is acted on only where it makes a host name, which a zero-width break prevents.
    return character if character == "." else f"&#{ord(character)};"
