"""A declared pipeline carried out by a process of its own, and what becomes of us where it fails.

Between a raw input and the tensors that libraries make of it. What they read comes from others: a
regular expression in a tokenizer.json can take for ever, a picture or a sound can crash its
decoder. So they run under a time limit and a limit of memory, with no secrets in their environment.
A process serves one case after another; one that is lost costs its case alone, and a fresh one
takes the next. Whether a loss is a finding is decided by who asks.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ci_parity.base import errors
from ci_parity.base.errors import CiParityError, InfrastructureError
from ci_parity.base.escape import visible
from ci_parity.base.process import worker_environment
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import RunStatus
from ci_parity.records.preprocess import Diagnosis, Match, StepSummary
from ci_parity.records.values import ValueRecord, write_value
from ci_parity.run.limits import machine_bytes
from ci_parity.run.protocol import WorkerError, WorkerProcess
from ci_parity.run.source import read_outputs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ci_parity.preprocess.model import Pipeline

_PACKAGE_ROOT = Path(__file__).parents[2]
_WORKER = (sys.executable, "-P", "-B", "-m", "ci_parity.preprocess")
# Importing the libraries is no part of any case.
_START_S = 120.0
# Processes that are lost one after another, with nothing answered in between, before all is given
# up; a hang has cost a whole time limit each time.
_PATIENCE = 20
_COST_OF_TIMEOUT = 7
_MAX_STEP = 200
_REFUSALS: Mapping[str, type[CiParityError]] = {
    kind.__name__: kind
    for kind in (errors.ConfigError, errors.EvidenceError, errors.InfrastructureError)
}
_REMEDIES = {
    RunStatus.TIMEOUT: "shorten the raw input, simplify what the pipeline does with it (a regular "
    "expression of a tokenizer.json can take for ever), or raise policy.timeout_s",
    RunStatus.CRASH: "replace the raw input, or what the pipeline does with it; where both are "
    "sound, try another version of the library, or more memory",
}


class DeclaredProcess:
    """A pipeline that can be carried out. A context manager: leaving it ends the process, if any.

    It starts with the first raw input; no process runs where there is none.
    """

    def __init__(
        self, pipeline: "Pipeline", folder: Path, timeout_s: float, *,
        worker: Sequence[str] = _WORKER, memory_bytes: int = 0,
    ) -> None:  # fmt: skip
        """Take a pipeline that is no function of the repository.

        Args:
            pipeline: what is carried out.
            folder: a folder of ours for the exchanged files; tensors that were asked for lie in it.
            timeout_s: how long one raw input may take.
            worker: how the process is started.
            memory_bytes: what it may take of memory, half of the machine's where it is 0.
        """
        self._pipeline, self._folder, self._timeout_s = pipeline, folder, timeout_s
        self._argv = worker
        self._memory_bytes = memory_bytes or machine_bytes() // 2
        self._process: WorkerProcess | None = None
        self._asked = self._spent = self._lost = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._end()

    def tensors(
        self, file: Path, root: Path, case: str
    ) -> "Mapping[str, npt.NDArray[np.generic]]":  # fmt: skip
        """Return what the pipeline makes of a raw file below `root`.

        Raises:
            ConfigError: the pipeline's files cannot be used.
            EvidenceError: the raw file is refused.
            InfrastructureError: a library is missing, or the process dies, hangs or takes too much.
        """
        import numpy as np

        self._asked += 1
        answer = self._ask("tensors", file, root, case, stem=f"t{self._asked}")
        where = self._where(case, file)
        records = from_json(tuple[ValueRecord, ...], answer.get("tensors"), where=where)
        found = read_outputs(records, self._folder)
        return {name: np.asarray(value) for name, value in found}

    def diagnosed(
        self, file: Path, root: Path, case: str,
        stored: "Mapping[str, npt.NDArray[np.generic]]", seconds: float,
    ) -> Diagnosis:  # fmt: skip
        """Hold what the pipeline makes of a raw file against stored tensors.

        A difference for which the search of causes is lost stays one.

        Args:
            file: the raw file.
            root: the folder that it must not leave.
            case: whose it is.
            stored: the tensors by input name.
            seconds: the time for the search.

        Raises:
            ConfigError: as `tensors`.
            EvidenceError: as `tensors`.
            InfrastructureError: as `tensors`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        written = [
            write_value(name, array, self._folder, f"s{number}")
            for number, (name, array) in enumerate(stored.items())
        ]
        answer = self._ask("compare", file, root, case, stored=to_json(written))
        found = self._diagnosis(answer, case, file)
        if answer.get("open") is not True:
            return found
        try:
            limit_s = seconds + self._timeout_s
            answer = self._request("explain", limit_s, seconds=seconds)
        except WorkerError as error:
            lost = self._told(error, case, file)
            if found.match is not Match.DIFFERENT:
                raise lost from error
            return _unexplained(found, lost)
        return self._diagnosis(answer, case, file)

    def steps(self, file: Path, root: Path, case: str) -> tuple[StepSummary, ...]:
        """Return what each step makes of a raw file below `root`.

        Raises:
            ConfigError: as `tensors`.
            EvidenceError: as `tensors`.
            InfrastructureError: as `tensors`.
        """
        from ci_parity.preprocess.wire import numbers_from

        answer = self._ask("steps", file, root, case)
        said = numbers_from(answer.get("steps"))
        return from_json(tuple[StepSummary, ...], said, where=self._where(case, file))

    def _ask(
        self, verb: str, file: Path, root: Path, case: str, **payload: object
    ) -> dict[str, Any]:
        """Ask about a raw file; a process that died at it may have been spoilt by an earlier one.

        Raises:
            CiParityError: the pipeline refuses, or the process is lost.
        """
        if self._spent >= _PATIENCE:
            raise InfrastructureError(
                f"preprocessing was given up after {self._lost} processes died or hung one after "
                "another",
                where=self._where(case, file),
                remedy="see what the cases before say",
            )
        sent = {"file": str(file.absolute()), "root": str(root.absolute()), **payload}
        fresh = self._process is None
        try:
            return self._answered(verb, sent)
        except WorkerError as error:
            again = not fresh and not error.alive and error.status is not RunStatus.TIMEOUT
            if not again:
                raise self._told(error, case, file) from error
        try:
            return self._answered(verb, sent)
        except WorkerError as error:
            raise self._told(error, case, file) from error

    def _answered(self, verb: str, sent: Mapping[str, object]) -> dict[str, Any]:
        answer = self._request(verb, self._timeout_s, **sent)
        refused = answer.get("refused")
        if refused is None:
            return answer
        said = refused if isinstance(refused, dict) else {}
        what, where, remedy = (str(said.get(key, "")) for key in ("what", "where", "remedy"))
        kind = _REFUSALS.get(str(said.get("kind")), InfrastructureError)
        raise kind(what or "preprocessing refused without a reason", where=where, remedy=remedy)

    def _request(self, verb: str, timeout_s: float, **sent: object) -> dict[str, Any]:
        """Put one request to the process, which is started where there is none.

        Raises:
            WorkerError: it is lost, or says that it failed.
        """
        try:
            process = self._process or self._start()
            answer = process.request(verb, timeout_s=timeout_s, **sent)
        except WorkerError as error:
            if not error.alive:
                self._end()
                self._lost += 1
                self._spent += _COST_OF_TIMEOUT if error.status is RunStatus.TIMEOUT else 1
            raise
        self._spent = self._lost = 0
        return answer

    def _start(self) -> WorkerProcess:
        from ci_parity.preprocess.wire import pipeline_to_json

        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = WorkerProcess(
            self._argv, env=worker_environment({"PYTHONPATH": str(_PACKAGE_ROOT)}),
            cwd=self._folder, memory_bytes=self._memory_bytes,
        )  # fmt: skip
        limit_s = max(self._timeout_s, _START_S)
        try:
            sent = pipeline_to_json(self._pipeline)
            self._process.request("load", timeout_s=limit_s, pipeline=sent)
        except WorkerError:
            self._end()
            raise
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _diagnosis(self, answer: Mapping[str, Any], case: str, file: Path) -> Diagnosis:
        from ci_parity.preprocess.wire import numbers_from

        said = numbers_from(answer.get("diagnosis"))
        return from_json(Diagnosis, said, where=self._where(case, file))

    def _told(self, error: WorkerError, case: str, file: Path) -> InfrastructureError:
        """Return a lost process as an error that names the case, the file and the step."""
        how = "failed" if error.alive else "was lost"
        return InfrastructureError(
            f"preprocessing {how} at step {self._step()!r}: {error.message}",
            where=self._where(case, file),
            remedy=_REMEDIES.get(error.status, _REMEDIES[RunStatus.CRASH]),
        )

    def _step(self) -> str:
        """Return the step that the process began last."""
        from ci_parity.preprocess.worker import PLACE_BYTES, PLACE_FILE

        try:
            with (self._folder / PLACE_FILE).open("rb") as stream:
                said = stream.read(PLACE_BYTES)
        except OSError:
            return "start"
        return visible(said.decode("utf-8", "replace"), _MAX_STEP) or "start"

    def _where(self, case: str, file: Path) -> str:
        return f"{self._pipeline.origin}, case {case}, {file.name}"


def _unexplained(found: Diagnosis, lost: InfrastructureError) -> Diagnosis:
    """Return a difference for which no cause could be searched for, and why."""
    return Diagnosis(
        match=found.match, inputs=found.inputs, causes=(), tried=0,
        words=f"{found.words}; no cause was searched for to the end: {lost.what}",
    )  # fmt: skip
