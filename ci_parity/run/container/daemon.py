"""The way to the Docker daemon: a client that negotiates its version, and errors with remedies.

The daemon is the one that `DOCKER_HOST` names, else the one behind the standard socket; contexts of
the docker CLI are not consulted. A worker's streams need a plain socket: no TLS, no SSH.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ci_parity.base.errors import InfrastructureError
from ci_parity.run.container.attach import open_socket
from ci_parity.run.container.remedies import remedy_for

if TYPE_CHECKING:
    from docker.api.client import APIClient

_STANDARD = "unix:///var/run/docker.sock"
_TRANSPORTS = ("unix://", "tcp://")
_PING_TIMEOUT_S = 5.0
_MAX_WORDS = 2000


def connect() -> "APIClient":
    """Return a client of the daemon, which the caller closes.

    Raises:
        InfrastructureError: no daemon answers, or we may not speak to it.
    """
    address = daemon_address()
    if not address.startswith(_TRANSPORTS):
        raise InfrastructureError(
            "workers in containers cannot be reached this way",
            where=f"DOCKER_HOST={address}",
            remedy=f"give an address that begins with {' or '.join(_TRANSPORTS)}",
        )
    _knock(address)
    import docker

    with failing("the Docker daemon cannot be used", where=address):
        return docker.APIClient(base_url=address, version="auto")


def daemon_address() -> str:
    """Return where the daemon is."""
    return os.environ.get("DOCKER_HOST") or _STANDARD


def answers() -> bool:
    """Whether anybody is there; docker-py leaks its sockets where nobody is."""
    try:
        open_socket(daemon_address(), timeout_s=_PING_TIMEOUT_S).close()
    except (OSError, ValueError):
        return False
    return True


@contextlib.contextmanager
def connected() -> Iterator["APIClient"]:
    """Yield a client of the daemon; raises as `connect` does."""
    with contextlib.closing(connect()) as api:
        yield api


@contextlib.contextmanager
def failing(what: str, *, where: str = "", remedy: str = "") -> Iterator[None]:
    """Turn an error of the daemon, or of the way to it, into ours, with its words and a remedy.

    Raises:
        InfrastructureError: the daemon refused, or does not answer any more.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException, OSError) as error:
        words = words_of(error)
        raise InfrastructureError(
            f"{what}: {words}", where=where, remedy=remedy_for(words) or remedy
        ) from error


def words_of(error: Exception) -> str:
    """Return the daemon's own words in an error."""
    return str(getattr(error, "explanation", None) or error).strip()[:_MAX_WORDS]


def _knock(address: str) -> None:
    """Ask at the socket: docker-py would say less."""
    try:
        open_socket(address, timeout_s=_PING_TIMEOUT_S).close()
    except PermissionError as error:
        raise InfrastructureError(
            "no permission to speak to the Docker daemon",
            where=address,
            remedy="add the user to the group `docker`, or run as root",
        ) from error
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"no Docker daemon answers: {getattr(error, 'strerror', None) or error}",
            where=address,
            remedy="start Docker on the runner, mount its socket, or name another daemon in "
            "DOCKER_HOST; targets without an image need none",
        ) from error
