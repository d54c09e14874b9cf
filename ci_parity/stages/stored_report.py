"""The whole verdict in the report folder, for `ci-parity publish`; reading it trusts nothing.

The record is deleted before a run and written last, so a run that ended early, or never began, has
left none: then there is no verdict, which is inconclusive.
"""

import stat
from pathlib import Path

from ci_parity import __version__
from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Environment, Verdict
from ci_parity.report.stored import MAX_BYTES, restore, store

RECORD = "verdict.record.json"
_REPORT = "verdict.json"
# The report of a verdict whose record holds a part of it may be larger than the record.
_MAX_REPORT_BYTES = 1024 * 1024 * 1024
_REMEDY = "run `ci-parity check --report-dir DIR` in the same job, and publish from DIR"


def drop_record(folder: Path) -> None:
    """Delete the record of an earlier run, whose verdict is not that of the run that begins."""
    (folder / RECORD).unlink(missing_ok=True)


def write_record(verdict: Verdict, report: bytes, folder: Path) -> None:
    """Write the record beside `report`, the bytes of verdict.json."""
    write_atomic(folder / RECORD, store(verdict, report))


def read_record(folder: Path) -> Verdict:
    """Return the verdict whose record is in a report folder.

    Raises:
        EvidenceError: there is none, or it cannot be trusted.
    """
    record = _read(folder / RECORD, MAX_BYTES)
    return restore(record, _read(folder / _REPORT, _MAX_REPORT_BYTES), where=str(folder / RECORD))


def no_verdict(error: CiParityError) -> Verdict:
    """Return the verdict of a run that reached none, or cannot be read: inconclusive, and why."""
    where = f" ({error.where})" if error.where else ""
    finding = Finding(
        id="report.unreadable", outcome=Outcome.INCONCLUSIVE, subject=Subject(),
        evidence=f"there is no verdict: {error.what}{where}",
        remedy=error.remedy or _REMEDY,
    )  # fmt: skip
    return Verdict(
        command="publish", deployment="", outcome=Outcome.INCONCLUSIVE, ran=True,
        summary="there is no verdict", rows=(), findings=(finding,), outputs=(),
        latency=(), changes=None, environment=Environment(host="", systems=()), inputs_source="",
        inputs_count=0, bundle_digest="", reproduce=(), tool_version=__version__,
        note="there is no verdict",
    )  # fmt: skip


def _read(path: Path, most: int) -> bytes:
    """Return a plain file that is not larger than allowed; a link may lead anywhere."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise EvidenceError("no plain file", where=str(path), remedy=_REMEDY)
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise EvidenceError(said, where=str(path), remedy=_REMEDY) from error
    if len(data) > most:
        raise EvidenceError(f"larger than {most >> 20} MiB", where=str(path), remedy=_REMEDY)
    return data
