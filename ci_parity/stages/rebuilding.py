"""Step 1d: the inputs of each case made anew from what the application got, before any model runs.

The declared pipeline turns a case's raw files into tensors, and these are held against the stored
ones. Where they differ, the model has been fed another representation than the application makes:
that is a fault before the model, and is told apart from one in it. A case whose pipeline cannot run
here, or whose raw file cannot be decoded, is `inconclusive`. Without raw files there is nothing to
do, and no library is loaded.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.config.model import Deployment
from ci_parity.fixtures.manifest import EVERY_INPUT
from ci_parity.fixtures.store import Case, read_inputs
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.plan import WHOLE, Part
from ci_parity.records.preprocess import Diagnosis, InputMatch, Match, StepSummary
from ci_parity.records.values import Values
from ci_parity.stages.declared_pipeline import DeclaredProcess
from ci_parity.stages.entry_pipeline import EntryProcess, running
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.judge import Checked
from ci_parity.stages.preprocessing import pipeline_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ci_parity.preprocess.model import EntryPipeline, Pipeline

REBUILT = "preprocess.rebuilt"
BOUNDARY = "preprocessing"
BEFORE = "before any model ran: "
_SEARCH_S = 60.0
_MOST_FILES = 5
_HELD = {Match.EQUAL, Match.WITHIN}
_WRONG = (
    "correct the pipeline, or store the case again with 'ci-parity fixtures add'; no model was "
    "looked at for this"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltRow:
    """One raw file of a case, the input that it gives or `*`, and how that compares."""

    input: str
    file: Path
    diagnosis: Diagnosis


class Rebuilder:
    """A deployment's pipeline at work. A context manager: leaving it ends the pipeline's process.

    Args:
        pipeline: what to apply.
        root: the deployment's folder.
        scratch: a folder for the process.
        timeout_s: how long one raw file may take.
    """

    def __init__(self, pipeline: "Pipeline", root: Path, scratch: Path, timeout_s: float) -> None:
        self._pipeline, self._root, self._scratch = pipeline, root, scratch
        self._timeout_s = timeout_s
        self._entry: EntryProcess | None = None
        self._stack = ExitStack()
        self._declared = self._stack.enter_context(
            DeclaredProcess(pipeline, scratch / "declared", timeout_s)
        )
        self._left_s = _SEARCH_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tensors(self, file: Path, case: Case) -> "Mapping[str, npt.NDArray[np.generic]]":
        """Return what the pipeline makes of a raw file.

        Raises:
            CiParityError: it cannot, or the file is not one that it takes.
        """
        from ci_parity.preprocess.model import EntryPipeline
        from ci_parity.preprocess.places import read_raw

        if isinstance(self._pipeline.kind, EntryPipeline):
            raw = read_raw(file, root=case.folder)
            return self._process(self._pipeline.kind).apply(raw, case.name)
        return self._declared.tensors(file, case.folder, case.name)

    def held(self, file: Path, case: Case, stored: Values) -> Diagnosis:
        """Hold what the pipeline makes of a raw file against stored tensors.

        Raises:
            CiParityError: the pipeline cannot run, or the file is not one that it takes.
        """
        from ci_parity.preprocess.model import EntryPipeline

        arrays = _arrays(stored, case)
        if isinstance(self._pipeline.kind, EntryPipeline):
            from ci_parity.preprocess.diagnose import diagnose_rebuilt

            return diagnose_rebuilt(self.tensors(file, case), arrays)
        start = time.monotonic()
        seconds = max(1.0, self._left_s)
        found = self._declared.diagnosed(file, case.folder, case.name, arrays, seconds)
        # One search is as long as a run of many cases has patience for.
        self._left_s -= time.monotonic() - start
        return found

    def steps(self, file: Path, case: Case) -> tuple[StepSummary, ...]:
        """Return what each step makes of a raw file; an entry point says nothing of its own.

        Raises:
            CiParityError: the pipeline cannot run, or the file is not one that it takes.
        """
        from ci_parity.preprocess.model import EntryPipeline

        kind = self._pipeline.kind
        if isinstance(kind, EntryPipeline):
            words = f"{kind.function} of {kind.script}, in a process of its own"
            return (StepSummary(name="entry", words=words, preview="", tensor=None),)
        return self._declared.steps(file, case.folder, case.name)

    def _process(self, kind: "EntryPipeline") -> EntryProcess:
        if self._entry is None:
            started = running(self._pipeline, kind, self._root, self._scratch, self._timeout_s)
            self._entry = self._stack.enter_context(started)
        return self._entry


def judge_rebuilt(
    deployment: Deployment, cases: OpenSet, work: Path, progress: Progress, part: Part = WHOLE
) -> Checked:
    """Rebuild the inputs of every case that has raw files, and judge them; nothing without any.

    Args:
        deployment: names the pipeline.
        cases: the fixture set.
        work: scratch space.
        progress: where the work is announced.
        part: which of the cases are looked at.
    """
    wanted = [case for case in part.of_items(cases.fixtures.cases) if case.raw]
    if not wanted:
        return Checked()
    try:
        pipeline = pipeline_of(deployment.preprocess, deployment.root)
    except CiParityError as error:
        return Checked(findings=tuple(_open(case, error.what, error.remedy) for case in wanted))
    if pipeline is None:
        said = "the case has raw inputs, and the config names no pipeline that makes inputs of them"
        remedy = "name it: preprocess: preprocess.yml"
        return Checked(findings=tuple(_open(case, said, remedy) for case in wanted))
    findings: list[Finding] = []
    timeout_s = deployment.policy.timeout_s
    with (
        Rebuilder(pipeline, deployment.root, work, timeout_s) as rebuilder,
        progress.step("inputs rebuilt from raw files", len(wanted)) as step,
    ):
        for case in wanted:
            findings.extend(_judged(rebuilder, case, cases))
            step.advance(case.name)
    return Checked(findings=tuple(findings))


def rebuilt_row(
    rebuilder: Rebuilder, case: Case, stored: Values, name: str, row: int
) -> RebuiltRow:  # fmt: skip
    """Return how one raw file of a case compares with what is stored.

    Args:
        rebuilder: the pipeline at work.
        case: whose raw file it is.
        stored: the inputs that are stored for it.
        name: the input that the file gives, or `*`.
        row: which of that input's files.

    Raises:
        CiParityError: the pipeline cannot run, or the file is not one that it takes.
        StoredOtherwiseError: the stored inputs are not such that a raw file could give them.
    """
    files = case.raw[name]
    own = _own_part(stored, name)
    part = own if len(files) == 1 else _row(own, row, len(files))
    return RebuiltRow(input=name, file=files[row], diagnosis=rebuilder.held(files[row], case, part))


class StoredOtherwiseError(Exception):
    """Stored inputs that no raw file as it is listed could give: a finding, no failure of ours."""


def _judged(rebuilder: Rebuilder, case: Case, cases: OpenSet) -> Iterator[Finding]:
    """Yield a finding for each way in which raw files give other tensors, else that all hold."""
    rows: list[RebuiltRow] = []
    try:
        stored = read_inputs(case, cases.signature)
        for name, files in case.raw.items():
            rows += [
                rebuilt_row(rebuilder, case, stored, name, number) for number in range(len(files))
            ]
    except StoredOtherwiseError as error:
        yield _finding(case, Outcome.FAIL, str(error), "correct 'raw' in fixtures.yml")
    except CiParityError as error:
        said = f"the inputs could not be rebuilt here: {error.what}"
        yield _open(case, f"{said} ({error.where})" if error.where else said, error.remedy)
    else:
        if all(row.diagnosis.match in _HELD for row in rows):
            worst = max(rows, key=lambda row: (row.diagnosis.match is Match.WITHIN, _apart(row)))
            yield _finding(
                case, Outcome.PASS, worst.diagnosis.words, "", match=_worst(worst.diagnosis)
            )
    yield from _wrong(case, [row for row in rows if row.diagnosis.match not in _HELD])


def _wrong(case: Case, rows: Sequence[RebuiltRow]) -> Iterator[Finding]:
    """Yield a finding for each explanation, with the rows that it explains."""
    grouped: dict[tuple[str, str], list[RebuiltRow]] = {}
    for row in rows:
        causes = " or ".join(cause.key for cause in row.diagnosis.causes)
        grouped.setdefault((row.input, causes), []).append(row)
    total = sum(map(len, case.raw.values()))
    for (name, _), alike in grouped.items():
        worst = max(alike, key=_apart)
        said = f"{BEFORE}{worst.diagnosis.words}"
        if total > 1:
            files = ", ".join(row.file.name for row in alike[:_MOST_FILES])
            more = len(alike) - _MOST_FILES
            rest = f" and {more} more" if more > 0 else ""
            said += f"; in {len(alike)} of {total} raw files: {files}{rest}"
        yield _finding(
            case, Outcome.FAIL, said, _WRONG, match=_worst(worst.diagnosis), name=name
        )  # fmt: skip


def _finding(
    case: Case, outcome: Outcome, evidence: str, remedy: str, *, match: InputMatch | None = None,
    name: str = EVERY_INPUT,
) -> Finding:  # fmt: skip
    measured = match.max_abs if match is not None else None
    return Finding(
        id=REBUILT, outcome=outcome, evidence=evidence, remedy=remedy, measured=measured,
        limit=match.limit if match is not None else None, required=measured,
        subject=Subject(
            boundary=BOUNDARY, case=case.name, output="" if name == EVERY_INPUT else name
        ),
    )  # fmt: skip


def _open(case: Case, said: str, remedy: str) -> Finding:
    return _finding(case, Outcome.INCONCLUSIVE, said, remedy)


def _worst(diagnosis: Diagnosis) -> InputMatch | None:
    """Return the input that is furthest from what is stored."""
    order = (Match.EQUAL, Match.WITHIN, Match.DIFFERENT, Match.EXTRA, Match.MISSING)
    return max(
        diagnosis.inputs, key=lambda m: (order.index(m.match), m.max_abs or 0.0), default=None
    )


def _apart(row: RebuiltRow) -> float:
    worst = _worst(row.diagnosis)
    return (worst.max_abs or 0.0) if worst is not None else 0.0


def _own_part(stored: Values, name: str) -> Values:
    if name == EVERY_INPUT:
        return stored
    if name not in stored:
        raise StoredOtherwiseError(f"the raw file is for input {name!r}, which is not stored")
    return {name: stored[name]}


def _row(stored: Values, row: int, rows: int) -> Values:
    """Return one row of each tensor of a batch that has as many rows as raw files."""
    import numpy as np

    part = {}
    for name, value in stored.items():
        if not isinstance(value, np.ndarray) or value.ndim == 0 or value.shape[0] != rows:
            raise StoredOtherwiseError(
                f"there are {rows} raw files, and input {name!r} is no batch of {rows} rows"
            )
        part[name] = value[row : row + 1]
    return part


def _arrays(stored: Values, case: Case) -> "dict[str, npt.NDArray[np.generic]]":
    import numpy as np

    found = {name: value for name, value in stored.items() if isinstance(value, np.ndarray)}
    if len(found) < len(stored):
        raise EvidenceError(
            "an input is stored that is no tensor, and a pipeline makes tensors",
            where=str(case.folder),
            remedy="name the inputs that raw files give: raw: {INPUT: FILE}",
        )
    return found
