"""A program is started as a target would start it and held against every rule, in their order.

A program that dies is started again for the next rule. What a runner may leave out (an element
type, an empty batch) is told apart from what it does wrong.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.progress import Step
from ci_parity.records.observation import RunStatus
from ci_parity.run.conformance.bench import Bench, FailedError, UnsupportedError
from ci_parity.run.conformance.rules import RULES, Rule
from ci_parity.run.protocol import WorkerError


class Mark(enum.Enum):
    """How one check of a runner ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "not supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One checked rule; `detail` says what was seen, `remedy` what the runner should do."""

    name: str
    mark: Mark
    detail: str = ""
    remedy: str = ""


def check_runner(
    argv: Sequence[str], folder: Path, *, provider: str, timeout_s: float, step: Step
) -> tuple[Check, ...]:
    """Check a program against every rule of the protocol.

    Args:
        argv: the argument list that starts it.
        folder: an empty folder for models, inputs and outputs.
        provider: what to ask it to run on.
        timeout_s: seconds that one request may take.
        step: progress of `len(RULES)` units.

    Raises:
        InfrastructureError: the program cannot be started.
    """
    bench = Bench(argv, folder, provider, timeout_s)
    done = []
    try:
        for rule in RULES:
            done.append(_checked(rule, bench))
            step.advance(rule.name)
    finally:
        bench.worker.kill()
    return tuple(done)


def _checked(rule: Rule, bench: Bench) -> Check:
    mark, detail = Mark.PASSED, ""
    try:
        rule.check(bench)
    except UnsupportedError as error:
        mark, detail = Mark.UNSUPPORTED, str(error)
    except FailedError as error:
        mark, detail = Mark.FAILED, str(error)
    except WorkerError as error:
        optional = error.status is RunStatus.ERROR and not rule.required
        mark, detail = Mark.UNSUPPORTED if optional else Mark.FAILED, error.message
        if not error.alive:
            bench.restart()
    remedy = rule.remedy if mark is Mark.FAILED else ""
    return Check(name=rule.name, mark=mark, detail=detail, remedy=remedy)
