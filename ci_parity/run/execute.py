"""One model on one runtime over an input set becomes an `Observation`.

Each case is one request to a worker. A worker that dies or hangs costs its case alone: a fresh one
takes the next. Nothing is judged here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ci_parity.base.errors import EvidenceError
from ci_parity.base.process import worker_environment
from ci_parity.base.progress import Step
from ci_parity.config.systems import Target
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import (
    CaseInputs,
    CaseRun,
    InputSet,
    Observation,
    RunStatus,
    RuntimeInfo,
)
from ci_parity.records.placement import Method, Placement
from ci_parity.records.values import ValueRecord
from ci_parity.run.container.files import Files
from ci_parity.run.container.start import start as start_container
from ci_parity.run.custom_ops import with_libraries
from ci_parity.run.placement import measure, on_plain_cpu
from ci_parity.run.protocol import Worker, WorkerError, WorkerProcess
from ci_parity.run.runtime import Launch

PROTOCOL = 1
# A model that crashes on every case is given up after 20 workers, one that hangs after three: each
# of those has cost a whole time limit.
_PATIENCE = 20
_COST_OF_TIMEOUT = 7
_MAX_TEXT = 1000
_MAX_TEXTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The names of a model's inputs and outputs, in its order, for runtimes that lose them."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One system to observe: a model on a runtime with the options of a target."""

    launch: Launch
    model: Path
    target: Target
    timeout_s: float
    repeat: int = 1
    ports: Ports = Ports()


@dataclass(slots=True)
class _Record:
    """What has been seen so far of one system."""

    info: RuntimeInfo | None = None
    providers: tuple[str, ...] = ()
    cases: list[CaseRun] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    placement: Placement | None = None
    lost: int = 0
    spent: int = 0


def observe(
    job: Job, inputs: InputSet, folder: Path, step: Step, *, placed: bool = False
) -> Observation:
    """Run every case of `inputs`; outputs go to files in `folder`.

    With `placed`, the last worker is asked where the nodes ran, once it has run all others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = _Record()
    waiting = list(inputs.cases)
    load = (RunStatus.OK, "")
    while waiting and load[0] is RunStatus.OK:
        with start(job, folder, Path(inputs.folder)) as worker:
            load = _load(worker, job, record)
            if load[0] is RunStatus.OK:
                _run_cases(worker, job, inputs, waiting, folder, record, step)
            said = worker.warnings()
            if load[0] is RunStatus.OK and placed and not waiting:
                record.placement = _placement(worker, job, inputs, folder, record)
                if record.placement.method is not Method.CPU:
                    said = worker.warnings()
            record.warnings.update(dict.fromkeys(said))
        if record.spent >= _PATIENCE:
            message = f"given up after {record.lost} workers died or hung"
            record.cases.extend(_not_run(case, message) for case in waiting)
            break
    if not inputs.cases:
        with start(job, folder, Path(inputs.folder)) as worker:
            load = _load(worker, job, record)
    return Observation(
        label=f"{job.launch.label}, {job.target.provider}",
        folder=str(folder),
        load=load[0],
        load_message=load[1],
        runtime=record.info,
        environment=job.launch.environment,
        providers_requested=(job.target.provider,),
        providers_used=record.providers,
        cases=tuple(record.cases),
        warnings=tuple(record.warnings),
        placement=record.placement,
    )


def start(
    job: Job, folder: Path, inputs: Path | None = None, memory_bytes: int | None = None
) -> Worker:
    """Start a worker for a job; its working folder is the exchange folder.

    Args:
        job: what it will be asked to load.
        folder: the exchange folder, which it writes to.
        inputs: the folder of its inputs, where it is known already.
        memory_bytes: what it may take here, None for most of the machine; an image has its own.

    Raises:
        InfrastructureError: it cannot be started.
    """
    if job.launch.image is not None:
        files = Files(exchange=folder, model=job.model, inputs=inputs)
        return Worker(start_container(job.launch.image, job.launch.argv, files))
    return WorkerProcess(
        job.launch.argv, env=worker_environment(), cwd=folder, memory_bytes=memory_bytes
    )


def load(worker: Worker, job: Job, *, release: bool = False) -> tuple[RuntimeInfo, tuple[str, ...]]:
    """Greet a worker and load the model; return who answered and the providers it really uses.

    Args:
        worker: is asked.
        job: has the model and its options.
        release: whether the model before it may be let go first; a worker need not heed that.

    Raises:
        WorkerError: no answer, an error, or another version of the protocol.
    """
    hello, loaded = open_model(worker, job, release=release)
    info = RuntimeInfo(
        name=_text(hello, "runtime"),
        version=_text(hello, "version"),
        python=_text(hello, "python"),
        numpy=_text(hello, "numpy"),
        build=_text(hello, "build"),
        providers=_texts(hello.get("providers")),
        verbs=_texts(hello.get("verbs")),
    )
    return info, providers_in(loaded)


def open_model(
    worker: Worker, job: Job, *, release: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Greet a worker and load the model; return both answers. Arguments and errors are `load`'s."""
    hello = greet(worker, job)
    return hello, load_model(worker, job, release=release)


def greet(worker: Worker, job: Job) -> dict[str, Any]:
    """Greet a worker; return what it says of itself.

    Raises:
        WorkerError: no answer, an error, or another version of the protocol.
    """
    hello = worker.request("hello", timeout_s=job.timeout_s)
    if hello.get("protocol") != PROTOCOL:
        message = f"the worker speaks protocol {hello.get('protocol')!r}, not {PROTOCOL}"
        raise WorkerError(RunStatus.PROTOCOL, message, alive=True)
    return hello


def load_model(worker: Worker, job: Job, *, release: bool = False) -> dict[str, Any]:
    """Load the model of a worker that was greeted; arguments and errors are `load`'s."""
    more = {"release": True} if release else {}
    return worker.request("load", timeout_s=job.timeout_s, **_request(job), **more)


def providers_in(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the providers that an answer to `load` or `run` says are in use."""
    return _texts(answer.get("providers"))


def _request(job: Job) -> dict[str, object]:
    """Return what a worker is told of a model that it is to load."""
    return {
        "model": job.model.resolve(),
        "provider": job.target.provider,
        "provider_options": dict(job.target.provider_options),
        "session_options": with_libraries(job.target.session_options, job.launch.roots),
        "input_names": job.ports.inputs,
        "output_names": job.ports.outputs,
    }


def _load(worker: Worker, job: Job, record: _Record) -> tuple[RunStatus, str]:
    try:
        record.info, record.providers = load(worker, job)
    except WorkerError as error:
        return error.status, error.message
    return RunStatus.OK, ""


def _run_cases(
    worker: Worker,
    job: Job,
    inputs: InputSet,
    waiting: list[CaseInputs],
    folder: Path,
    record: _Record,
    step: Step,
) -> None:
    """Run waiting cases in order until all have run or the worker is gone."""
    while waiting:
        case = waiting.pop(0)
        alive = True
        try:
            stem = f"c{len(record.cases)}"
            run, record.providers = run_case(worker, job, inputs.folder, case, folder, stem)
        except WorkerError as error:
            run = CaseRun(case=case.case, status=error.status, message=error.message)
            alive = error.alive
            if not alive:
                record.lost += 1
                record.spent += _COST_OF_TIMEOUT if error.status is RunStatus.TIMEOUT else 1
        record.cases.append(run)
        step.advance()
        if not alive:
            return


def _placement(
    worker: Worker, job: Job, inputs: InputSet, folder: Path, record: _Record
) -> Placement:
    """Ask where the nodes ran and what the runtime made of them, by the first case that did."""
    trivial = on_plain_cpu(job.target.provider, record.providers)
    ran = {run.case for run in record.cases if run.status is RunStatus.OK}
    case = next((case for case in inputs.cases if case.case in ran), None)
    verbs = record.info.verbs if record.info else ()
    timeout_s = 2 * job.timeout_s
    told = measure(worker, verbs, _request(job), case, inputs.folder, folder, timeout_s)
    return told if trivial is None else replace(trivial, executed=told.executed)


def run_case(
    worker: Worker, job: Job, source: str, case: CaseInputs, folder: Path, stem: str, *,
    release: bool = False,
) -> tuple[CaseRun, tuple[str, ...]]:  # fmt: skip
    """Run one case of a loaded model; return it, and the providers that are in use now.

    Args:
        worker: has loaded the model of `job`.
        job: says how often to run it, and for how long.
        source: folder of the input files.
        case: the inputs.
        folder: where the outputs go.
        stem: what the names of their files start with.
        release: whether the model may be let go afterwards; a worker need not heed that.

    Raises:
        WorkerError: no answer, an error, or an answer that cannot be read.
    """
    repeat = 1 if case.once else job.repeat
    answer = worker.request(
        "run",
        timeout_s=job.timeout_s * repeat,
        inputs=to_json(case.inputs),
        input_folder=Path(source),
        folder=folder,
        stem=stem,
        repeat=repeat,
        **({"release": True} if release else {}),
    )
    try:
        outputs = _outputs(answer.get("outputs"))
        repeats = tuple(_outputs(again) for again in answer.get("repeats", ()))
        duration_ms = float(answer.get("duration_ms", 0.0))
    except (EvidenceError, TypeError, ValueError) as error:
        raise WorkerError(RunStatus.PROTOCOL, f"unreadable outputs: {error}", alive=True) from error
    run = CaseRun(
        case=case.case,
        status=RunStatus.OK,
        outputs=outputs,
        repeats=repeats,
        duration_ms=duration_ms,
    )
    return run, providers_in(answer)


def _outputs(raw: Any) -> tuple[ValueRecord, ...]:  # noqa: ANN401 - whatever the worker sent
    records = from_json(tuple[ValueRecord, ...], raw, where="worker")
    names = [record.name for record in records]
    if len(set(names)) != len(names):
        raise EvidenceError(f"duplicate output names in {names}", where="worker")
    return records


def _not_run(case: CaseInputs, message: str) -> CaseRun:
    return CaseRun(case=case.case, status=RunStatus.NOT_RUN, message=message)


def _text(answer: Mapping[str, Any], key: str) -> str:
    """Return what a worker says of itself, shortened; empty where it says nothing."""
    return str(answer.get(key, ""))[:_MAX_TEXT]


def _texts(raw: object) -> tuple[str, ...]:
    """Return names from an answer, as many and as long as such names are."""
    return (
        tuple(str(item)[:_MAX_TEXT] for item in raw[:_MAX_TEXTS]) if isinstance(raw, list) else ()
    )
