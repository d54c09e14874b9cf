"""The seam between a target's `runtime:` and a process that speaks the worker protocol."""

import contextlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import InfrastructureError
from ci_parity.base.process import container_environment, worker_environment
from ci_parity.config.runtimes import (
    CURRENT,
    ONNXRUNTIME,
    Family,
    ImageRuntime,
    command_of,
    family_of,
    image_of,
)
from ci_parity.records.facts import Facts
from ci_parity.run import environments
from ci_parity.run.command import argv_of, command_facts, digest_of, label_of
from ci_parity.run.container.daemon import connected
from ci_parity.run.container.facts import PYTHON, image_fact, image_facts, kept_facts
from ci_parity.run.container.files import WORKERS as WORKERS_INSIDE
from ci_parity.run.container.images import Image, pinned_text
from ci_parity.run.container.images import provide as provide_image
from ci_parity.run.container.owners import reap
from ci_parity.run.facts import environment_variable_facts, runtime_facts

WORKERS = Path(__file__).with_name("workers")


Roots = tuple[Path, ...]
"""The folders that paths of a command start from; the first one that has a file counts."""

HERE: Roots = (Path(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a worker: its argument list, a label, and the digest of its environment.

    With an `image`, in a container of it: the argument list is as the image knows it. `roots` are
    where the files of its options lie, which are known by their digests, not by their place.
    """

    argv: tuple[str, ...]
    label: str
    environment: str
    image: Image | None = None
    roots: Roots = field(default=HERE, compare=False)


def prepare(runtime: str, *, cache: Path, roots: Roots = HERE) -> Launch:
    """Provide what a runtime needs and say how to start its worker.

    Args:
        runtime: `current`, a pinned requirement, a command or an image, as `config.runtimes`
            writes it.
        cache: where environments are kept.
        roots: the folders that paths of a command start from.

    Raises:
        ConfigError: the runtime is none of these.
        InfrastructureError: its environment cannot be built, its program is missing, or its image
            cannot be had or has no runtime.
    """
    image = image_of(runtime)
    if image is not None:
        return _contained(image, cache)
    if runtime == CURRENT:
        argv = _worker(Path(sys.executable), ONNXRUNTIME)
        return Launch(argv=argv, label=describe(runtime), environment=CURRENT, roots=roots)
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
        roots=roots,
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
    """Return the pinned requirement, image or command that a runtime stands for; build nothing.

    Raises:
        ConfigError: the runtime is none of those and not `current`.
        InfrastructureError: `current`, and no onnxruntime is installed here.
    """
    if image_of(runtime) is not None:
        return pinned_text(runtime)
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

    Empty for an environment that has not been built, for a program that is not here and for an
    image that has not run here: what they would hold is not known yet.
    """
    image = image_of(pinned_text(runtime))
    if image is not None:
        inside = image_fact(image.digest) if image.command else kept_facts(image.digest, cache)
        known = bool(image.digest and inside)
        return {**inside, **environment_variable_facts(container_environment())} if known else {}
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


def _contained(runtime: ImageRuntime, cache: Path) -> Launch:
    """Provide an image, and make sure that our worker finds what it needs inside."""
    with connected() as api:
        reap(api)
        image = provide_image(api, runtime)
    if not runtime.command:
        image_facts(image, cache)
    # Not -I: where an image keeps its onnxruntime may be said by its own PYTHONPATH.
    argv = runtime.command or (*PYTHON, f"{WORKERS_INSIDE}/{ONNXRUNTIME.name}_worker.py")
    digest = sha256_bytes(canonical_bytes([image.digest, *argv]))
    return Launch(argv=argv, label=image.label, environment=digest, image=image)


def _worker(python: Path, family: Family) -> tuple[str, ...]:
    # -I: neither PYTHON* variables nor the worker's own folder may shadow what it imports.
    return (str(python), "-I", "-B", str(WORKERS / f"{family.name}_worker.py"))
