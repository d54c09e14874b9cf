"""What a generated test must give: the reference evaluator's answer, held against other runtimes.

1. ONNX's reference evaluator answers, in a process of its own with limits of time and memory.
2. onnxruntime on the CPU answers too, in another one.
3. Where these two do not agree within the test's tolerance, or one of them cannot answer, OpenVINO
   is asked, if it can be had: what two of the three say is what the test must give.
4. Where no two agree, the test is disputed, and says what each gave: it is evidence for nothing.
   Where only one answers, its word is taken, and the test says so.

That a target may be one of the three does not make it its own judge: alone it is outvoted.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Progress
from ci_parity.config.runtimes import CPU_PROVIDER, CURRENT
from ci_parity.config.systems import Target
from ci_parity.coverage.cases import write_case
from ci_parity.coverage.made.make import Draft
from ci_parity.coverage.made.tolerances import tolerance_of
from ci_parity.records.coverage import NodeCase, NodeOutcome
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import Value, read_value
from ci_parity.run.crew import Crew, Done, Errand, crew_size
from ci_parity.run.execute import Job
from ci_parity.run.runtime import WORKERS, Launch, prepare
from ci_parity.stages.coverage.judging import judge

LIMIT_S = 30.0
THIRD = "openvino==2026.4.1"
"""The runtime that is asked where the first two do not agree."""

# Attributes that the reference evaluator accepts and does not read.
_UNREAD = {
    "LSTM": frozenset({"clip", "input_forget"}), "GRU": frozenset({"clip"}),
    "RNN": frozenset({"clip"}),
}  # fmt: skip
_MAX_WORDS = 300
_PRECISE = {"INFERENCE_PRECISION_HINT": "f32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one oracle says of one draft: its outputs, or why it has none."""

    oracle: str
    outputs: Mapping[str, Value] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a draft must give, and who says so; `trouble` where nobody can say."""

    outputs: Mapping[str, Value] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0
    oracle: str = ""
    disputed: str = ""
    trouble: str = ""


def settle(
    drafts: Sequence[Draft], folder: Path, *, cache: Path, progress: Progress, third: str = THIRD
) -> dict[str, Settled]:  # fmt: skip
    """Return what each draft must give, by its id.

    Args:
        drafts: have distinct ids.
        folder: scratch space.
        cache: where environments are kept.
        progress: is told of every draft that an oracle answers.
        third: the runtime that is asked where two do not agree, empty for none.
    """
    errands = [_errand(draft, folder / f"d{at}") for at, draft in enumerate(drafts)]
    by_id = {draft.id: draft for draft in drafts}
    unread = {draft.id: words for draft in drafts if (words := _unread(draft))}
    readable = [errand for errand in errands if errand.name not in unread]
    first = _asked(reference_job(), readable, folder / "reference", progress)
    first |= {name: Answer(oracle="onnx", trouble=words) for name, words in unread.items()}
    second = _asked(_job(CURRENT, cache), errands, folder / "second", progress)
    court = Court(by_id, folder / "court")
    open_ones = [e for e in errands if not court.agree(e.name, first[e.name], second[e.name])]
    last: dict[str, Answer] = {}
    open_ones = [errand for errand in open_ones if _can_be_asked(by_id[errand.name])]
    if open_ones and third:
        with suppress(CiParityError):
            last = _asked(_job(third, cache), open_ones, folder / "third", progress)
    return {
        name: court.settled(name, [a for a in (first[name], second[name], last.get(name)) if a])
        for name in by_id
    }


def _unread(draft: Draft) -> str:
    """Return which attributes of a draft the reference evaluator would ignore, in words."""
    names = _UNREAD.get(draft.blueprint.op_type, frozenset())
    found = sorted(one.name for one in draft.blueprint.attributes if one.name in names)
    return f"its reference evaluator does not read {', '.join(found)}" if found else ""


def _can_be_asked(draft: Draft) -> bool:
    """Whether OpenVINO computes in the precision that is asked: float64 it computes as float32."""
    return all(feed.dtype != "float64" for feed in draft.blueprint.inputs)


def reference_job() -> Job:
    """Return the reference evaluator of the onnx that is installed beside this program."""
    argv = (sys.executable, "-I", "-B", str(WORKERS / "onnx_worker.py"))
    label = f"onnx=={version('onnx')}"
    launch = Launch(argv=argv, label=label, environment=label)
    target = Target(name="oracle", runtime=label, provider=CPU_PROVIDER)
    return Job(launch=launch, model=Path(), target=target, timeout_s=LIMIT_S)


def _job(runtime: str, cache: Path) -> Job:
    launch = prepare(runtime, cache=cache)
    own = runtime.startswith("openvino")
    target = Target(
        name="oracle", runtime=runtime, provider="CPU" if own else CPU_PROVIDER,
        provider_options=_PRECISE if own else {},
    )  # fmt: skip
    return Job(launch=launch, model=Path(), target=target, timeout_s=LIMIT_S)


def _errand(draft: Draft, folder: Path) -> Errand:
    case = write_case(draft.id, draft.model, draft.inputs, {}, folder, rtol=0, atol=0, oracle="")
    return Errand(
        name=draft.id, model=case.model, folder=folder, inputs=case.inputs,
        outputs=tuple(port.name for port in draft.model.graph.output),
    )  # fmt: skip


def _asked(
    job: Job, errands: Sequence[Errand], folder: Path, progress: Progress
) -> dict[str, Answer]:
    """Return what one oracle says of each errand."""
    label = job.launch.label
    if not errands:
        return {}
    title = f"asking {label} what {len(errands)} tests must give"
    with (
        progress.step(title, len(errands)) as step,
        Crew(
            job, errands, folder, size=crew_size(job.target.provider), shown=folder.parent
        ) as crew,
    ):
        found = {}
        for done in crew:
            found[done.errand.name] = _answer(label, done)
            done.discard()
            step.advance()
    return found


def _answer(label: str, done: Done) -> Answer:
    if done.run.status is not RunStatus.OK:
        return Answer(oracle=label, trouble=done.run.message[:_MAX_WORDS] or done.run.status.value)
    try:
        outputs = {r.name: _held(read_value(r, done.folder)) for r in done.run.outputs}
    except CiParityError as error:
        return Answer(oracle=label, trouble=error.what)
    return Answer(oracle=label, outputs=outputs)


def _held(value: Value) -> Value:
    """Return a value in memory, as its file will be deleted."""
    import numpy as np

    if isinstance(value, list):
        return [_held(item) for item in value]
    return np.array(value) if isinstance(value, np.ndarray) else value


class Court:
    """Holds answers against each other under the tolerance of their test."""

    def __init__(self, drafts: Mapping[str, Draft], folder: Path) -> None:
        self._drafts = drafts
        self._folder = folder
        self._count = 0

    def agree(self, name: str, left: Answer, right: Answer) -> bool:
        """Whether two oracles both answer, and alike."""
        return not left.trouble and not right.trouble and not self._words(name, left, right)

    def settled(self, name: str, answers: Sequence[Answer]) -> Settled:
        """Return what most of the answers say, the first oracle's numbers before others'."""
        given = [answer for answer in answers if not answer.trouble]
        silent = [f"{a.oracle} cannot say: {a.trouble}" for a in answers if a.trouble]
        if not given:
            return Settled(trouble="; ".join(silent))
        for left, right in _pairs(given):
            words = self._words(name, left, right)
            if not words:
                return self._said(name, left, [left, right], given, silent)
        if len(given) == 1:
            return self._said(name, given[0], given, given, silent)
        parts = [f"{left.oracle} against {right.oracle}: {self._words(name, left, right)}"
                 for left, right in _pairs(given)]  # fmt: skip
        found = self._said(name, given[0], [given[0]], [given[0]], silent)
        return Settled(
            outputs=found.outputs, rtol=found.rtol, atol=found.atol, oracle=found.oracle,
            disputed="; ".join(parts),
        )  # fmt: skip

    def _said(
        self, name: str, chosen: Answer, agreed: Sequence[Answer], given: Sequence[Answer],
        silent: Sequence[str],
    ) -> Settled:  # fmt: skip
        rtol, atol = tolerance_of(self._drafts[name].blueprint, chosen.outputs)
        against = [answer.oracle for answer in given if answer not in agreed]
        words = " and ".join(answer.oracle for answer in agreed)
        if len(agreed) == 1:
            words += " alone"
        if len(given) > 2 and against:
            words += f", against {', '.join(against)}"
        oracle = "; ".join([words, *silent])
        return Settled(outputs=chosen.outputs, rtol=rtol, atol=atol, oracle=oracle)

    def _words(self, name: str, left: Answer, right: Answer) -> str:
        """Return how the right answer differs from the left one, empty where it does not."""
        case = self._case(name, left, "l")
        other = self._case(name, right, "r")
        done = Done(
            errand=Errand(
                name=name, model=other.model, folder=other.folder, inputs=(),
                outputs=tuple(record.name for record in other.outputs),
            ),
            run=_ran(other),
            folder=other.folder,
            providers=(CPU_PROVIDER,),
        )  # fmt: skip
        result = judge(case, done, CPU_PROVIDER)
        return "" if result.outcome is NodeOutcome.PASS else result.evidence[:_MAX_WORDS] or "?"

    def _case(self, name: str, answer: Answer, side: str) -> NodeCase:
        self._count += 1
        draft = self._drafts[name]
        rtol, atol = tolerance_of(draft.blueprint, answer.outputs)
        folder = self._folder / f"{self._count}{side}"
        return write_case(
            name, draft.model, {}, answer.outputs, folder, rtol=rtol, atol=atol, oracle=""
        )


def _ran(case: NodeCase) -> CaseRun:
    return CaseRun(case=case.id, status=RunStatus.OK, outputs=case.outputs)


def _pairs(answers: Sequence[Answer]) -> Iterable[tuple[Answer, Answer]]:
    for at, left in enumerate(answers):
        for right in answers[at + 1 :]:
            yield left, right
