"""Sentences for what moved in a converter: the model's own words, its pins, its scripts.

After the facts, before the report, which escapes them. A sentence says what is certain: a hash that
moved alone is another file under the same version, a script whose syntax stayed was only laid out
anew.
"""

from collections.abc import Iterator, Sequence

from ci_parity.base.pins import PinChange, PinChangeKind, PinSet, compare_pins
from ci_parity.records.facts import ABSENT, Facts

_MAX_SENTENCES = 20
_MAX_NAMES = 8
_NONE = "(none)"
_MODEL_FACTS = ("producer", "ir version", "function domains", "command", "requires")
_ORDER = list(PinChangeKind)


def explain_model(before: Facts, after: Facts) -> Iterator[str]:
    """Yield what the model says otherwise, and which command or requirements the config names."""
    opsets = sorted(key for key in {**before, **after} if key.startswith("opset "))
    for key in (*_MODEL_FACTS[:2], *opsets, *_MODEL_FACTS[2:]):
        was, now = before.get(key, _NONE), after.get(key, _NONE)
        if was != now:
            yield f"{key} {was} → {now}"
    if before.get("metadata") != after.get("metadata"):
        yield "the metadata of the model changed"


def explain_pins(before: PinSet, after: PinSet) -> Iterator[str]:
    """Yield a sentence for each difference of pins, those somebody asked for first."""
    changes = sorted(
        compare_pins(before, after), key=lambda c: (c.direct is False, _ORDER.index(c.kind))
    )
    groups: dict[object, list[PinChange]] = {}
    for change in changes:
        groups.setdefault(_alike(change), []).append(change)
    sentences = [sentence for group in groups.values() for sentence in _group_words(group)]
    yield from sentences[:_MAX_SENTENCES]
    if len(sentences) > _MAX_SENTENCES:
        yield f"and {len(sentences) - _MAX_SENTENCES} more differences of pins"


def _alike(change: PinChange) -> object:
    """Return what changes have in common that one sentence can say together."""
    if change.kind is PinChangeKind.SOURCE:
        return change.kind, change.was, change.now
    if change.kind is PinChangeKind.HASHES and not (change.was and change.now):
        return change.kind, bool(change.was)
    return change


def _group_words(group: Sequence[PinChange]) -> Iterator[str]:
    first = group[0]
    if len(group) <= 3:
        yield from (_pin_words(change) for change in group)
    elif first.kind is PinChangeKind.SOURCE:
        came = f"{first.was or 'the default index'} → {first.now or 'the default index'}"
        yield f"{len(group)} packages come from elsewhere: {came}, versions equal"
    else:
        yield f"hashes of {len(group)} packages {'removed' if first.was else 'added'}"


def _pin_words(change: PinChange) -> str:
    lead = "transitive: " if change.direct is False else ""
    place = f" ({change.where})" if change.where else ""
    return f"{lead}{_difference(change)}{place}"


def _difference(change: PinChange) -> str:
    named = f"{change.name} {change.version}".strip()
    was, now = change.was or _NONE, change.now or _NONE
    match change.kind:
        case PinChangeKind.ADDED:
            return f"{named} {change.now} added"
        case PinChangeKind.REMOVED:
            return f"{named} {change.was} removed"
        case PinChangeKind.HASHES:
            return _hash_words(named, change.was, change.now)
        case PinChangeKind.SOURCE:
            return f"{named} comes from elsewhere: {was} → {now}, same version"
        case PinChangeKind.MARKER:
            return f"{named} holds under another condition: {was} → {now}"
        case PinChangeKind.EXTRAS:
            return f"extras of {named}: {was} → {now}"
        case PinChangeKind.ROLE:
            return f"{named} is now {now}, before {was}, same version"
        case PinChangeKind.VERSION | PinChangeKind.RANGE | PinChangeKind.SETTING:
            return f"{named} {was} → {now}"


def _hash_words(named: str, was: str, now: str) -> str:
    if not was or not now:
        return f"hashes of {named} {'added' if now else 'removed'}, same version"
    counts = [text.partition(":")[0] for text in (was, now)]
    if counts[0] != counts[1]:
        return f"only the admitted files of {named} changed: same version, other hashes"
    return f"only the hash of {named} changed: same version, other file"


def explain_scripts(before: Facts, after: Facts, *, pins_equal: bool) -> Iterator[str]:
    """Yield which scripts of the converter changed, came or went."""
    olds, news = _scripts(before), _scripts(after)
    changed: list[str] = []
    laid_out: list[str] = []
    others: list[str] = []
    for path in sorted(olds.keys() | news.keys()):
        old, new = olds.get(path, ""), news.get(path, "")
        if not old or not new:
            others.append(f"{path} {'added' if new else 'removed'}")
        elif old.split(" ")[0] != new.split(" ")[0]:
            (laid_out if _code(old) and _code(old) == _code(new) else changed).append(path)
    equal = ", pins equal" if pins_equal else ""
    if changed or others:
        yield f"converter script changed ({_listed([*changed, *others])}){equal}"
    if laid_out:
        only = ", only comments or formatting changed"
        yield f"converter script changed ({_listed(laid_out)}){only}{equal}"
    for path, fact in news.items():
        if fact.endswith(("unparsed", ABSENT)) and fact != olds.get(path):
            lack = "is not there" if fact == ABSENT else "cannot be parsed"
            yield f"{path} {lack}: what it imports is not known"


def _scripts(facts: Facts) -> dict[str, str]:
    lead = "script "
    return {k.removeprefix(lead): value for k, value in facts.items() if k.startswith(lead)}


def _code(fact: str) -> str:
    return next((word for word in fact.split(" ") if word.startswith("code=")), "")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
