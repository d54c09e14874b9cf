"""The seam between a target's `runtime:` and a process that speaks the worker protocol."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.process import worker_environment
from ci_parity.records.facts import Facts
from ci_parity.run import environments
from ci_parity.run.facts import environment_variable_facts, runtime_facts

WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a worker: its argument list, a label, and the digest of its environment."""

    argv: tuple[str, ...]
    label: str
    environment: str


def prepare(runtime: str, *, cache: Path) -> Launch:
    """Provide what a runtime needs and say how to start its worker.

    Raises:
        ConfigError: the runtime is neither `current` nor a pinned requirement.
        InfrastructureError: its environment cannot be built.
    """
    if runtime == "current":
        return Launch(
            argv=_command(Path(sys.executable)), label=describe(runtime), environment="current"
        )
    environment = environments.provide(runtime, cache=cache)
    return Launch(
        argv=_command(environment.python), label=describe(runtime), environment=environment.digest
    )


def prepare_all(runtimes: Sequence[str], *, cache: Path) -> dict[str, Launch]:
    """Prepare each distinct runtime once."""
    return {runtime: prepare(runtime, cache=cache) for runtime in dict.fromkeys(runtimes)}


def describe(runtime: str) -> str:
    """Return the pinned requirement a runtime stands for, without building anything.

    Raises:
        ConfigError: the runtime is neither `current` nor a pinned requirement.
        InfrastructureError: `current`, and no onnxruntime is installed here.
    """
    if runtime != "current":
        return str(environments.parse_requirement(runtime))
    from importlib.metadata import PackageNotFoundError, version

    for name in environments.RUNTIMES:
        with contextlib.suppress(PackageNotFoundError):
            return f"{name}=={version(name)}"
    raise InfrastructureError(
        "runtime 'current' needs onnxruntime beside ci-parity, and there is none",
        where=sys.executable,
        remedy="install onnxruntime here, or pin a runtime such as onnxruntime==1.32.0",
    )


def components_of(runtime: str, cache: Path) -> Facts:
    """Return what is installed for a runtime and the variables its worker gets.

    Empty for an environment that has not been built: what it would hold is not known yet.
    """
    if runtime == "current":
        installed = runtime_facts(Path(sys.executable), "")
    else:
        environment = environments.built(runtime, cache=cache)
        if environment is None:
            return {}
        installed = runtime_facts(environment.python, environment.lock)
    return {**installed, **environment_variable_facts(worker_environment())}


def _command(python: Path) -> tuple[str, ...]:
    # -I: neither PYTHON* variables nor the worker's own folder may shadow what it imports.
    return (str(python), "-I", "-B", str(WORKER))
