"""The tolerance ledger: which loosening is meant, who allowed it, why, and until when.

Between a config that is valid under the schema and the policy guard. An entry names what it allows
by a key: one of the policy (`tolerance`, `outputs.probs`, `latency.max_regression`, `contract`,
`placement.TARGET`, `files` for labels, alphabets and judges), or something that may be missing
(`case:NAME`, `reference:CASE/OUTPUT`, `target:NAME`, `variant:NAME`, `fixtures` for all cases,
`base` for a baseline that cannot be read). Nothing is judged here.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from ci_parity.base.errors import ConfigError

SOON_DAYS = 14
_KINDS = ("case", "reference", "target", "variant")
_WHOLE = ("fixtures", "base")
_OPEN = frozenset({"outputs", "decisions", "inputs", "sizes", "opset", "files", "placement"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One loosening that is allowed up to the end of the day `until`, UTC."""

    key: str
    who: str
    why: str
    until: date

    def expired(self, today: date) -> bool:
        """Whether the last day has passed."""
        return today > self.until

    def ends_soon(self, today: date) -> bool:
        """Whether the last day is within the next fourteen, or today."""
        return 0 <= (self.until - today).days <= SOON_DAYS

    def __str__(self) -> str:
        return f"{self.who} until {self.until.isoformat()}: {self.why}"


def build_ledger(
    raw: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
) -> tuple[LedgerEntry, ...]:
    """Build a ledger from a value that is valid under the schema.

    Args:
        raw: the entries.
        schema: the config's, which knows the keys of a policy and of a contract.

    Raises:
        ConfigError: a key that nothing can have, a key given twice, or a day the calendar lacks.
    """
    entries: list[LedgerEntry] = []
    for number, item in enumerate(raw):
        place = f"$.policy.ledger[{number}]"
        _check_key(item["key"], schema, f"{place}.key")
        if any(entry.key == item["key"] for entry in entries):
            raise ConfigError(
                f"two entries for {item['key']!r}",
                where=f"{place}.key",
                remedy="keep the one that says what was agreed last",
            )
        entries.append(
            LedgerEntry(
                key=item["key"], who=item["who"], why=item["why"],
                until=_day(item["until"], f"{place}.until"),
            )
        )  # fmt: skip
    return tuple(entries)


def entry_for(
    ledger: Sequence[LedgerEntry], keys: Collection[str], today: date
) -> LedgerEntry | None:
    """Return the entry that allows something known by several keys, None where none still does."""
    allowing = (entry for entry in ledger if entry.key in keys and not entry.expired(today))
    return next(allowing, None)


def keys_of(path: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that cover a place in the policy: its own, and those of what it is part of.

    A name with dots in it is one part: `outputs.a.b` is not below `outputs.a`.
    """
    return tuple(".".join(path[:length]) for length in range(1, len(path) + 1))


def _day(text: str, place: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no day of the calendar", where=place, remedy='write "2027-03-01"'
        ) from None


def _check_key(key: str, schema: Mapping[str, Any], place: str) -> None:
    kind, colon, name = key.partition(":")
    if colon and kind in _KINDS and name:
        return
    definitions = schema["$defs"]
    contract = {"contract": {"$ref": "#/$defs/contract"}, "files": {}, "placement": {}}
    known = {**definitions["policy"]["properties"], **contract}
    del known["ledger"]
    first, *others = key.split(".")
    if key in _WHOLE or (first in known and _possible(known[first], first, others, definitions)):
        return
    names = [*known, *_WHOLE, *(f"{kind}:NAME" for kind in _KINDS)]
    close = difflib.get_close_matches(key, names, n=1)
    raise ConfigError(
        f"the ledger's key {key!r} names nothing that can be loosened",
        where=place,
        remedy=f"did you mean {close[0]!r}?" if close else f"keys: {', '.join(names)}",
    )


def _possible(
    rule: Mapping[str, Any], name: str, below: Sequence[str], definitions: Mapping[str, Any]
) -> bool:
    """Whether a rule of the schema can have something below it; under free names, anything."""
    if not below or name in _OPEN:
        return all(below)
    if "$ref" in rule:
        rule = definitions[rule["$ref"].removeprefix("#/$defs/")]
    properties = rule.get("properties", {})
    return below[0] in properties and _possible(
        properties[below[0]], below[0], below[1:], definitions
    )
