"""The seam between a target's `runtime:` and a process that speaks the worker protocol."""

import contextlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.process import worker_environment
from ci_parity.config.runtimes import CURRENT, ONNXRUNTIME, Family, command_of, family_of
from ci_parity.records.facts import Facts
from ci_parity.run import environments
from ci_parity.run.command import argv_of, command_facts, digest_of, label_of
from ci_parity.run.facts import environment_variable_facts, runtime_facts

WORKERS = Path(__file__).with_name("workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a worker: its argument list, a label, and the digest of its environment."""

    argv: tuple[str, ...]
    label: str
    environment: str


Roots = tuple[Path, ...]
"""The folders that paths of a command start from; the first one that has a file counts."""

HERE: Roots = (Path(),)


def prepare(runtime: str, *, cache: Path, roots: Roots = HERE) -> Launch:
    """Provide what a runtime needs and say how to start its worker.

    Args:
        runtime: `current`, a pinned requirement, or a command as `config.runtimes` writes it.
        cache: where environments are kept.
        roots: the folders that paths of a command start from.

    Raises:
        ConfigError: the runtime is none of these.
        InfrastructureError: its environment cannot be built, or its program is missing.
    """
    if runtime == CURRENT:
        argv = _worker(Path(sys.executable), ONNXRUNTIME)
        return Launch(argv=argv, label=describe(runtime), environment=CURRENT)
    words = command_of(runtime)
    if words is not None:
        digest = digest_of(command_facts(words, roots))
        return Launch(argv=argv_of(words, roots), label=label_of(words), environment=digest)
    environment = environments.provide(runtime, cache=cache)
    family = family_of(environments.parse_requirement(runtime).name)
    assert family is not None
    return Launch(
        argv=_worker(environment.python, family),
        label=describe(runtime),
        environment=environment.digest,
    )


def prepare_all(
    runtimes: Iterable[tuple[str, Roots]], *, cache: Path
) -> dict[tuple[str, Roots], Launch]:
    """Prepare each distinct runtime, with the folders its paths start from, once."""
    return {
        (runtime, roots): prepare(runtime, cache=cache, roots=roots)
        for runtime, roots in dict.fromkeys(runtimes)
    }


def describe(runtime: str) -> str:
    """Return the pinned requirement or command a runtime stands for, without building anything.

    Raises:
        ConfigError: the runtime is neither `current` nor a command nor a pinned requirement.
        InfrastructureError: `current`, and no onnxruntime is installed here.
    """
    if command_of(runtime) is not None:
        return runtime
    if runtime != CURRENT:
        return str(environments.parse_requirement(runtime))
    from importlib.metadata import PackageNotFoundError, version

    for name in ONNXRUNTIME.distributions:
        with contextlib.suppress(PackageNotFoundError):
            return f"{name}=={version(name)}"
    raise InfrastructureError(
        "runtime 'current' needs onnxruntime beside ci-parity, and there is none",
        where=sys.executable,
        remedy="install onnxruntime here, or pin a runtime such as onnxruntime==1.32.0",
    )


def components_of(runtime: str, cache: Path, roots: Roots = HERE) -> Facts:
    """Return what a runtime consists of and the variables its worker gets.

    Empty for an environment that has not been built and for a program that is not here: what they
    would hold is not known yet.
    """
    words = command_of(runtime)
    if words is not None:
        installed = command_facts(words, roots)
    elif runtime == CURRENT:
        installed = runtime_facts(Path(sys.executable), "")
    else:
        environment = environments.built(runtime, cache=cache)
        installed = runtime_facts(environment.python, environment.lock) if environment else {}
    if not installed:
        return {}
    return {**installed, **environment_variable_facts(worker_environment())}


def _worker(python: Path, family: Family) -> tuple[str, ...]:
    # -I: neither PYTHON* variables nor the worker's own folder may shadow what it imports.
    return (str(python), "-I", "-B", str(WORKERS / f"{family.name}_worker.py"))
