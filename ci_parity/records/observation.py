"""What one run recorded: outputs, failures, providers; no judgement."""

import enum
from dataclasses import dataclass

from ci_parity.records.canary import Canary
from ci_parity.records.placement import Placement
from ci_parity.records.values import ValueRecord


class RunStatus(enum.Enum):
    """How one case, or the loading of the model, ended."""

    OK = "ok"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInputs:
    """The inputs of one case, as files of an `InputSet`'s folder.

    `once` says that it is run once, however often the job runs the others.
    """

    case: str
    inputs: tuple[ValueRecord, ...]
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSet:
    """The inputs of every case that must run; `source` is `fixtures`, `given` or `generated`."""

    folder: str
    source: str
    cases: tuple[CaseInputs, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """One case: its outputs in model order, or the last words of its failure.

    `repeats` holds the outputs of each further run that differed bitwise from the first.
    """

    case: str
    status: RunStatus
    message: str = ""
    outputs: tuple[ValueRecord, ...] = ()
    repeats: tuple[tuple[ValueRecord, ...], ...] = ()
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """What a worker says of itself in `hello`."""

    name: str
    version: str
    python: str
    numpy: str = ""
    build: str = ""
    providers: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One system (a model on a runtime, or the stored references) over a fixture set.

    `label` names it to a reader; `folder` holds the files of `cases`. `load` is OK for references.
    `providers_requested` is empty where no provider was asked for; `placement` is None where nobody
    asked for it, and so is `canary`. `origin` says who gave stored references: `source`, or
    `snapshot` for the exported model itself, or both; it is empty for what was run.
    """

    label: str
    folder: str
    load: RunStatus
    load_message: str = ""
    runtime: RuntimeInfo | None = None
    environment: str = ""
    providers_requested: tuple[str, ...] = ()
    providers_used: tuple[str, ...] = ()
    cases: tuple[CaseRun, ...] = ()
    warnings: tuple[str, ...] = ()
    placement: Placement | None = None
    canary: Canary | None = None
    origin: str = ""
