"""What tests of single operators showed on a leg, on disk; untrusted when read back.

One file beside the leg's report, which has its digest. Of the tests only what is said of them
travels, not their files. Whether it is of the models and targets that are here, `arrived_coverage`
asks. Nothing here judges.
"""

from dataclasses import replace
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.coverage import NodeCase
from ci_parity.records.coverage_observation import CoverageObservation

FILE = "coverage.json"
_MAX_BYTES = 64 << 20


def write_coverage(observed: CoverageObservation, folder: Path) -> str:
    """Write what was observed into a leg's folder; return its digest.

    Raises:
        EvidenceError: a text has no JSON form, or it is too large to be read again.
    """
    data = to_bytes(
        replace(
            observed,
            models=tuple(
                replace(model, cases=tuple(map(_without_files, model.cases)))
                for model in observed.models
            ),
        )
    )
    if len(data) > _MAX_BYTES:
        raise EvidenceError(
            "the results of tests of single operators are larger than 64 MiB", where=FILE,
            remedy="deploy fewer variants on this target",
        )  # fmt: skip
    write_atomic(folder / FILE, data)
    return sha256_bytes(data)


def read_coverage(folder: Path, sha256: str) -> CoverageObservation:
    """Read what a leg observed, if its bytes are of the digest that its report names.

    Raises:
        EvidenceError: it is missing, altered, too large or malformed.
    """
    path = folder / FILE
    if path.is_symlink() or not path.is_file():
        raise EvidenceError(
            f"there is no {FILE} beside the report that names it", where=str(folder)
        )
    if path.stat().st_size > _MAX_BYTES:
        raise EvidenceError("the results are larger than 64 MiB", where=str(path))
    data = path.read_bytes()
    if sha256_bytes(data) != sha256:
        raise EvidenceError("the results are not those that the leg wrote", where=str(path))
    return from_bytes(CoverageObservation, data, where=str(path))


def _without_files(case: NodeCase) -> NodeCase:
    return replace(case, folder=Path(), model=Path(), inputs=(), outputs=())
