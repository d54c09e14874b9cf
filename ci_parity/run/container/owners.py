"""Whose a container is: labels that say who started it, and whether that one still lives.

A run that is killed outright cannot clean up; the next one on the machine does it (`reap`).
"""

import logging
import os
import secrets
import socket
import time
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.run.container.daemon import words_of
from ci_parity.run.container.own import Place

if TYPE_CHECKING:
    from docker.api.client import APIClient

logger = logging.getLogger(__name__)

RUN = "ci-parity.run"
OWNER = "ci-parity.owner"
# As long as a job on GitHub's runners may take: the life of an owner that we cannot ask after.
_LONGEST_JOB_S = 5 * 24 * 3600
_IN_CONTAINER = "container"
_PROCESS = "process"


def labels(place: Place) -> dict[str, str]:
    """Return the labels of every container that this process starts from a place."""
    return {**place.labels, RUN: _run(), OWNER: owner(place)}


def new_name() -> str:
    """Return a name for a container, which we give: an answer that tells one can be lost."""
    return f"ci-parity-{secrets.token_hex(16)}"


def owner(place: Place) -> str:
    """Return who we are: our container, else this process on this start of the machine."""
    if place.container:
        return f"{_IN_CONTAINER} {place.container}"
    return f"{_PROCESS} {_machine()} {os.getpid()} {_started(os.getpid())}"


def reap(api: "APIClient") -> None:
    """Remove what earlier runs left, created containers too, with their volumes.

    Trouble is a warning: whatever is left takes space, and no result depends on it.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        found = api.containers(all=True, filters={"label": OWNER})
        for container in found:
            if not _lives(api, container):
                logger.info("removing container %s of a run that is gone", container["Id"][:12])
                api.remove_container(container["Id"], force=True, v=True)
    except (DockerException, RequestException) as error:
        logger.warning("cannot remove containers of earlier runs: %s", words_of(error))


def _lives(api: "APIClient", container: Mapping[str, Any]) -> bool:
    from docker.errors import NotFound

    said = container["Labels"][OWNER]
    kind, _, name = said.partition(" ")
    if kind == _IN_CONTAINER:
        try:
            return bool(api.inspect_container(name)["State"]["Running"])
        except NotFound:
            return False
    return process_lives(said, age_s=time.time() - container["Created"])


def process_lives(said: str, *, age_s: float) -> bool:
    """Whether the process that an owner label names may still run.

    Args:
        said: the label.
        age_s: seconds since its container was made, which decides about other machines.
    """
    words = said.split(" ")
    if len(words) != 4 or words[:2] != [_PROCESS, _machine()] or not words[2].isdecimal():
        return age_s < _LONGEST_JOB_S
    started = _started(int(words[2]))
    return started == words[3] and started != ""


@cache
def _run() -> str:
    return uuid.uuid4().hex


@cache
def _machine() -> str:
    """Return what two processes that can see each other share, and no others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{boot}/{namespace}"


def _started(process: int) -> str:
    """Return when a process started, in ticks since the machine did; empty where none is known."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The second field, the name, may hold blanks and brackets.
    return status.rpartition(")")[2].split()[19]
