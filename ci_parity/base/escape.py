"""Text that came from a model, a path or a branch name, made harmless for GitHub's Markdown.

Outside code spans every character that Markdown or HTML could act on (links, tables, tags) becomes
a character reference. GitHub looks for mentions, issues and addresses in the text that a reader
sees, where a reference is a character again; there a break of no width stops it, and what could be
the name of a commit becomes a code span. Control and bidirectional characters become visible.
"""

import re
import unicodedata

_PLAIN = re.compile(r"[A-Za-z0-9 .,;()+=%/'\"-]")
_ACTIVE = re.compile(r"[@#]|:(?=//)|(?<![A-Za-z0-9])(?:www(?=\.)|gh-(?=\d))", re.IGNORECASE)
# GitHub links the first digits of a commit; a number without a letter is taken for a number.
_COMMIT = re.compile(r"(?<!\w)(?=\d*[a-f])([0-9a-f]{7,64})(?!\w)", re.ASCII)
_BREAK = "\u200b"
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
# How much more text than is shown may be read, to find what is left without its blanks.
_READ = 16


def visible(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters with every invisible character spelt out."""
    head = text[: _READ * limit]
    line = " ".join(head.split())
    if len(line) > limit or len(head) < len(text):
        line = f"{line[: limit - 1]}…"
    if line.isprintable():
        return line
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _HIDDEN else c for c in line)


def prose(text: str, limit: int = 400) -> str:
    """Return untrusted text for a paragraph or a table cell."""
    parts = _COMMIT.split(visible(text, limit))
    return "".join(f"`{part}`" if at % 2 else _inert(part) for at, part in enumerate(parts))


def code(text: str, limit: int = 120) -> str:
    """Return untrusted text as a code span, fit for a table cell; empty text gives an empty cell.

    GitHub neither links nor notifies inside code spans; a backtick would end the span and a pipe
    the cell, so both are replaced.
    """
    line = visible(text, limit).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line.strip() else ""


def _inert(text: str) -> str:
    line = _ACTIVE.sub(lambda found: found[0] + _BREAK, text)
    return "".join(_reference(c) for c in line)


def _reference(character: str) -> str:
    plain = _PLAIN.fullmatch(character) or (ord(character) > 127 and character != _BREAK)
    return character if plain else f"&#{ord(character)};"
