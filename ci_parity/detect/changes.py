"""Identities against a baseline's: which axes moved, said so that a reviewer can read it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ci_parity.detect.converter import explain_converter
from ci_parity.detect.host_words import explain_host
from ci_parity.detect.optimization import as_facts, explain_optimization
from ci_parity.detect.preprocess_words import explain_preprocess
from ci_parity.detect.runtime_words import explain_images, explain_runtime
from ci_parity.records.condensed import digest_of, is_condensed
from ci_parity.records.facts import Facts
from ci_parity.records.identity import (
    Axis,
    BaselineSource,
    Change,
    ChangeSet,
    Identity,
    PairName,
)

_ABSENT = "(none)"
_NOTHING = "{}"
_SHOWN_FACTS = 3
_EXPLAIN: Mapping[Axis, Callable[[Facts, Facts], tuple[str, ...]]] = {
    Axis.CONVERTER: explain_converter,
    Axis.DRIVER: explain_host,
    Axis.OPTIMIZATION: explain_optimization,
    Axis.PREPROCESSING: explain_preprocess,
    Axis.RUNTIME: explain_runtime,
}


def compare_identities(
    source: BaselineSource, baselines: Sequence[Identity], identities: Sequence[Identity]
) -> ChangeSet:
    """Return what differs and what must run for it; a pair without a baseline must run."""
    known = {_name(b): b for b in baselines}
    changes: list[Change] = []
    to_run: list[PairName] = []
    for identity in identities:
        before = known.pop(_name(identity), None)
        found = list(_differences(before, identity)) if before else []
        if before is None and baselines:
            found = [_change(Axis.MODEL, identity, _ABSENT, _short(identity.model))]
        if found or before is None:
            to_run.append(_name(identity))
        changes.extend(found)
    changes.extend(_change(Axis.MODEL, b, _short(b.model), _ABSENT) for b in known.values())
    kept = {_name(identity) for identity in identities}
    return ChangeSet(
        source=source,
        changes=tuple(changes),
        identities=tuple(identities),
        baselines=tuple(b for b in baselines if _name(b) in kept),
        to_run=tuple(to_run),
    )


def forced(changes: ChangeSet, reason: str) -> ChangeSet:
    """Return the same differences with the order to run every pair all the same."""
    everything = tuple(_name(identity) for identity in changes.identities)
    return replace(changes, to_run=everything, source=replace(changes.source, reason=reason))


def _name(identity: Identity) -> PairName:
    return PairName(target=identity.target, variant=identity.variant)


def _differences(before: Identity, after: Identity) -> Iterator[Change]:
    yield from _fact_change(Axis.CONVERTER, after, before.converter, after.converter)
    if before.runtime != after.runtime:
        change = _change(Axis.RUNTIME, after, before.runtime, after.runtime)
        inside = [_known_facts(side.components) for side in (before, after)]
        words = explain_images(before.runtime, after.runtime, inside[0], inside[1])
        yield replace(change, sentences=words)
    else:
        yield from _fact_change(Axis.RUNTIME, after, before.components, after.components)
    if before.provider != after.provider:
        yield _change(Axis.RUNTIME, after, before.provider, after.provider)
    yield from _fact_change(Axis.DRIVER, after, before.host, after.host)
    if before.model != after.model:
        yield _change(Axis.MODEL, after, _short(before.model), _short(after.model))
    if before.options != after.options:
        yield _change(Axis.OPTIMIZATION, after, *option_words(before.options, after.options))
    yield from _optimizer_change(before, after)
    # To have no pipeline is known, too.
    pipelines = (before.preprocess or _NOTHING, after.preprocess or _NOTHING)
    yield from _fact_change(Axis.PREPROCESSING, after, *pipelines)
    if before.fixtures != after.fixtures:
        yield _change(Axis.FIXTURES, after, _short(before.fixtures), _short(after.fixtures))
    if before.policy and after.policy and digest_of(before.policy) != digest_of(after.policy):
        yield _change(Axis.POLICY, after, *_policy_words(before.policy, after.policy))


def _fact_change(axis: Axis, identity: Identity, before: str, after: str) -> Iterator[Change]:
    """Yield the change of an axis whose facts both sides know; what is unknown is no change."""
    if not before or not after or digest_of(before) == digest_of(after):
        return
    if is_condensed(before) or is_condensed(after):
        yield _change(axis, identity, _short(digest_of(before)), _short(digest_of(after)))
        return
    sides: tuple[Facts, Facts] = (json.loads(before), json.loads(after))
    sentences = _EXPLAIN[axis](*sides)
    yield replace(_change(axis, identity, *_fact_words(*sides)), sentences=sentences)


def _optimizer_change(before: Identity, after: Identity) -> Iterator[Change]:
    """Yield the change of a recipe or of its tools; to have neither is known, too."""
    texts = (as_facts(before.optimization), as_facts(after.optimization))
    for change in _fact_change(Axis.OPTIMIZATION, after, *texts):
        recipes = [json.loads(text).get("recipe", "") for text in texts]
        words = [f"recipe {_short(recipe)}" for recipe in recipes]
        moved = words[0] != words[1]
        yield replace(change, before=words[0], after=words[1]) if moved else change


def _known_facts(text: str) -> Facts:
    """Return the facts of an identity, none where they are not known or condensed."""
    facts: Facts = json.loads(text) if text and not is_condensed(text) else {}
    return facts


def _fact_words(before: Facts, after: Facts) -> tuple[str, str]:
    """Return the first facts that differ, each side as `name=value` words."""
    names = [n for n in dict.fromkeys((*before, *after)) if before.get(n) != after.get(n)]
    shown = names[:_SHOWN_FACTS]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    sides = [", ".join(f"{n}={side.get(n, 'absent')}" for n in shown) for side in (before, after)]
    return sides[0] + more, sides[1] + more


def _change(axis: Axis, identity: Identity, before: str, after: str) -> Change:
    return Change(
        axis=axis, target=identity.target, variant=identity.variant, before=before, after=after
    )


def _policy_words(before: str, after: str) -> tuple[str, str]:
    if is_condensed(before) or is_condensed(after):
        return _short(digest_of(before)), _short(digest_of(after))
    return option_words(before, after)


def option_words(before: str, after: str) -> tuple[str, str]:
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
