"""Step 3b: which boundaries need noise floors: those whose sides brought different bytes.

Measuring noise costs more than running the suite. Where every output of a boundary is equal bit by
bit no tolerance is asked, and nothing is measured.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.observation import CaseRun, Observation, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.execute import Job
from ci_parity.stages.boundaries import Boundary

_BLOCK = 1 << 20
_EQUAL = NoiseFloors(folder="", precision=Precision.FLOAT32, seeds=0, exact=True)


class Floors(Protocol):
    """Knows the noise floors of boundaries: measured now, or kept from an earlier run."""

    def floors(self, baseline: Job | None, candidate: Job) -> NoiseFloors:
        """Return the floors of a boundary, at the coarser precision of its two sides."""


def floors_of(boundary: Boundary, known: Floors) -> NoiseFloors | None:
    """Return the floors of a boundary; None where no case ran on both sides."""
    pairs = list(_both(boundary.baseline, boundary.candidate))
    if not pairs:
        return None
    folders = (Path(boundary.baseline.folder), Path(boundary.candidate.folder))
    if all(_equal(left, right, folders) for left, right in pairs):
        return _EQUAL
    return known.floors(boundary.baseline_job, boundary.candidate_job)


def _both(baseline: Observation, candidate: Observation) -> Iterator[tuple[CaseRun, CaseRun]]:
    """Yield the two runs of each case that both sides have."""
    left = {run.case: run for run in baseline.cases if run.status is RunStatus.OK}
    for run in candidate.cases:
        if run.status is RunStatus.OK and run.case in left:
            yield left[run.case], run


def _equal(baseline: CaseRun, candidate: CaseRun, folders: tuple[Path, Path]) -> bool:
    """Whether a case brought the same bytes on both sides, in every run of it."""
    if candidate.repeats or baseline.repeats:
        return False
    left, right = list(_flat(baseline.outputs)), list(_flat(candidate.outputs))
    if [_form(record) for record in left] != [_form(record) for record in right]:
        return False
    files = [(a.file, b.file) for a, b in zip(left, right, strict=True) if a.file]
    try:
        return all(_same_bytes(folders[0] / a, folders[1] / b) for a, b in files)
    except OSError:
        return False


def _flat(records: tuple[ValueRecord, ...]) -> Iterator[ValueRecord]:
    for record in records:
        yield record
        yield from _flat(record.items)


def _form(record: ValueRecord) -> tuple[str, str, str, tuple[int, ...], bool, int]:
    """Return what describes a value besides its bytes."""
    file = bool(record.file)
    return record.name, record.kind, record.dtype, record.shape, file, len(record.items)


def _same_bytes(left: Path, right: Path) -> bool:
    if left.stat().st_size != right.stat().st_size:
        return False
    with left.open("rb") as a, right.open("rb") as b:
        while block := a.read(_BLOCK):
            if block != b.read(_BLOCK):
                return False
    return True
