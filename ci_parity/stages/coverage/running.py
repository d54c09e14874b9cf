"""Node tests on one target: what is known from before is taken, the rest is run, judged and kept.

Each test is loaded and run in a worker process of the target's runtime, several at a time where the
target is a CPU. A test that ends its worker, or does not end, costs itself alone.
"""

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import Progress
from ci_parity.config.runtimes import CURRENT, ONNXRUNTIME, command_of, image_of
from ci_parity.config.systems import PLAIN_CPU, Target
from ci_parity.coverage.cases import digest_of
from ci_parity.coverage.results import KeptResult, KeptResults, System, may_pass
from ci_parity.detect.host import HostSources, host_facts, relevant
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult, Probe
from ci_parity.run.crew import Crew, Errand, crew_size
from ci_parity.run.environments import parse_requirement
from ci_parity.run.execute import Job
from ci_parity.run.runtime import HERE, WORKERS, Launch, Roots, components_of, prepare
from ci_parity.stages.coverage.judging import judge
from ci_parity.stages.coverage.sharing import SharedResults

logger = logging.getLogger(__name__)

LIMIT_S = 30.0
"""How long one test may take by default."""

RESULTS = Path("coverage") / "results"
# What of a host can move the outcome of a test of one node.
_FELT = ("cpu.architecture", "cpu.features", "os.libc", "nvidia.", "amd.")
# onnxruntime then refuses a model whose nodes it would give to the CPU without a word.
_NO_FALLBACK = "session.disable_cpu_ep_fallback"
_KEEP_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Results in the order of the cases; those of `measured` were run now, and may be kept."""

    results: tuple[NodeResult, ...]
    system: System
    measured: frozenset[str]


def run_cases(
    cases: Sequence[NodeCase], target: Target, *, cache: Path, progress: Progress,
    timeout_s: float = LIMIT_S, roots: Roots = HERE, anew: bool = False,
    shared: SharedResults | None = None,
) -> Ran:  # fmt: skip
    """Find out what each case shows on a target.

    Args:
        cases: have distinct ids.
        target: its runtime, provider and options; no variant of a model is looked at.
        cache: where environments and earlier results are kept.
        progress: is told of every case that runs.
        timeout_s: how long one case may take.
        roots: the folders that paths of a command start from.
        anew: run all of them, whatever is known.
        shared: what other runs showed; one that records takes nothing from this machine's cache.

    Raises:
        ConfigError: the runtime is none.
        InfrastructureError: it cannot be provided, or does not start.
    """
    launch = prepare(target.runtime, cache=cache, roots=roots)
    asked = without_fallback(target)
    system = system_of(launch, asked, cache=cache, roots=roots)
    kept = KeptResults(cache / RESULTS, system)
    found = {case.id: _undefined(case) for case in cases if case.undefined}
    if shared is not None and not anew:
        found |= shared.known(system, [case for case in cases if case.id not in found])
    if not anew and not (shared is not None and shared.records):
        found |= kept.known([case for case in cases if case.id not in found])
    waiting = [case for case in cases if case.id not in found]
    if shared is not None and shared.records:
        waiting = [_as_it_is(case) for case in waiting]
    fresh: list[KeptResult] = []
    said = {case.id: case.digest for case in cases}
    if waiting:
        job = Job(launch=launch, model=waiting[0].model, target=asked, timeout_s=timeout_s)
        fresh = _run(waiting, job, kept, progress, found)
        if shared is not None:
            shared.add(system.digest, system.label, fresh)
    return Ran(
        results=tuple(found[case.id] for case in cases), system=system,
        measured=frozenset(
            one.result.case
            for one in fresh
            if not may_pass(one.result) and said[one.result.case] == one.digest
        ),
    )  # fmt: skip


def system_of(launch: Launch, target: Target, *, cache: Path, roots: Roots = HERE) -> System:
    """Return everything that a result on a target depends on beside the test itself."""
    components = components_of(target.runtime, cache, roots)
    parts = [f"{key}={components[key]}" for key in sorted(components)]
    # The words of a command steer it, and are not among its bytes.
    environment = [target.runtime, launch.environment, *parts]
    files = [WORKERS / "wire.py", *(Path(word) for word in launch.argv if str(WORKERS) in word)]
    on_cpu = target.provider in PLAIN_CPU
    facts = host_facts(HostSources.here(), accelerators=not on_cpu)
    return System(
        label=launch.label,
        environment=sha256_bytes("\n".join(environment).encode()),
        worker=sha256_bytes(b"".join(file.read_bytes() for file in files if file.is_file())),
        provider=target.provider,
        options=target.options,
        host={
            key: value
            for key, value in relevant(facts, target.provider).items()
            if key.startswith(_FELT)
        },
    )


def without_fallback(target: Target) -> Target:
    """Return a target on which onnxruntime does not quietly give nodes to the CPU."""
    if target.provider in PLAIN_CPU or not _is_onnxruntime(target.runtime):
        return target
    options = target.session_options
    entries = options.get("config_entries", {})
    assert isinstance(entries, Mapping)
    entries = {_NO_FALLBACK: "1", **entries}
    return replace(target, session_options={**options, "config_entries": entries})


def _is_onnxruntime(runtime: str) -> bool:
    image = image_of(runtime)
    if image is not None:
        return not image.command
    if runtime == CURRENT:
        return True
    if command_of(runtime) is not None:
        return False
    return parse_requirement(runtime).name in ONNXRUNTIME.distributions


def _as_it_is(case: NodeCase) -> NodeCase:
    """Return a case with the digest of its files, whatever an index in the cache says.

    What others are to believe of it is of the files that run.
    """
    try:
        return replace(case, digest=digest_of(case))
    except OSError as error:
        raise InfrastructureError(
            f"a node test cannot be read: {error.strerror or error}", where=str(case.folder),
            remedy="delete the folder `coverage` of the cache: its tests are written anew",
        ) from error  # fmt: skip


def _undefined(case: NodeCase) -> NodeResult:
    return NodeResult(case=case.id, outcome=NodeOutcome.SKIPPED, evidence=case.undefined)


def _run(
    cases: Sequence[NodeCase], job: Job, kept: KeptResults, progress: Progress,
    found: dict[str, NodeResult],
) -> list[KeptResult]:  # fmt: skip
    """Run cases, judge each as it comes, and keep what is known every so often.

    What was found is added to `found`; returned is what may be kept of it.
    """
    by_id = {case.id: case for case in cases}
    errands = [
        Errand(
            name=case.id, model=case.model, folder=case.folder, inputs=case.inputs,
            outputs=tuple(record.name for record in case.outputs),
            only_loads=case.probe is Probe.LOAD,
        )
        for case in cases
    ]  # fmt: skip
    provider = job.target.provider
    fresh: list[KeptResult] = []
    written = 0
    title = f"{len(cases)} node tests on {job.launch.label}, {provider}"
    shown = Path(os.path.commonpath([case.folder for case in cases]))
    with (
        progress.step(title, len(cases)) as step,
        _exchange() as folder,
        Crew(job, errands, folder, size=crew_size(provider), shown=shown) as crew,
    ):
        for done in crew:
            case = by_id[done.errand.name]
            found[case.id] = judge(case, done, provider)
            done.discard()
            if not done.given_up:
                fresh.append(KeptResult(digest=case.digest, result=found[case.id]))
            if len(fresh) - written >= _KEEP_EVERY:
                kept.add(fresh[written:])
                written = len(fresh)
            step.advance()
        kept.add(fresh[written:])
    return fresh


@contextmanager
def _exchange() -> Iterator[Path]:
    """Yield a folder for outputs, in memory where there is such: each is read once and deleted."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="ci-parity-", dir=place) as folder:
        yield Path(folder)
