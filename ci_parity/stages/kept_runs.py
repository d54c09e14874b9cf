"""Kept observations on disk: one folder a run, whole or not at all, untrusted when read back.

Written beside its place and moved there in one step. Reading checks that every file is a plain one
inside the folder, of the recorded size and digest, and that no record leads anywhere else; a folder
that is not exactly what its `run.json` says is refused. Nothing here judges.
"""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_bytes, to_bytes
from ci_parity.records.kept import KeptFile, KeptRun
from ci_parity.records.noise import NoiseFloors, group_axis
from ci_parity.records.observation import CaseInputs, CaseRun
from ci_parity.records.values import ValueRecord, leaves

VERSION = 1
RECORD = "run.json"
_MAX_RECORD_BYTES = 64 << 20
_MAX_FILES = 200_000
_MAX_BYTES = 64 << 30
_REMEDY = "run `ci-parity check --keep-observations DIR` again; kept folders are not edited by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a cache folder keeps: runs of one deployment, runs in all, bytes of one and all."""

    runs_each: int = 4
    runs: int = 64
    run_bytes: int = 1 << 30
    all_bytes: int = 8 << 30


_BOUNDS = Bounds()
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SOURCES = ("fixtures", "given", "generated")
_UNFINISHED_S = 24 * 3600


# Writing.


def write_run(run: KeptRun, place: Path) -> None:
    """Keep a run in a folder of its own, in place of what was there.

    Args:
        run: its folders are where the files lie now; `files` are found here.
        place: the folder to make; one that holds a kept run is replaced, no other is.

    Raises:
        EvidenceError: the place holds something else, or a value has no JSON form.
        OSError: the folder cannot be written.
    """
    if place.exists() and not (place / RECORD).is_file() and any(place.iterdir()):
        raise EvidenceError(
            "the folder for observations is not empty, and holds no kept run",
            where=str(place),
            remedy="name a new or an empty folder",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        _fill(run, scratch)
        scratch.chmod(0o755)
        _move(scratch, place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(run: KeptRun, scratch: Path) -> None:
    names: dict[str, str] = {}
    wanted: dict[str, dict[Path, None]] = {}
    for folder, files in _referred(run):
        name = names.setdefault(folder, f"values{len(names)}")
        paths = (Path(folder) / file for file in files if is_plain(file))
        wanted.setdefault(name, {}).update(dict.fromkeys(paths))
    kept = []
    for name, found in wanted.items():
        (scratch / name).mkdir()
        kept += [_copied(path, scratch, name) for path in found]
    moved = _moved(run, names)
    record = replace(moved, files=tuple(file for file in kept if file is not None))
    (scratch / RECORD).write_bytes(to_bytes(record))


def _moved(run: KeptRun, names: Mapping[str, str]) -> KeptRun:
    """Return a run with every folder under another name."""
    return replace(
        run,
        inputs=replace(run.inputs, folder=names[run.inputs.folder]),
        observations=tuple(replace(side, folder=names[side.folder]) for side in run.observations),
        floors=tuple(
            replace(one, floors=replace(one.floors, folder=names[one.floors.folder]))
            for one in run.floors
        ),
    )


def _copied(source: Path, scratch: Path, name: str) -> KeptFile | None:
    """Link or copy a regular file; what a worker left that is none is not kept."""
    if not _is_regular(source):
        return None
    target = scratch / name / source.name
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target)
    size_bytes = target.stat().st_size
    return KeptFile(path=f"{name}/{source.name}", size_bytes=size_bytes, sha256=sha256_file(target))


def _move(scratch: Path, place: Path) -> None:
    if place.exists():
        old = scratch.with_name(f"{scratch.name}.old")
        place.rename(old)
        scratch.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    else:
        scratch.rename(place)


# Reading.


def read_run(place: Path) -> KeptRun:
    """Read a kept run; its folders are absolute, and every file was checked.

    Raises:
        EvidenceError: there is none, or it is not whole, plain and as recorded.
    """
    record = place / RECORD
    if place.is_symlink() or not _is_regular(record):
        raise _refused("there are no kept observations", record)
    if record.stat().st_size > _MAX_RECORD_BYTES:
        raise _refused("the record of a run is larger than 64 MiB", record)
    run = from_bytes(KeptRun, record.read_bytes(), where=str(record))
    if run.version != VERSION:
        raise _refused(f"kept observations of version {run.version}, not {VERSION}", record)
    _check_words(run, record)
    _check_numbers(run, record)
    _check_floors(run, record)
    _check_files(run, place)
    _check_records(run, place)
    folder = place.resolve()
    return _moved(run, {name: str(folder / name) for name, _ in _referred(run)})


def _check_words(run: KeptRun, record: Path) -> None:
    """Refuse what a report could not carry."""
    if not _DIGEST.fullmatch(run.bundle) or not _DIGEST.fullmatch(run.key):
        raise _refused("a digest of the run is none", record)
    if run.inputs.source not in _SOURCES:
        raise _refused(f"inputs of a kind there is not: {run.inputs.source!r}", record)


def _check_numbers(run: KeptRun, record: Path) -> None:
    """Refuse a pair that names an observation there is not."""
    numbers: list[int | None] = []
    for pair in run.pairs:
        systems = (pair.candidate, pair.baseline, pair.made_from, pair.reference)
        numbers += [system.observation for system in systems if system is not None]
        numbers += [pair.references, pair.derived, pair.threads.observation]
    count = len(run.observations)
    if any(number is not None and not 0 <= number < count for number in numbers):
        raise _refused("a pair names an observation that was not kept", record)


def _check_files(run: KeptRun, place: Path) -> None:
    """Check that every folder is a plain one, and every file listed once and what it was.

    A folder without files may be missing: artifact stores drop empty ones.
    """
    folders = {name for name, _ in _referred(run)}
    for name in folders:
        folder = place / name
        if not is_plain(name) or folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise _refused(f"{name!r} is no folder of these observations", place)
    if len(run.files) > _MAX_FILES or sum(f.size_bytes for f in run.files) > _MAX_BYTES:
        raise _refused("more files, or more bytes, than observations can have", place)
    if len({file.path for file in run.files}) < len(run.files):
        raise _refused("a file is listed twice", place)
    for file in run.files:
        parent, _, name = file.path.partition("/")
        if parent not in folders or not is_plain(name):
            raise _refused(f"{file.path!r} is no file of these observations", place)
        _check_file(place / parent / name, file)


def _check_records(run: KeptRun, place: Path) -> None:
    """Check what records name: all of inputs and noise floors, of observations what is there.

    An observation may name what a worker never wrote; whoever reads that value refuses it.
    """
    listed = {file.path for file in run.files}
    observed = {side.folder for side in run.observations}
    for folder, files in _referred(run):
        for name in files:
            path = f"{folder}/{name}"
            absent = folder in observed and not (is_plain(name) and os.path.lexists(place / path))
            if path not in listed and not absent:
                raise _refused(f"{path!r} is recorded and not listed", place)


def _check_floors(run: KeptRun, record: Path) -> None:
    """Refuse floors whose groups are not those of their shape."""
    for output in (o for one in run.floors for case in one.floors.cases for o in case.outputs):
        axis = group_axis(output.shape)
        groups = 1 if axis is None else output.shape[axis]
        if output.axis != axis or len(output.peaks) != groups:
            raise _refused(f"the noise floor of {output.output!r} has other groups", record)


def _check_file(path: Path, file: KeptFile) -> None:
    if not _is_regular(path):
        raise _refused("a kept file is missing, or no plain file", path)
    if path.stat().st_size != file.size_bytes or sha256_file(path) != file.sha256:
        raise _refused("a kept file is not what was recorded", path)


def _refused(what: str, where: Path) -> EvidenceError:
    return EvidenceError(what, where=str(where), remedy=_REMEDY)


# Both.


def content_digest(case: CaseInputs, folder: Path) -> str:
    """Return the SHA-256 of what a case is fed: names, types, shapes and bytes.

    Raises:
        EvidenceError: a file is missing.
    """
    described = [to_bytes(_described(record)) for record in case.inputs]
    try:
        digests = [sha256_file(folder / file) for file in _files(case.inputs)]
    except OSError as error:
        raise EvidenceError(f"an input cannot be read: {error}", where=case.case) from error
    return sha256_bytes(b"\n".join([*described, *(digest.encode() for digest in digests)]))


def files_of(cases: Iterable[CaseInputs]) -> Iterator[str]:
    """Yield the names of the files that inputs lie in; a name may come twice."""
    for case in cases:
        yield from _files(case.inputs)


def _referred(run: KeptRun) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield every folder of a run with the names that its records give there."""
    yield run.inputs.folder, files_of(run.inputs.cases)
    for side in run.observations:
        yield side.folder, _run_files(side.cases)
    for one in run.floors:
        yield one.floors.folder, _floor_files(one.floors)


def _described(record: ValueRecord) -> ValueRecord:
    """Return a record without the names of its files."""
    return replace(record, file="", items=tuple(map(_described, record.items)))


def _run_files(cases: Iterable[CaseRun]) -> Iterator[str]:
    for case in cases:
        for outputs in (case.outputs, *case.repeats):
            yield from _files(outputs)


def _floor_files(floors: NoiseFloors) -> Iterator[str]:
    return (output.file for case in floors.cases for output in case.outputs)


def _files(records: Sequence[ValueRecord]) -> Iterator[str]:
    return (record.file for record in leaves(records) if record.file)


def is_plain(name: str) -> bool:
    """Whether a name is that of something in its folder, and not hidden."""
    return bool(name) and name == Path(name).name and not name.startswith(".") and "\0" not in name


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


# The cache.


def cached(cache: Path, key: str, root: Path, deployment: str) -> Path:
    """Return where a run with this key is kept for a deployment in a folder of this machine."""
    owner = sha256_bytes(f"{root.resolve()}\0{deployment}".encode(errors="backslashreplace"))
    return cache / "observations" / owner[:32] / key[:32]


def size_of(run: KeptRun) -> int:
    """Return how many bytes of values a run has where its files lie now."""
    paths = {
        Path(place) / name for place, names in _referred(run) for name in names if is_plain(name)
    }
    return sum(path.stat().st_size for path in paths if _is_regular(path))


def keep_in_cache(run: KeptRun, place: Path, bounds: Bounds = _BOUNDS) -> bool:
    """Keep a run in the cache, and drop the oldest ones; return whether it was kept.

    Raises:
        EvidenceError: a value has no JSON form.
        OSError: the cache cannot be written.
    """
    if size_of(run) > bounds.run_bytes:
        return False
    write_run(run, place)
    _prune(place, bounds)
    return True


def _prune(newest: Path, bounds: Bounds) -> None:
    """Remove the oldest runs beyond the bounds, and what was left unfinished; the newest stays."""
    everything = newest.parent.parent
    ages = {path.parent: path.stat().st_mtime for path in everything.glob(f"*/*/{RECORD}")}
    for path in everything.glob("*/.*"):
        if ages[newest] - path.stat().st_mtime > _UNFINISHED_S:
            shutil.rmtree(path, ignore_errors=True)
            ages.pop(path, None)
    total, seen, each = 0, 0, dict.fromkeys((path.parent for path in ages), 0)
    for path in sorted(ages, key=lambda path: (path != newest, -ages[path])):
        size = sum(file.stat().st_size for file in path.rglob("*") if _is_regular(file))
        seen, total = seen + 1, total + size
        each[path.parent] += 1
        beyond = each[path.parent] > bounds.runs_each or seen > bounds.runs
        if path != newest and (beyond or total > bounds.all_bytes):
            total, seen = total - size, seen - 1
            shutil.rmtree(path, ignore_errors=True)
