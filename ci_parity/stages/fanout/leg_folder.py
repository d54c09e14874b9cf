"""A leg on disk: `leg.json`, a kept run for each trial, and results of single operators.

All of it is untrusted when read back.

The folder travels as an artifact. Reading refuses what is not exactly a leg's; whether it is the
leg that was planned, `arrivals` asks. Nothing here judges.
"""

import math
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.records.codec import from_bytes, to_json
from ci_parity.records.coverage_observation import CoverageObservation
from ci_parity.records.kept import KeptRun
from ci_parity.records.leg_report import LegReport
from ci_parity.stages.fanout.leg_coverage import FILE, read_coverage
from ci_parity.stages.kept_runs import read_run
from ci_parity.stages.report_folder import drop_reproductions

VERSION = 2
RECORD = "leg.json"
TRIALS = "trials"
MAIN_TRIAL = "trial"
_MAX_RECORD_BYTES = 64 << 20
_MAX_TRIALS = 200
_TRIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedLeg:
    """A leg as it was read: its report, and its kept runs by the name of the trial.

    `coverage` is what tests of single operators showed, None where the leg brings none.
    """

    folder: Path
    report: LegReport
    trials: Mapping[str, KeptRun]
    coverage: CoverageObservation | None = None


def clear(folder: Path) -> None:
    """Delete what an earlier leg left in a folder; a run that ends early then has left no leg."""
    for name in (RECORD, FILE):
        (folder / name).unlink(missing_ok=True)
    trials = folder / TRIALS
    if trials.is_symlink():
        trials.unlink()
    shutil.rmtree(trials, ignore_errors=True)
    drop_reproductions(folder)


def write_report(report: LegReport, folder: Path) -> None:
    """Write what a leg says of itself; numbers that JSON lacks are left out.

    Raises:
        EvidenceError: a text has no JSON form.
    """
    write_atomic(folder / RECORD, canonical_bytes(_finite(to_json(report))))


def read_leg(folder: Path) -> ArrivedLeg:
    """Read a leg and its kept runs, every file checked.

    Raises:
        EvidenceError: it is not whole, plain and as recorded.
    """
    record = folder / RECORD
    if folder.is_symlink() or record.is_symlink() or not record.is_file():
        raise EvidenceError(f"there is no {RECORD} of a leg", where=str(folder))
    if record.stat().st_size > _MAX_RECORD_BYTES:
        raise EvidenceError("the record of a leg is larger than 64 MiB", where=str(record))
    report = from_bytes(LegReport, record.read_bytes(), where=str(record))
    if report.version != VERSION:
        what = f"the record of a leg has version {report.version}, not {VERSION}"
        raise EvidenceError(what, where=str(record), remedy="run one version in all jobs")
    names = report.trials
    if len(names) > _MAX_TRIALS or len(set(names)) < len(names):
        raise EvidenceError("a trial is named twice, or there are too many", where=str(record))
    return ArrivedLeg(
        folder=folder, report=report, trials={name: _read_trial(folder, name) for name in names},
        coverage=read_coverage(folder, report.coverage) if report.coverage else None,
    )  # fmt: skip


def _read_trial(folder: Path, name: str) -> KeptRun:
    if not _TRIAL.fullmatch(name):
        raise EvidenceError(f"{name!r} is no trial's name", where=str(folder / RECORD))
    if (folder / TRIALS).is_symlink():
        raise EvidenceError("the folder of the trials is a link", where=str(folder))
    return read_run(folder / TRIALS / name)


def leg_folders(artifacts: Path) -> list[Path]:
    """Return the folders that may hold a leg: the one given, else those in it, by name."""
    if not artifacts.is_dir():
        return []
    if (artifacts / RECORD).is_file():
        return [artifacts]
    with os.scandir(artifacts) as entries:
        return sorted(Path(entry.path) for entry in entries)


def _finite(value: Json) -> Json:
    """Return a JSON value with null in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
