"""The program of our own container once more, in a container that has what ours could not be given.

A step of a workflow says nothing of volumes and devices: the runner starts an action's container
with none, so what it caches is gone with it, and it sees no GPU. What it may do is ask the daemon
for a second container, equal to itself but for these. The outer one passes on what the inner one
prints, how it ends, and interrupts.
"""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ci_parity.base.errors import InfrastructureError
from ci_parity.run.container import own, owners
from ci_parity.run.container.channel import discard
from ci_parity.run.container.daemon import answers, connect, failing
from ci_parity.run.container.streams import started

if TYPE_CHECKING:
    from docker.api.client import APIClient

logger = logging.getLogger(__name__)

VOLUME_LABEL = "ci-parity.cache"
_PIECE_BYTES = 64 * 1024
# What of a container its successor must have too, of what the daemon says of it.
_CONFIG = ("Cmd", "Entrypoint", "Labels", "User", "WorkingDir")
# What a job's container may have been given for our sake.
_DEVICES = ("DeviceRequests", "Devices", "DeviceCgroupRules", "GroupAdd", "Runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the second container is to have.

    Args:
        volume: the name of the volume for what is cached; empty for none.
        cache: where that goes.
        job: the container of the workflow's job, whose devices are wanted; empty for none.
    """

    volume: str = ""
    cache: Path = Path()
    job: str = ""


def run_again(wanted: Wanted, variables: Mapping[str, str]) -> int | None:
    """Run our own container's program in a container that has what is wanted.

    Args:
        wanted: what it is to have.
        variables: further ones for it; they must keep it from doing the same.

    Returns:
        Its exit status; None where nothing was run: there is no daemon or none that knows us, or
        our container has all of it already.

    Raises:
        InfrastructureError: the daemon was lost in the midst of it.
    """
    if not own.inside() or not answers():
        return None
    try:
        api = connect()
    except InfrastructureError as error:
        logger.warning("nothing is kept between runs: %s", error)
        return None
    container = owners.new_name()
    with closing(api):
        try:
            if not _created(api, container, wanted, variables):
                return None
            return _followed(api, container)
        finally:
            discard(api, container)


def _created(
    api: "APIClient", name: str, wanted: Wanted, variables: Mapping[str, str]
) -> bool:  # fmt: skip
    """Create the second container; false where there is no need, or no way, with a warning."""
    try:
        with failing("cannot look at the containers of this job"):
            ours = api.inspect_container(own.inside())
            job = api.inspect_container(wanted.job) if wanted.job else {}
        config = successor(ours, job, wanted, variables)
        if config is None:
            return False
        config["Labels"] = {**(config["Labels"] or {}), **owners.labels(own.place_of(ours))}
        owners.reap(api)
        with failing("cannot create a container like this one"):
            api.create_container_from_config(config, name)  # type: ignore[no-untyped-call]
    except InfrastructureError as error:
        logger.warning("nothing is kept between runs: %s", error)
        return False
    return True


def successor(
    ours: Mapping[str, Any], job: Mapping[str, Any], wanted: Wanted, variables: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return what the daemon is asked for: a container like ours with what is wanted.

    Args:
        ours: what the daemon says of our container.
        job: what it says of the job's container, empty for none.
        wanted: what is to be added.
        variables: further ones.

    Returns:
        The configuration, or None where our container has all of it.
    """
    own_config, host = ours["Config"], dict(ours["HostConfig"])
    environment = dict(pair.split("=", 1) for pair in own_config.get("Env") or () if "=" in pair)
    environment |= variables
    devices = _devices(host, job.get("HostConfig", {}))
    mounts = [] if _mounted(ours, wanted.cache) or not wanted.volume else [_volume(wanted)]
    if not devices and not mounts:
        return None
    host |= {
        **devices, "AutoRemove": False, "ContainerIDFile": "", "LogConfig": {"Type": "none"},
        "Mounts": [*(host.get("Mounts") or ()), *mounts],
    }  # fmt: skip
    return {
        **{key: own_config.get(key) for key in _CONFIG},
        "Image": ours["Image"],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "AttachStdout": True,
        "AttachStderr": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }


def _devices(host: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the devices of the job's container, where it has any and ours has none."""
    if any(host.get(key) for key in ("DeviceRequests", "Devices")):
        return {}
    if not any(job.get(key) for key in ("DeviceRequests", "Devices")):
        return {}
    return {key: job[key] for key in _DEVICES if job.get(key)}


def _mounted(ours: Mapping[str, Any], cache: Path) -> bool:
    """Whether the cache lies in a mount already, the user's own."""
    folders = {mount["Destination"] for mount in ours.get("Mounts") or ()}
    return any(str(folder) in folders for folder in (cache, *cache.parents))


def _volume(wanted: Wanted) -> dict[str, Any]:
    """Return the mount of the volume, which the daemon makes where it is missing."""
    return {
        "Type": "volume", "Source": wanted.volume, "Target": str(wanted.cache),
        "VolumeOptions": {"Labels": {VOLUME_LABEL: "true"}},
    }  # fmt: skip


def _followed(api: "APIClient", container: str) -> int:
    """Start a container, pass on what it prints and interrupts to it; return its exit status."""
    with failing("cannot start a container like this one"):
        streams = started(api, container)
    errors = threading.Thread(
        target=_passed_on, args=(streams.stderr, sys.stderr.buffer), daemon=True
    )
    errors.start()
    try:
        _passed_on(streams.stdout, sys.stdout.buffer)
    except KeyboardInterrupt:
        with failing("cannot interrupt our container"):
            api.kill(container, "SIGINT")
        _passed_on(streams.stdout, sys.stdout.buffer)
    errors.join()
    streams.close()
    with failing("the Docker daemon was lost in the midst of the run"):
        return int(api.wait(container)["StatusCode"])


def _passed_on(source: IO[bytes], sink: IO[bytes]) -> None:
    """Pass on bytes as they come, to the end."""
    while piece := os.read(source.fileno(), _PIECE_BYTES):
        sink.write(piece)
        sink.flush()
