"""The hidden first line of a comment of ours, and what it remembers.

It is read back from a page that others can edit: `comment` has checked the author, this module
checks every field. Nothing in it is shown but numbers, outcomes and hexadecimal digits.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.history import EarlierVerdict
from ci_parity.records.outcome import Outcome

# With the verdict that is written now, a reader sees five.
REMEMBERED = 4
_LINE = re.compile(r"<!-- ci-parity:v1 (\{.*\}) -->\s*")
_LINE_LENGTH = 8192
_TOO_LARGE = 10**16
_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The hidden first line of a comment: whose it is, which run wrote it, what was said before.

    `id` names the configuration; `run` and `attempt` order two writers; `sha` is the judged commit,
    `page` the number of the run's page. `history` are the verdicts before this one, oldest first.
    """

    id: str
    run: int
    attempt: int
    sha: str
    outcome: Outcome
    page: int
    history: tuple[EarlierVerdict, ...] = ()

    @property
    def order(self) -> tuple[int, int]:
        """The greater one is newer."""
        return self.run, self.attempt

    @property
    def told(self) -> tuple[EarlierVerdict, ...]:
        """All that a comment with this marker says, its own verdict last."""
        own = EarlierVerdict(
            run=self.run, attempt=self.attempt, page=self.page, sha=self.sha, outcome=self.outcome
        )
        return (*self.history, own)

    def line(self) -> str:
        """Return the HTML comment; no text inside can end it early."""
        text = canonical_bytes(to_json(self)).decode("utf-8")
        for sign in "-<>":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return f"<!-- ci-parity:v1 {text} -->"

    @classmethod
    def parse(cls, body: str) -> "Marker | None":
        """Read the first line of a comment; `None` when it is no marker of this version.

        A history that is not as we write it is dropped, and the rest still counts: who may edit our
        comment can spoil what it remembers, and no more.
        """
        line = body[: _LINE_LENGTH + 1].partition("\n")[0]
        match = _LINE.fullmatch(line)
        if match is None or len(line) > _LINE_LENGTH:
            return None
        try:
            fields = parse_strict(match[1].encode("utf-8"), where="marker")
            if not isinstance(fields, Mapping):
                return None
            own = {key: value for key, value in fields.items() if key != "history"}
            marker = from_json(cls, own, where="marker")
        except (EvidenceError, UnicodeEncodeError):
            return None
        if not _is_sound(marker):
            return None
        return replace(marker, history=_history(fields.get("history"), marker.order))


def _history(value: Json, before: tuple[int, int]) -> tuple[EarlierVerdict, ...]:
    """Return what a marker remembers; nothing where it is not whole, in order and older."""
    if not isinstance(value, list) or len(value) > REMEMBERED:
        return ()
    try:
        past = tuple(from_json(EarlierVerdict, item, where="marker") for item in value)
    except EvidenceError:
        return ()
    orders = [*(one.order for one in past), before]
    if not all(map(_is_sound, past)) or orders != sorted(set(orders)):
        return ()
    return past


def _is_sound(told: Marker | EarlierVerdict) -> bool:
    numbers = (told.run, told.attempt, told.page)
    return all(0 < number < _TOO_LARGE for number in numbers) and bool(_SHA.fullmatch(told.sha))
