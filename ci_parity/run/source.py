"""The near end of the source system: its interpreter, its process, what it answered and opened.

Between the stored inputs and new references. The user's code runs in a process of its own, with the
environment of a worker, under time limits; what it answers is checked like anything untrusted: file
names, sizes, shapes. Whether the answers may become references is decided later; nothing is stored.
"""

import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError, InfrastructureError
from ci_parity.base.process import worker_environment
from ci_parity.config.systems import Source
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import CaseInputs, RunStatus
from ci_parity.records.values import Value, ValueRecord, leaves, numpy_dtype, read_value
from ci_parity.run import requirement_environments
from ci_parity.run.protocol import WorkerError, WorkerProcess

SOURCE_WORKER = Path(__file__).with_name("source_worker.py")
PROTOCOL = 1
ONNX_RUNTIMES = ("onnxruntime", "openvino", "tract", "onnx.reference")
"""Modules that compute an ONNX model."""

MAX_CASE_BYTES = 2**31
"""How much one case's outputs may hold: what a protobuf can, which stores them."""

_MAX_VALUES = 100_000
_MAX_RANK = 64
# The packages, and the module, behind what people call a framework. One that is not listed is taken
# for the name of its package.
_FRAMEWORKS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "pytorch": (("torch",), "torch"),
    "torch": (("torch",), "torch"),
    "scikit-learn": (("scikit-learn",), "sklearn"),
    "sklearn": (("scikit-learn",), "sklearn"),
    "tensorflow": (
        ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel", "tf-nightly"),
        "tensorflow",
    ),
    "keras": (("keras",), "keras"),
    "jax": (("jax",), "jax"),
    "numpy": (("numpy",), "numpy"),
    "paddle": (("paddlepaddle", "paddlepaddle-gpu"), "paddle"),
    "xgboost": (("xgboost",), "xgboost"),
    "lightgbm": (("lightgbm",), "lightgbm"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """What was measured in the source's environment; no `version`, no such package there.

    `module` is what the framework's import is called, where that is known.
    """

    python: str
    package: str
    version: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run of the source touched, from its start on.

    `opened` are paths of files that Python opened to read and that are watched, or as large as a
    watched one; `touched` are watched files that were opened in any way, which is known where
    `watching` says so. `modules` are those of `ONNX_RUNTIMES`, and of the framework, that are
    loaded.
    """

    opened: tuple[Path, ...]
    touched: tuple[Path, ...]
    watching: bool
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun:
    """One case as the source answered it: records of files, names empty where it gave none."""

    outputs: tuple[ValueRecord, ...]
    seen: Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceJob:
    """How to run a source: `watched` are files whose opening matters."""

    source: Source
    root: Path
    argv: tuple[str, ...]
    watched: tuple[Path, ...]
    timeout_s: float

    @property
    def where(self) -> str:
        """The entry as the config names it."""
        return f"{self.source.entry.relative_to(self.root).as_posix()}:{self.source.function}"


def prepare(source: Source, *, root: Path, cache: Path) -> tuple[str, ...]:
    """Provide the source's environment and return the arguments that start its worker.

    Raises:
        ConfigError: there is no such script or interpreter, or the requirements do not pin.
        EvidenceError: the requirements cannot be read.
        InfrastructureError: the environment cannot be built.
    """
    if not source.entry.is_file():
        raise ConfigError(
            "there is no such script",
            where=str(source.entry),
            remedy="correct source.entry, SCRIPT.py:FUNCTION",
        )
    if source.requires is not None:
        found = requirement_environments.provide(source.requires, root=root, cache=cache)
        python = found.python
    elif source.python:
        python = _interpreter(source.python, root)
    else:
        python = Path(sys.executable)
    # -I: neither PYTHON* variables nor the worker's own folder may shadow what it imports.
    return (str(python), "-I", "-B", str(SOURCE_WORKER))


class SourceProcess:
    """A running source. A context manager: leaving it ends the process and all it started."""

    def __init__(self, job: SourceJob, folder: Path) -> None:
        """Start the worker and load the script.

        Args:
            job: what to run.
            folder: where it puts its outputs.

        Raises:
            EvidenceError: the script fails, or the worker breaks the protocol.
            InfrastructureError: the worker dies, hangs or cannot be started.
        """
        self._job, self._folder = job, folder
        self._process = WorkerProcess(job.argv, env=worker_environment(), cwd=job.root)
        try:
            self.facts = self._load()
        except BaseException:
            self._process.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.kill()

    def run(self, case: CaseInputs, input_folder: str, stem: str) -> SourceRun:
        """Run one case; its outputs are files of the process's folder that begin with `stem`.

        Raises:
            EvidenceError: the script fails, or its answer is not the protocol's.
            InfrastructureError: the worker dies or hangs.
        """
        answer = self._ask(
            "run", f"on case {case.case!r}", inputs=to_json(case.inputs),
            input_folder=input_folder, folder=str(self._folder), stem=stem,
        )  # fmt: skip
        where = f"{self._job.where}, case {case.case}"
        return SourceRun(
            outputs=_records(answer.get("outputs"), where),
            seen=Seen(
                opened=tuple(Path(text) for text in _texts(answer, "opened", where)),
                touched=tuple(Path(text) for text in _texts(answer, "touched", where)),
                watching=answer.get("watching") is True,
                modules=_texts(answer, "modules", where),
            ),
        )

    def _load(self) -> SourceFacts:
        hello = self._ask("hello", "before it was loaded")
        if hello.get("protocol") != PROTOCOL:
            raise _garbage(self._job.where, f"protocol {hello.get('protocol')!r}")
        source = self._job.source
        named = source.framework.strip().lower()
        packages, module = _FRAMEWORKS.get(named, ((source.framework.strip(),), ""))
        loaded = self._ask(
            "load", "when it was loaded", root=str(self._job.root), entry=str(source.entry),
            function=source.function, distributions=packages,
            modules=[*ONNX_RUNTIMES, *([module] if module else [])],
            watched=[{"path": str(p), "size_bytes": p.stat().st_size} for p in self._job.watched],
        )  # fmt: skip
        found = loaded.get("framework")
        package = found if isinstance(found, dict) else {}
        return SourceFacts(
            python=str(hello.get("python", ""))[:100],
            package=str(package.get("name", ""))[:100],
            version=str(package.get("version", ""))[:100],
            module=module,
        )

    def _ask(self, verb: str, when: str, **payload: object) -> dict[str, Any]:
        try:
            return self._process.request(verb, timeout_s=self._job.timeout_s, **payload)
        except WorkerError as error:
            raise _explained(error, when, self._job) from error


def read_outputs(records: Sequence[ValueRecord], folder: Path) -> tuple[tuple[str, Value], ...]:
    """Return name and value of every output, mapped into memory; names are empty for none given.

    Raises:
        EvidenceError: a record does not describe its file, leaves the folder, or the outputs are
            larger than `MAX_CASE_BYTES`.
    """
    size_bytes = 0
    for number, leaf in enumerate(leaves(records)):
        if len(leaf.shape) > _MAX_RANK or any(not 0 <= size < 2**63 for size in leaf.shape):
            raise _garbage(leaf.name, f"shape {list(leaf.shape)[:_MAX_RANK]}")
        text = leaf.dtype == "string"
        width = 1 if text or leaf.kind != "tensor" else numpy_dtype(leaf.dtype).itemsize
        size_bytes += max(math.prod(leaf.shape) * width, _file_bytes(folder, leaf) if text else 0)
        if size_bytes > MAX_CASE_BYTES or number > _MAX_VALUES:
            raise EvidenceError(
                f"the outputs of one case exceed {MAX_CASE_BYTES / 2**30:g} GiB, or "
                f"{_MAX_VALUES:,} tensors",
                where=leaf.name,
                remedy="store a smaller case",
            )
    try:
        return tuple((record.name, read_value(record, folder)) for record in records)
    except (ValueError, OverflowError, OSError) as error:
        raise _garbage("outputs", str(error)) from error


def _records(found: Any, where: str) -> tuple[ValueRecord, ...]:  # noqa: ANN401 - its answer
    try:
        return from_json(tuple[ValueRecord, ...], found, where=where)
    except EvidenceError as error:
        raise _garbage(where, f"outputs {error.what}") from error


def _file_bytes(folder: Path, record: ValueRecord) -> int:
    try:
        return (folder / record.file).stat().st_size
    except (OSError, ValueError):
        return 0


def _interpreter(python: str, root: Path) -> Path:
    """Return a program on PATH, or a path below the root, links not followed: a venv's is one."""
    plain = Path(python).name == python
    found = shutil.which(python) if plain else shutil.which(root.absolute() / python)
    if found is None:
        raise ConfigError(
            f"there is no interpreter {python!r}",
            where="$.source.python",
            remedy="name a program on PATH, a path such as .venv/bin/python, or pin the packages "
            "with source.requires",
        )
    return Path(found)


def _texts(answer: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = answer.get(key)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _garbage(where, f"{key} {str(found)[:100]!r}")
    return tuple(text for text in found if "\0" not in text)


def _explained(error: WorkerError, when: str, job: SourceJob) -> CiParityError:
    """Return the error that a request's failure is to the user, with its last words."""
    match error.status:
        case RunStatus.ERROR if "No module named 'numpy'" in error.message:
            return ConfigError(
                "the source's environment has no NumPy",
                where=job.argv[0],
                remedy="add it, pinned, to the requirements of the source",
            )
        case RunStatus.ERROR:
            return EvidenceError(
                f"the source failed {when}: {error.message}",
                where=job.where,
                remedy="run the function by itself on the stored inputs and correct it",
            )
        case RunStatus.PROTOCOL:
            return _garbage(job.where, error.message)
        case _:
            return InfrastructureError(
                f"the source gave no answer {when}: {error.message}",
                where=job.where,
                remedy="see its last words; policy.timeout_s is how long it may take",
            )


def _garbage(where: str, what: str) -> EvidenceError:
    return EvidenceError(
        f"the source answered what no reference can be: {what}",
        where=where,
        remedy="let the function return arrays; what it prints does not matter",
    )
