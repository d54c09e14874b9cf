"""The near end of a judge of the repository: its process, its time limit, its answer.

The function runs in a process of its own with the environment of a worker; ours never imports it.
Anything but a well-formed answer (an exception, a crash, a hang, another form) is `inconclusive`,
with its last words. Whether a finding comes of it is decided later.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ci_parity.base.process import worker_environment
from ci_parity.config.decisions import Judge
from ci_parity.records.observation import RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.run.protocol import WorkerError, WorkerProcess

JUDGE_WORKER = Path(__file__).with_name("judge_worker.py")
_MAX_EVIDENCE = 1000
_KEYS = {"outcome", "evidence", "measured", "limit"}
# A judge that dies on every case is given up after ten processes, one that hangs after two.
_PATIENCE = 10
_COST_OF_TIMEOUT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What a judge said of one case, or why it said nothing."""

    outcome: Outcome
    evidence: str
    measured: float | None = None
    limit: float | None = None


class JudgeProcess:
    """A judge that can be asked. A context manager: leaving it ends the process, if one runs.

    Args:
        judge: the script and its function.
        folder: the working folder of the process.
    """

    def __init__(self, judge: Judge, folder: Path) -> None:
        self._judge, self._folder = judge, folder
        self._process: WorkerProcess | None = None
        self._spent = 0
        self._refused = "" if judge.script.is_file() else f"no such script {judge.script.name}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._end()

    def ask(self, case: Mapping[str, object]) -> Opinion:
        """Return what the function says of a case, which it gets as a plain mapping.

        Raises:
            InfrastructureError: the interpreter cannot be started.
        """
        if self._refused:
            return _none(self._refused)
        try:
            process = self._process or self._start()
            answer = process.request("judge", timeout_s=self._judge.timeout_s, case=case)
        except WorkerError as error:
            if not error.alive:
                self._end()
                self._spent += _COST_OF_TIMEOUT if error.status is RunStatus.TIMEOUT else 1
                if self._spent >= _PATIENCE:
                    self._refused = "given up after the judge died or hung too often"
            return _none(error.message)
        return _opinion(answer.get("answer"))

    def _start(self) -> WorkerProcess:
        # -I: neither PYTHON* variables nor the working folder may shadow what the judge imports.
        argv = (sys.executable, "-I", "-B", str(JUDGE_WORKER))
        self._process = WorkerProcess(argv, env=worker_environment(), cwd=self._folder)
        try:
            self._process.request(
                "load", timeout_s=self._judge.timeout_s, script=str(self._judge.script.resolve()),
                function=self._judge.function,
            )  # fmt: skip
        except WorkerError as error:
            if error.alive:
                # The script cannot be loaded: it could not be for the next case either.
                self._refused = error.message
                self._end()
            raise
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


def _opinion(answer: Any) -> Opinion:  # noqa: ANN401 - whatever the function returned
    """Return an answer as an opinion; one in another form is none."""
    if not isinstance(answer, dict):
        return _none(f"the judge returned {_cut(answer)}, not a mapping with outcome and evidence")
    if unknown := sorted(set(answer) - _KEYS):
        return _none(f"the judge's answer has unknown keys: {_cut(', '.join(unknown))}")
    outcome, evidence = answer.get("outcome"), answer.get("evidence")
    if outcome not in [known.value for known in Outcome] or not isinstance(evidence, str):
        return _none(
            f"the judge answered outcome {_cut(outcome)} and evidence {_cut(evidence)}; it must be "
            "pass, fail or inconclusive, and a text"
        )
    numbers = [answer.get("measured"), answer.get("limit")]
    if any(n is not None and (type(n) not in {int, float} or not _finite(n)) for n in numbers):
        return _none(f"measured and limit must be numbers; the judge gave {_cut(numbers)}")
    measured, limit = (None if number is None else float(number) for number in numbers)
    return Opinion(
        outcome=Outcome(outcome), evidence=evidence[:_MAX_EVIDENCE], measured=measured, limit=limit
    )


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _none(reason: str) -> Opinion:
    return Opinion(outcome=Outcome.INCONCLUSIVE, evidence=f"no judgement: {reason[:_MAX_EVIDENCE]}")


def _cut(value: object) -> str:
    return repr(value)[:200]
