"""The channel to a worker in a container: its streams, how it ended, its removal."""

import logging
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ci_parity.run.channel import ending_words
from ci_parity.run.container.daemon import answers, words_of
from ci_parity.run.container.shared import Shared
from ci_parity.run.container.streams import Streams

if TYPE_CHECKING:
    from docker.api.client import APIClient

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.05
# A process that a signal ended gives its container this status plus the signal's number.
_SIGNALLED = 128


class ContainerChannel:
    """A worker in a container that has been started; it owns all three of its arguments.

    The container is removed by `kill`, else when the channel is dropped or the program ends.
    """

    def __init__(
        self, api: "APIClient", container: str, streams: Streams, shared: Shared
    ) -> None:  # fmt: skip
        self._api = api
        self._container = container
        self._streams = streams
        self._shared = shared
        self._discard = weakref.finalize(self, discard, api, container)

    @property
    def stdin(self) -> IO[bytes]:
        """Where requests go."""
        return self._streams.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """Where answers come from."""
        return self._streams.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Where everything else that it prints comes from."""
        return self._streams.stderr

    @property
    def pid(self) -> int | None:
        """None: what it is called outside its container is the daemon's affair."""
        return None

    def named(self, path: Path, *, written: bool) -> str:
        """Return the name inside; raises as `Shared.named` does."""
        return self._shared.named(path, written=written)

    def settle(self) -> None:
        """Fetch what was written; raises as `Shared.settle` does."""
        self._shared.settle()

    def ending(self, timeout_s: float) -> str | None:
        """Return how the container ended, None while it runs."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        deadline = time.monotonic() + timeout_s
        while True:
            if not answers():
                return "was lost: the Docker daemon does not answer"
            try:
                inspected = self._api.inspect_container(self._container)
            except (DockerException, RequestException) as error:
                return f"was lost: the Docker daemon does not answer ({words_of(error)})"
            if not inspected["State"]["Running"]:
                return state_words(inspected)
            if time.monotonic() > deadline:
                return None
            time.sleep(_LOOK_EVERY_S)

    def kill(self) -> None:
        """End and remove the container."""
        self._streams.shut()
        self._discard()
        self._shared.sweep()
        self._api.close()


def state_words(inspected: Mapping[str, Any]) -> str:
    """Return in words how a container ended, from what the daemon says of it."""
    state, limit = inspected["State"], inspected["HostConfig"]["Memory"]
    if state["OOMKilled"]:
        allowed = f": its container may use {limit / 1024**3:.3g} GiB" if limit else ""
        return f"ran out of memory{allowed}, and was ended"
    code = state["ExitCode"]
    return ending_words(_SIGNALLED - code if code > _SIGNALLED else code)


def discard(api: "APIClient", container: str) -> None:
    """Remove a container and its volume, running or not; trouble is left to the next run."""
    from docker.errors import DockerException, NotFound
    from requests.exceptions import RequestException

    if not answers():
        logger.warning("cannot remove container %s: no Docker daemon answers", container[:12])
        return
    try:
        api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except (DockerException, RequestException) as error:
        logger.warning("cannot remove container %s: %s", container[:12], words_of(error))
