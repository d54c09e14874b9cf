"""What a worker's container may do: no network, no capabilities, bounded memory and processes.

The root file system is read-only; what the worker writes goes to the exchange folder and to a
bounded /tmp.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.process import container_environment
from ci_parity.run.container.gpus import device_requests

if TYPE_CHECKING:
    from docker.types import HostConfig, Mount

    from ci_parity.run.container.images import Image

_PROCESSES = 4096
_SHARED_MEMORY_BYTES = 1024**3
_TEMPORARY_BYTES = 1024**3
_GIB = 1024**3
# Without a limit of the user's a worker leaves an eighth to the rest of the machine.
_SHARE = 7 / 8
_NOBODY = 65534


def host_config(image: "Image", info: Mapping[str, Any], mounts: Sequence["Mount"]) -> "HostConfig":
    """Return the limits of a worker's container.

    Args:
        image: may set the memory and ask for GPUs.
        info: the daemon's `info`.
        mounts: what it sees of ours.
    """
    from docker.types import HostConfig, LogConfig, Ulimit

    memory = memory_bytes(image.memory_gib, info)
    return HostConfig(
        version="1.41",
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=_PROCESSES,
        mem_limit=memory,
        memswap_limit=memory,
        cpuset_cpus=cpuset(image.cpus, info),
        shm_size=_SHARED_MEMORY_BYTES,
        read_only=True,
        tmpfs={"/tmp": f"size={_TEMPORARY_BYTES}"},  # noqa: S108 - in there, not here
        init=True,
        # What is printed is read as it comes; neither it nor a dump of memory goes to a disk.
        log_config=LogConfig(type=LogConfig.types.NONE),
        ulimits=[Ulimit(name="core", soft=0, hard=0)],
        mounts=list(mounts),
        device_requests=device_requests(info, image.gpus),
    )


def cpuset(cpus: Sequence[int], info: Mapping[str, Any]) -> str | None:
    """Return those of some CPUs that the daemon's machine has, as the kernel writes them.

    Where it has none of them a container runs on all; on which it may is looked at later.
    """
    here = [str(cpu) for cpu in sorted(set(cpus)) if cpu < info.get("NCPU", 0)]
    return ",".join(here) or None


def memory_bytes(limit_gib: float | None, info: Mapping[str, Any]) -> int:
    """Return the limit in bytes: what was asked for, else most of what the daemon has."""
    if limit_gib is not None:
        return int(limit_gib * _GIB)
    return int(info.get("MemTotal", 0) * _SHARE)


def environment() -> dict[str, str]:
    """Return the variables we set beside the image's own."""
    return {**container_environment(), "HOME": "/tmp"}  # noqa: S108 - in there, not here


def user_for(workspace: Path, info: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return user and group of a worker: ours, else the workspace's, root only where that is us.

    Args:
        workspace: a file or folder of the user's.
        info: the daemon's `info`: a daemon without root runs us as its own root.

    Returns:
        None where users have no numbers.
    """
    if sys.platform == "win32":
        return None
    if _has(info, "rootless"):
        return 0, 0
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    owner = workspace.stat()
    return (owner.st_uid, owner.st_gid) if owner.st_uid else (_NOBODY, _NOBODY)


def may_bind(info: Mapping[str, Any]) -> bool:
    """Whether users inside are the users outside, so that files can be shared at all."""
    return not _has(info, "userns")


def _has(info: Mapping[str, Any], option: str) -> bool:
    return any(f"name={option}" in said for said in info.get("SecurityOptions") or ())
