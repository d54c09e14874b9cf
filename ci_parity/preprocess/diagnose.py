"""Rebuilt inputs against the stored ones, and what single change explains a difference.

1. The pipeline rebuilds the inputs; those that are equal, or but for rounding, need no explanation.
2. Otherwise every change of `mutations` is carried out on the same raw input and compared.
3. A cause is named only if it reproduces every stored tensor that the pipeline makes: to the bit,
   or, where none does, but for rounding, or, where none does, within the limit. All that explain it
   equally well are named, none is chosen among them. An input that one side lacks is a difference
   of its own, which no change explains.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ci_parity.base.errors import CiParityError
from ci_parity.preprocess.allowance import NOTHING, Allowance, allowance
from ci_parity.preprocess.execute import apply
from ci_parity.preprocess.image import Shared
from ci_parity.preprocess.matching import match_inputs
from ci_parity.preprocess.model import Pipeline
from ci_parity.preprocess.mutations.listing import mutations
from ci_parity.preprocess.mutations.mutation import Mutation
from ci_parity.preprocess.planned import Begin, unheard
from ci_parity.preprocess.steps import Array
from ci_parity.records.preprocess import Cause, Diagnosis, InputMatch, Match

SECONDS = 60.0
_EXACT, _ROUNDED, _NEAR = range(3)


@dataclass(frozen=True, slots=True)
class _Question:
    """What should have made the stored tensors, and the file that they were made from."""

    pipeline: Pipeline
    raw: bytes
    stored: Mapping[str, Array]
    shared: Shared
    begin: Begin

    def answered_by(self, mutation: Mutation) -> Mapping[str, Array]:
        """Return what a changed pipeline makes of the file."""
        changed = replace(self.pipeline, kind=mutation.kind)
        return apply(
            changed, self.raw, shared=self.shared,
            begin=lambda step: self.begin(f"{step}, with {mutation.words}"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A change that reproduces the tensors, and how closely."""

    cause: Cause
    distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What was found when every change was tried, or the time was over."""

    causes: tuple[Cause, ...]
    tried: int = 0
    refused: int = 0
    untried: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Rebuilt against stored inputs, before anybody asked why they differ.

    `diagnosis` names no cause. `is_open` says whether one can be searched for.
    """

    diagnosis: Diagnosis
    is_open: bool
    question: _Question
    level: Match


def diagnose(
    pipeline: Pipeline, raw: bytes, stored: Mapping[str, Array], *, seconds: float = SECONDS
) -> Diagnosis:
    """Rebuild the inputs of one case, compare them with the stored ones, and explain a difference.

    Args:
        pipeline: what should have made the inputs.
        raw: the raw input's bytes.
        stored: the stored tensors by input name.
        seconds: the time for the search of causes; the first comparison is made in any case.

    Raises:
        ConfigError: the pipeline is a function of the repository, or its files cannot be used.
        EvidenceError: the raw input is refused.
        InfrastructureError: a library of the extra `preprocess` is not installed.
    """
    comparison = compared(pipeline, raw, stored)
    return explained(comparison, seconds) if comparison.is_open else comparison.diagnosis


def compared(
    pipeline: Pipeline, raw: bytes, stored: Mapping[str, Array], *, begin: Begin = unheard
) -> Comparison:
    """Rebuild the inputs of one case and compare them with the stored ones (step 1).

    Args:
        pipeline: as for `diagnose`, as are `raw` and `stored`.
        raw: the raw input's bytes.
        stored: the stored tensors.
        begin: is told each step as it begins.

    Raises:
        ConfigError: as `diagnose`.
        EvidenceError: as `diagnose`.
        InfrastructureError: as `diagnose`.
    """
    question = _Question(pipeline, raw, stored, {}, begin)
    rebuilt = apply(pipeline, raw, shared=question.shared, begin=begin)
    begin("comparison")
    allowed = allowance(pipeline.kind, raw)
    inputs = match_inputs(rebuilt, stored, allowed)
    common = {name: stored[name] for name in rebuilt if name in stored}
    made = {name: rebuilt[name] for name in common}
    near = worst_of(match_inputs(made, common, allowed.rounding))
    is_open = bool(common) and near is Match.DIFFERENT
    return Comparison(
        diagnosis=_told(worst_of(inputs), inputs, _Search(causes=())),
        is_open=is_open,
        question=question,
        level=worst_of(match_inputs(made, common, allowed)) if is_open else near,
    )


def explained(comparison: Comparison, seconds: float) -> Diagnosis:
    """Search for the single change that explains an open difference (steps 2 and 3)."""
    found = comparison.diagnosis
    search = _searched(comparison.question, seconds, comparison.level)
    return _told(found.match, found.inputs, search)


def diagnose_rebuilt(rebuilt: Mapping[str, Array], stored: Mapping[str, Array]) -> Diagnosis:
    """Compare inputs that a function of the repository rebuilt; no cause can be searched for."""
    inputs = match_inputs(rebuilt, stored, NOTHING)
    return _told(worst_of(inputs), inputs, _Search(causes=()))


def worst_of(inputs: Sequence[InputMatch]) -> Match:
    """Return the gravest relation; an input that is missing or extra is a difference."""
    found = {item.match for item in inputs}
    if not found or found - {Match.EQUAL, Match.WITHIN}:
        return Match.DIFFERENT
    return Match.WITHIN if Match.WITHIN in found else Match.EQUAL


def _searched(question: _Question, seconds: float, level: Match) -> _Search:
    deadline = time.monotonic() + seconds
    listed = mutations(question.pipeline.kind)
    found: list[_Found] = []
    tried = refused = 0
    for mutation in listed:
        if time.monotonic() > deadline:
            break
        tried += 1
        try:
            rebuilt = question.answered_by(mutation)
        except (CiParityError, ValueError):
            refused += 1
            continue
        allowed = allowance(mutation.kind, question.raw)
        cause = _cause(mutation, rebuilt, question.stored, allowed)
        if cause is not None:
            found.append(cause)
    best = _best(found, among=_EXACT if level is Match.WITHIN else _NEAR)
    untried = len(listed) - tried
    return _Search(causes=best, tried=tried - refused, refused=refused, untried=untried)


def _cause(
    mutation: Mutation, rebuilt: Mapping[str, Array], stored: Mapping[str, Array],
    allowed: Allowance,
) -> _Found | None:  # fmt: skip
    """Return the cause that a change is, if it reproduces every tensor that both sides have."""
    common = {name: stored[name] for name in rebuilt if name in stored}
    inputs = match_inputs({name: rebuilt[name] for name in common}, common, allowed)
    worst = worst_of(inputs)
    if worst is Match.DIFFERENT:
        return None
    made = {name: rebuilt[name] for name in common}
    rounded = worst_of(match_inputs(made, common, allowed.rounding)) is not Match.DIFFERENT
    exact = worst is Match.EQUAL
    cause = Cause(
        key=mutation.key, words=mutation.words, exact=exact,
        max_abs=max(item.max_abs or 0.0 for item in inputs),
    )  # fmt: skip
    return _Found(cause=cause, distance=_EXACT if exact else _ROUNDED if rounded else _NEAR)


def _best(found: Sequence[_Found], *, among: int) -> tuple[Cause, ...]:
    """Return the causes that come closest: to the bit, else but for rounding, else to a level."""
    least = min((item.distance for item in found), default=_NEAR)
    best = [item.cause for item in found if item.distance == least <= among]
    return tuple(sorted(best, key=lambda cause: cause.max_abs))


def _told(worst: Match, inputs: tuple[InputMatch, ...], search: _Search) -> Diagnosis:
    return Diagnosis(
        match=worst,
        words=_words(worst, inputs, search),
        inputs=inputs,
        causes=search.causes,
        tried=search.tried,
        refused=search.refused,
        untried=search.untried,
    )


def _words(worst: Match, inputs: Sequence[InputMatch], search: _Search) -> str:
    if worst is Match.EQUAL:
        return "the rebuilt inputs equal the stored ones"
    causes = ", and equally what ".join(f"{cause.words} gives" for cause in search.causes)
    left = f"; {search.untried} changes were not tried for lack of time" if search.untried else ""
    if worst is Match.WITHIN:
        close = next(item for item in inputs if item.match is Match.WITHIN)
        exact = f"; to the bit the stored tensor is what {causes}" if causes else ""
        return f"the rebuilt inputs are within the limit: {close.words}{exact}"
    lacking = [f"{i.name}: {i.words}" for i in inputs if i.match in (Match.EXTRA, Match.MISSING)]
    if causes:
        near = "" if search.causes[0].exact else f", to within {search.causes[0].max_abs:.3g}"
        return "; ".join((f"the stored tensor is what {causes}{near}{left}", *lacking))
    told = "; ".join(f"{i.name}: {i.words}" for i in inputs if i.match is not Match.EQUAL)
    tried = f"; none of {search.tried} single changes reproduces it" if search.tried else ""
    return f"{told}{tried}{left}"
