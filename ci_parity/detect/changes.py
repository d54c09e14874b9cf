"""Identities against a baseline's: which axes moved, said so that a reviewer can read it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ci_parity.records.identity import Axis, BaselineSource, Change, ChangeSet, Identity

_ABSENT = "(none)"


def compare_identities(
    source: BaselineSource, baselines: Sequence[Identity], identities: Sequence[Identity]
) -> ChangeSet:
    """Return what differs; whatever has no baseline must run."""
    known = {(b.target, b.variant): b for b in baselines}
    changes: list[Change] = []
    complete = bool(known)
    for identity in identities:
        before = known.get((identity.target, identity.variant))
        if before is None:
            complete = False
            if known:
                changes.append(_change(Axis.MODEL, identity, _ABSENT, _short(identity.model)))
        else:
            changes.extend(_differences(before, identity))
    kept = {(i.target, i.variant) for i in identities}
    gone = [b for key, b in known.items() if key not in kept]
    changes.extend(_change(Axis.MODEL, b, _short(b.model), _ABSENT) for b in gone)
    return ChangeSet(
        source=source,
        changes=tuple(changes),
        identities=tuple(identities),
        baselines=tuple(known[key] for key in known if key in kept),
        must_run=bool(changes) or not complete,
    )


def forced(changes: ChangeSet, reason: str) -> ChangeSet:
    """Return the same differences with the order to run all the same."""
    return replace(changes, must_run=True, source=replace(changes.source, reason=reason))


def _differences(before: Identity, after: Identity) -> Iterator[Change]:
    if before.model != after.model:
        yield _change(Axis.MODEL, after, _short(before.model), _short(after.model))
    if before.runtime != after.runtime:
        yield _change(Axis.RUNTIME, after, before.runtime, after.runtime)
    if before.provider != after.provider:
        yield _change(Axis.RUNTIME, after, before.provider, after.provider)
    if before.options != after.options:
        yield _change(Axis.OPTIMIZATION, after, *_option_words(before.options, after.options))
    if before.optimization != after.optimization:
        recipes = (_short(before.optimization), _short(after.optimization))
        yield _change(Axis.OPTIMIZATION, after, *(f"recipe {recipe}" for recipe in recipes))
    if before.fixtures != after.fixtures:
        yield _change(Axis.FIXTURES, after, _short(before.fixtures), _short(after.fixtures))
    if before.policy != after.policy:
        yield _change(Axis.POLICY, after, _short(before.policy), _short(after.policy))


def _change(axis: Axis, identity: Identity, before: str, after: str) -> Change:
    return Change(
        axis=axis, target=identity.target, variant=identity.variant, before=before, after=after
    )


def _option_words(before: str, after: str) -> tuple[str, str]:
    """Return the options that differ, each side as `name=value` words."""
    sides = [dict(_flat("", json.loads(text))) for text in (before, after)]
    names = sorted(n for n in {*sides[0], *sides[1]} if sides[0].get(n) != sides[1].get(n))
    words = [", ".join(f"{n}={side.get(n, '(default)')}" for n in names) for side in sides]
    return words[0], words[1]


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(
                key if prefix in {"", "session", "provider"} else f"{prefix}.{key}", item
            )
    else:
        yield prefix, str(value)


def _short(digest: str) -> str:
    return digest[:12] or _ABSENT
