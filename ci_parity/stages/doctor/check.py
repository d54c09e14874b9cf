"""One answer of the doctor."""

import enum
from dataclasses import dataclass


class State(enum.Enum):
    """`missing` is what a target of this repository needs; `note` is good to know."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, what was found, and what to do about it."""

    name: str
    state: State
    words: str
    remedy: str = ""


def ok(name: str, words: str) -> Check:
    """Return an answer that nothing is to be done about."""
    return Check(name=name, state=State.OK, words=words)


def note(name: str, words: str, remedy: str = "") -> Check:
    """Return what is good to know, and stops nothing here."""
    return Check(name=name, state=State.NOTE, words=words, remedy=remedy)


def missing(name: str, words: str, remedy: str) -> Check:
    """Return what something here cannot do without."""
    return Check(name=name, state=State.MISSING, words=words, remedy=remedy)
