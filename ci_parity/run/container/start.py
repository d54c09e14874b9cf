"""A worker's container from an image: created, proved to see our files, attached to, started.

1. What has a name on the daemon's machine and is readable inside is bound.
2. The daemon is asked what it sees there: whatever is not the very file is not bound after all.
3. The rest is copied into a volume of the container's own.
4. We attach before we start, so that no byte is lost.
"""

import base64
import json
import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.run.container import own, owners
from ci_parity.run.container.channel import ContainerChannel, discard
from ci_parity.run.container.daemon import connect, failing
from ci_parity.run.container.files import EXCHANGE, ROOT, Files, Part, parts_of
from ci_parity.run.container.images import Image
from ci_parity.run.container.limits import environment, host_config, may_bind, user_for
from ci_parity.run.container.shared import Shared
from ci_parity.run.container.streams import started

if TYPE_CHECKING:
    from docker.api.client import APIClient

# How daemons say that they do not have, or may not show, what is to be bound.
_NO_SOURCE = re.compile(r"invalid mount config|bind source path|mounts denied", re.IGNORECASE)
# Where a worker starts whose exchange folder is not bound: the one place that is always there.
_ELSEWHERE = "/tmp"  # noqa: S108 - in there, not here
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start(
    image: Image, argv: Sequence[str], files: Files, further: Iterable[Part] = ()
) -> ContainerChannel:
    """Start a worker in a container of its own.

    Args:
        image: what to start.
        argv: the program and its arguments, as the image knows them.
        files: what the worker works on.
        further: what else it sees.

    Raises:
        InfrastructureError: the daemon cannot, with its words and what helps.
    """
    api = connect()
    try:
        return _start(api, image, argv, (*parts_of(files), *further), files)
    except BaseException:
        api.close()
        raise


def _start(
    api: "APIClient", image: Image, argv: Sequence[str], parts: Sequence[Part], files: Files
) -> ContainerChannel:
    with failing("the Docker daemon does not answer"):
        info = api.info()
    model = files.model
    user = user_for(model if model is not None and model.exists() else files.exchange, info)
    if user is not None and os.geteuid() == 0:
        os.chown(files.exchange, *user)
    draft = _Draft(
        api=api, image=image, argv=tuple(argv), info=info, user=user, place=own.place(api)
    )
    with failing(f"cannot start {image.label}", where=" ".join(argv)):
        container, bound = _created(draft, draft.sources(parts))
        with _discarded_on_error(api, container):
            shared = Shared(api, container, parts, bound, user or (0, 0))
            streams = started(api, container)
    return ContainerChannel(api, container, streams, shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A container before it is created; only what it is bound to is still open."""

    api: "APIClient"
    image: Image
    argv: tuple[str, ...]
    info: Mapping[str, Any]
    user: tuple[int, int] | None
    place: own.Place

    def sources(self, parts: Sequence[Part]) -> dict[Part, str]:
        """Return what may be bound, with the daemon's names."""
        if not may_bind(self.info):
            return {}
        named = {part: self.place.on_daemon(part.path) for part in parts if not part.ours}
        return {
            part: source
            for part, source in named.items()
            if source is not None
            and (part.writable or self.user is None or part.readable_by(*self.user))
        }

    def create(self, sources: Mapping[Part, str]) -> str:
        """Create the container; return its name."""
        from docker.types import Mount

        name = owners.new_name()
        mounts = [
            Mount(part.inside, source, type="bind", read_only=not part.writable)
            for part, source in sources.items()
        ]
        with _discarded_on_error(self.api, name):
            self.api.create_container(
                self.image.id,
                name=name,
                entrypoint=list(self.argv[:1]),
                command=list(self.argv[1:]),
                environment=environment(),
                user=":".join(map(str, self.user)) if self.user else None,
                working_dir=EXCHANGE if any(part.writable for part in sources) else _ELSEWHERE,
                stdin_open=True,
                volumes=[ROOT],
                labels=owners.labels(self.place),
                healthcheck={"test": ["NONE"]},
                host_config=host_config(self.image, self.info, mounts),
            )
        return name


@contextmanager
def _discarded_on_error(api: "APIClient", container: str) -> Iterator[None]:
    """Remove a container if what is done with it fails, or is interrupted."""
    try:
        yield
    except BaseException:
        discard(api, container)
        raise


def _created(draft: _Draft, sources: Mapping[Part, str]) -> tuple[str, Collection[Part]]:
    """Create a container; return it with what is bound in it, proved."""
    from docker.errors import APIError

    try:
        container = draft.create(sources)
    except APIError as error:
        if not sources or not _NO_SOURCE.search(str(error)):
            raise
        return draft.create({}), ()
    with _discarded_on_error(draft.api, container):
        proved = {part: s for part, s in sources.items() if _sees(draft.api, container, part)}
    if len(proved) == len(sources):
        return container, tuple(proved)
    discard(draft.api, container)
    return draft.create(proved), tuple(proved)


def _sees(api: "APIClient", container: str, part: Part) -> bool:
    """Whether a part inside is the part here: a file of ours is there, of its size and time.

    In a folder that the worker writes to the file is a new one, under a name nobody can know.
    """
    with _witness(part) as witness:
        if witness is None:
            return False
        file, inside = witness
        status = file.stat()
        seen = _stat(api, container, inside)
    return seen == (status.st_size, status.st_mtime_ns // 1000)


@contextmanager
def _witness(part: Part) -> Iterator[tuple[Path, str] | None]:
    if not part.writable:
        yield next(part.files(), None)
        return
    name = f".ci-parity-{secrets.token_hex(16)}"
    file = part.path / name
    file.write_bytes(secrets.token_bytes(16))
    try:
        yield file, f"{part.inside}/{name}"
    finally:
        file.unlink()


def _stat(api: "APIClient", container: str, inside: str) -> tuple[int, int] | None:
    """Return size and time of change in microseconds of a file inside, None where there is none.

    docker-py asks for the content too; HEAD does not (Docker Engine API, "Get information about
    files in a container").
    """
    address = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
    response = api.head(address, params={"path": inside}, timeout=api.timeout)
    if not response.ok:
        return None
    seen = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
    changed = datetime.fromisoformat(seen["mtime"]) - _EPOCH
    return seen["size"], changed // timedelta(microseconds=1)
