"""Step 3b: judges of the repository, asked of every case at every boundary.

A judge gets the paths of plain NumPy files, written here into a scratch folder a case at a time. It
adds findings and rows; what the tensors say stands, whatever a judge says.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.config.model import Policy
from ci_parity.records.arrays import flatten
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import CaseRun, InputSet, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ValueRecord, element_type, read_value
from ci_parity.records.verdict import Row
from ci_parity.run.custom_judge import JudgeProcess, Opinion
from ci_parity.stages.boundaries import in_order
from ci_parity.stages.judge import Checked
from ci_parity.stages.suite import PairRun

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_REMEDY = "run the judge on this case alone; its words are the evidence"


def run_judges(
    runs: Sequence[PairRun], inputs: InputSet, policy: Policy, folder: Path, progress: Progress
) -> Checked:
    """Ask every judge of the policy about every case that both sides ran.

    Args:
        runs: what was run.
        inputs: the inputs of the cases.
        policy: names the judges.
        folder: scratch space; each judge's working folder lies in it.
        progress: where the work is announced.

    Raises:
        InfrastructureError: the interpreter cannot be started.
    """
    boundaries = in_order(runs)
    rows: list[Row] = []
    findings: list[Finding] = []
    for name, decision in policy.decisions.items():
        if decision.judge is None:
            continue
        place = folder / f"judge{len(rows)}"
        place.mkdir(parents=True)
        total = sum(len(boundary.expected) for boundary in boundaries)
        with (
            JudgeProcess(decision.judge, place) as judge,
            progress.step(f"judge {name}", total) as step,
        ):
            for boundary in boundaries:
                subject = Subject(
                    target=boundary.target, variant=boundary.variant, boundary=boundary.label,
                    output=name,
                )  # fmt: skip
                sides = (boundary.baseline, boundary.candidate)
                judged: list[Finding] = []
                for case in boundary.expected:
                    judged.extend(_case(judge, replace(subject, case=case), *sides, inputs, place))
                    step.advance()
                findings.extend(judged)
                rows.append(_row(subject, judged, len(boundary.expected)))
    return Checked(rows=tuple(rows), findings=tuple(findings))


def _row(subject: Subject, judged: Sequence[Finding], expected: int) -> Row:
    settled = [f for f in judged if f.outcome is not Outcome.INCONCLUSIVE]
    return Row(
        target=subject.target, variant=subject.variant,
        boundary=f"{subject.boundary}, judge {subject.output}",
        outcome=Outcome.worst([finding.outcome for finding in judged]), cases=len(settled),
        cases_expected=expected,
    )  # fmt: skip


def _case(
    judge: JudgeProcess, subject: Subject, baseline: Observation, candidate: Observation,
    inputs: InputSet, folder: Path,
) -> Iterator[Finding]:  # fmt: skip
    """Yield the worst of what is said of the runs of a case; nothing where a side has none."""
    left, right = (_run(side, subject.case) for side in (baseline, candidate))
    if left is None or right is None:
        return
    fed = [case.inputs for case in inputs.cases if case.case == subject.case]
    opinions = []
    for outputs in (right.outputs, *right.repeats):
        here = folder / "case"
        try:
            here.mkdir()
            request = {
                "case": subject.case, "target": subject.target, "variant": subject.variant,
                "boundary": subject.boundary,
                "inputs": _write(fed[0] if fed else (), Path(inputs.folder), here, "input"),
                "baseline": _write(left.outputs, Path(baseline.folder), here, "baseline"),
                "candidate": _write(outputs, Path(candidate.folder), here, "candidate"),
            }  # fmt: skip
            opinions.append(judge.ask(request))
        except EvidenceError as error:
            said = f"no judgement: {error.what} ({error.where})"
            opinions.append(Opinion(outcome=Outcome.INCONCLUSIVE, evidence=said))
        finally:
            shutil.rmtree(here, ignore_errors=True)
    worst = Outcome.worst([opinion.outcome for opinion in opinions])
    yield _finding(subject, next(o for o in opinions if o.outcome is worst))


def _run(side: Observation, case: str) -> CaseRun | None:
    if side.load is not RunStatus.OK:
        return None
    ran = (run for run in side.cases if run.case == case and run.status is RunStatus.OK)
    return next(ran, None)


def _finding(subject: Subject, opinion: Opinion) -> Finding:
    return Finding(
        id="decision.custom",
        outcome=opinion.outcome,
        subject=subject,
        evidence=opinion.evidence or "the judge gave no evidence",
        measured=opinion.measured,
        limit=opinion.limit,
        required=opinion.measured,
        remedy="" if opinion.outcome is Outcome.PASS else _REMEDY,
    )


def _write(
    records: Sequence[ValueRecord], source: Path, folder: Path, stem: str
) -> Mapping[str, str]:
    """Write values as files any NumPy reads, and return their paths by name.

    Raises:
        EvidenceError: a recorded file is not what its record says.
    """
    paths: dict[str, str] = {}
    for record in records:
        for name, array in flatten(record.name, read_value(record, source)).items():
            paths[name] = str(_write_array(array, folder / f"{stem}{len(paths)}").resolve())
    return paths


def _write_array(array: "npt.NDArray[np.generic]", path: Path) -> Path:
    """Write an array as .npy, strings as a JSON list; types that NumPy lacks are widened.

    Floats narrower than 32 bits that NumPy lacks become float32, integers narrower than a byte
    become int8 or uint8: each holds every value of the narrower type.
    """
    import numpy as np

    dtype = element_type(array)
    if dtype == "string":
        path = path.with_suffix(".json")
        path.write_text(json.dumps(array.reshape(-1).tolist()), encoding="utf-8")
        return path
    path = path.with_suffix(".npy")
    if array.dtype.kind == "V":
        wide = "uint8" if dtype.startswith("uint") else "int8" if "int" in dtype else "float32"
        array = array.astype(wide)
    np.save(path, array, allow_pickle=False)
    return path
