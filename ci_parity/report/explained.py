"""One case from raw input to verdict, in plain lines: a heading, and what belongs below it.

Numbered as a person goes through it. Whatever comes from a file is shown without control
characters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ci_parity.base.escape import visible
from ci_parity.records.explanation import (
    ExplainedDecision,
    ExplainedOutput,
    ExplainedRaw,
    ExplainedRun,
    Explanation,
    Ranked,
)
from ci_parity.records.outcome import Outcome
from ci_parity.records.preprocess import InputMatch, Match, StepSummary, TensorSummary
from ci_parity.report.words import ICONS, measure, number

_SHOWN_CAUSES = 5
_SAME = {
    Match.EQUAL: "to the bit what is stored",
    Match.WITHIN: "what is stored, but for what decoders and orders of operations may move",
    Match.DIFFERENT: "NOT what is stored",
    Match.MISSING: "made by the pipeline, and NOT stored",
    Match.EXTRA: "stored, and NOT made by the pipeline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and its lines; `outcome` is None where nothing is judged there."""

    title: str
    lines: tuple[str, ...]
    outcome: Outcome | None = None


def render(explanation: Explanation) -> str:
    """Return an explanation as text."""
    blocks = [
        "\n".join((section.title, *(f"   {line}" for line in section.lines)))
        for section in sections(explanation)
    ]
    return "\n\n".join(blocks) + "\n"


def sections(said: Explanation) -> Iterator[Section]:
    """Yield what a person reads, in order."""
    classes = f" ({', '.join(said.classes)})" if said.classes else ""
    yield Section(
        title=_plain(f"Case {said.case} of {said.deployment}{classes}"),
        lines=tuple(map(_plain, _about(said))),
    )
    yield Section(title="1. What the application got", lines=tuple(_got(said)))
    yield Section(
        title="2. What preprocessing makes of it, before any model runs",
        lines=tuple(_made(said)), outcome=said.fed,
    )  # fmt: skip
    yield Section(
        title="3. What the model is fed",
        lines=tuple(_plain(f"{i.name}: {_tensor(i.tensor)}") for i in said.inputs),
    )
    for run in said.runs:
        yield Section(
            title=_plain(f"4. What {run.variant} computes on {run.target}"),
            lines=tuple(_ran(run)),
            outcome=Outcome.worst(
                [*(o.outcome for o in run.outputs), *(d.outcome for d in run.decisions)]
            ),
        )
    yield Section(
        title=f"5. Verdict: {ICONS[said.outcome]} {said.outcome.value}",
        lines=(f"{said.held} of {said.checks} checks of this case hold", *_verdict(said)),
        outcome=said.outcome,
    )


def _about(said: Explanation) -> Iterator[str]:
    if said.description:
        yield said.description
    if said.provenance:
        yield f"references: {said.provenance}"


def _got(said: Explanation) -> Iterator[str]:
    if not said.raws:
        yield "no raw input is stored with this case: what it is fed is taken as it is stored"
    for raw in said.raws:
        which = "" if raw.input == "*" else f" for input {raw.input}"
        yield _plain(f"{raw.path}{which}: {raw.size_bytes:,} bytes, sha256 {raw.sha256[:16]}")


def _made(said: Explanation) -> Iterator[str]:
    if not said.raws:
        yield "nothing can be rebuilt without a raw input"
        return
    if said.pipeline:
        yield _plain(f"declared in {said.pipeline}")
    for raw in said.raws:
        if len(said.raws) > 1:
            yield _plain(raw.path)
        yield from _rebuilt(raw)


def _rebuilt(raw: ExplainedRaw) -> Iterator[str]:
    for step in raw.steps:
        yield _plain(_step(step))
    if raw.problem:
        yield _plain(f"not rebuilt: {raw.problem}")
    if raw.diagnosis is None:
        return
    for match in raw.diagnosis.inputs:
        yield from map(_plain, _match(match))
    for cause in raw.diagnosis.causes[:_SHOWN_CAUSES]:
        near = "" if cause.exact else f", but for {cause.max_abs:.3g}"
        yield _plain(f"-> the stored tensor is what {cause.words} gives{near}")


def _step(step: StepSummary) -> str:
    shown = _tensor(step.tensor) if step.tensor is not None else step.preview
    return f"{step.name}: {step.words}" + (f" -> {shown}" if shown else "")


def _match(match: InputMatch) -> Iterator[str]:
    yield f"rebuilt {match.name}: {_tensor(match.rebuilt)}"
    yield f"stored {match.name}: {_tensor(match.stored)}"
    apart = ""
    if match.match is not Match.EQUAL and match.max_abs is not None:
        apart = f": up to {match.max_abs:.3g} apart, {number(match.limit)} is allowed"
    yield f"-> {match.name} is {_SAME[match.match]}{apart}"


def _ran(run: ExplainedRun) -> Iterator[str]:
    used = ", ".join(run.providers_used) or "none is known to be"
    yield _plain(f"ran on {run.system}; asked for {run.provider_asked}, in use: {used}")
    for output in run.outputs:
        yield from map(_plain, _output(output))
    for decision in run.decisions:
        yield from map(_plain, _decision(decision))
    for other in run.others:
        yield _plain(other)


def _output(said: ExplainedOutput) -> Iterator[str]:
    yield f"{ICONS[said.outcome]} {said.name}, {said.boundary}: {said.outcome.value}"
    yield f"   expected {_tensor(said.expected)}"
    yield f"   here {_tensor(said.here)}"
    if said.max_abs is not None:
        yield f"   largest difference {said.max_abs:.3g}"
    yield f"   needed {number(said.needed)}, limit {measure(said.limit, said.unit)}"
    yield f"   the limit: {said.rule}"
    yield f"   decided by {said.policy}"


def _decision(said: ExplainedDecision) -> Iterator[str]:
    name = f"{said.kind} of {said.output}" if said.output else said.kind
    yield f"{ICONS[said.outcome]} {name}, {said.boundary}: {said.outcome.value}"
    if said.expected or said.here:
        yield f"   expected {_ranking(said.expected)}"
        yield f"   here {_ranking(said.here)}"
    yield f"   {said.evidence}"
    yield f"   decided by {said.policy}"


def _ranking(ranked: tuple[Ranked, ...]) -> str:
    words = (f"{r.name or f'class {r.number}'} {r.score:.4g}" for r in ranked)
    return ", ".join(words) or "nothing to rank"


def _verdict(said: Explanation) -> Iterator[str]:
    if said.fed is Outcome.FAIL:
        yield "the model was fed something else than the application makes: look there first"
    elif said.outcome is Outcome.FAIL and said.fed is Outcome.PASS:
        yield "what the model was fed is right; what it computed is not"
    elif said.outcome is Outcome.INCONCLUSIVE:
        yield "something was not measured here, which is never a pass"


def _tensor(tensor: TensorSummary | None) -> str:
    if tensor is None:
        return "nothing"
    shape = ", ".join(map(str, tensor.shape))
    words = f"{tensor.dtype}[{shape}]"
    if tensor.minimum is not None and tensor.maximum is not None:
        words += f", {tensor.minimum:.6g} to {tensor.maximum:.6g}"
    return words + (f", mean {tensor.mean:.6g}" if tensor.mean is not None else "")


def _plain(line: str) -> str:
    words = line.lstrip(" ")
    return " " * (len(line) - len(words)) + visible(words, 600)
