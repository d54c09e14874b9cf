"""The machine: its tools, folders, Docker daemon and GPUs. Nothing is installed or changed.

What nothing in the repository needs is a note where it is not there.
"""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_parity import __version__
from ci_parity.base import git, process
from ci_parity.base.errors import CiParityError, InfrastructureError
from ci_parity.config.runtimes import command_of, image_of
from ci_parity.config.systems import Target
from ci_parity.detect.host import HostSources, host_facts
from ci_parity.records.facts import Facts, measured
from ci_parity.run.container.daemon import connected
from ci_parity.run.runtime import WORKERS
from ci_parity.stages.calibrations import conditions_here
from ci_parity.stages.doctor.check import Check, missing, note, ok

_GIB = 1024**3
_FREE_GIB = 5
_ASK_TIMEOUT_S = 30.0
_GPU_PROVIDERS = frozenset(
    {
        "CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider",
        "ROCMExecutionProvider", "MIGraphXExecutionProvider",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the targets of a repository cannot do without."""

    docker: bool = False
    gpu: bool = False
    packages: bool = False


def needs_of(targets: tuple[Target, ...]) -> Needs:
    """Return what any of these targets needs."""
    images = [image for t in targets if (image := image_of(t.runtime)) is not None]
    pinned = [t for t in targets if image_of(t.runtime) is None and command_of(t.runtime) is None]
    return Needs(
        docker=bool(images),
        gpu=any(image.gpus for image in images)
        or any(target.provider in _GPU_PROVIDERS for target in targets),
        packages=any(target.runtime != "current" for target in pinned),
    )


def examine_machine(root: Path, cache: Path, needs: Needs) -> Iterator[Check]:
    """Look at the machine, from the interpreter to the GPUs."""
    yield ok("ci-parity", f"{__version__} on Python {platform.python_version()}, {sys.platform}")
    yield _folder("cache", cache, "make it writable, or name another one in CI_PARITY_CACHE")
    yield _folder("exchange", Path(tempfile.gettempdir()), "free some space, or set TMPDIR")
    yield _packages(needs)
    yield _isolation()
    yield _git(root)
    yield _docker(needs)
    yield from _gpus(host_facts(HostSources.here()), needs)
    yield from (note("timing", words) for words in conditions_here())


def _folder(name: str, folder: Path, remedy: str) -> Check:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free / _GIB
    except OSError as error:
        return missing(name, f"{folder}: {error.strerror or error}", remedy)
    if free < _FREE_GIB:
        return note(name, f"{folder} has {free:.1f} GiB left", remedy)
    return ok(name, f"{folder}, {free:.0f} GiB free")


def _packages(needs: Needs) -> Check:
    """A pinned runtime is installed by uv; without one uv is of no use."""
    try:
        from uv import find_uv_bin

        done = process.run(
            [find_uv_bin(), "--version"],
            env=process.packaging_environment(),
            timeout_s=_ASK_TIMEOUT_S,
        )
    except (ImportError, FileNotFoundError, InfrastructureError) as error:
        words = f"not usable: {error}"
        made = missing if needs.packages else note
        return made("uv", words, "install ci-parity with its dependencies: uv is one of them")
    return ok("uv", done.stdout.decode(errors="replace").strip())


def _isolation() -> Check:
    """Whether workers of packages can be kept from the network; tried on a process of its own."""
    done = process.run(
        [sys.executable, "-I", "-B", str(WORKERS / "no_network.py")],
        env=process.worker_environment(),
        timeout_s=_ASK_TIMEOUT_S,
    )
    if done.returncode != 0:
        remedy = "where that matters, run the target in an image: it has none"
        return note("isolation", "workers of packages keep their network here", remedy)
    return ok("isolation", "workers of packages have no network")


def _git(root: Path) -> Check:
    try:
        version = git.text_of(git.ask(root, "--version"))
        inside = git.ask(root, "rev-parse", "--is-shallow-repository")
    except CiParityError as error:
        return note("git", str(error), "install git: the baseline is read from the history")
    if inside.returncode != 0:
        return note("git", f"{version}; {root} is in no repository", "compare with `diff`")
    if git.text_of(inside) == "true":
        remedy = "fetch-depth: 0 in the checkout step, where the base commit is not found"
        return note("git", f"{version}; the history is shallow", remedy)
    return ok("git", version)


def _docker(needs: Needs) -> Check:
    try:
        with connected() as api:
            info: Mapping[str, Any] = api.info()
    except InfrastructureError as error:
        made = missing if needs.docker else note
        return made("docker", str(error).splitlines()[0], error.remedy)
    kinds = {str(device.get("ID")) for device in info.get("DiscoveredDevices") or ()}
    devices = f"; CDI: {', '.join(sorted(kinds)[:4])}" if kinds else "; no CDI devices"
    return ok("docker", f"{info.get('ServerVersion')}, {info.get('Architecture')}{devices}")


def _gpus(facts: Facts, needs: Needs) -> Iterator[Check]:
    found = False
    for vendor in ("nvidia", "amd"):
        driver, gpus = facts[f"{vendor}.driver"], facts[f"{vendor}.gpus"]
        if measured(gpus):
            found = True
            yield ok(vendor, f"driver {driver}: {gpus}")
        elif measured(driver) or gpus.startswith("failed"):
            yield note(vendor, f"driver {driver}, GPUs {gpus}", "see what the driver says itself")
    if not found:
        made = missing if needs.gpu else note
        remedy = "run this on the machine with the GPU, and give the container `--gpus all`"
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = f"; CUDA_VISIBLE_DEVICES is {visible!a}" if visible is not None else ""
        yield made("gpu", f"none is seen{hidden}", remedy if needs.gpu else "")
