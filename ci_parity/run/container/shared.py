"""The names inside a container of files of ours: bound where that was proved, copied elsewhere.

What is bound is the same file. What is copied is brought up to date when a request names it, and
what a request wrote is fetched when it has been answered, so that results do not depend on the way.
A file that no one announced is copied when it is first named.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Protocol

from ci_parity.run.container.archive import folder_packed, packed, sweep, unpack
from ci_parity.run.container.daemon import failing
from ci_parity.run.container.files import ROOT, Part, model_parts

_State = tuple[int, int, int]


class Archives(Protocol):
    """The two calls of a Docker daemon that files travel by, as docker-py has them."""

    def put_archive(self, container: str, path: str, data: bytes | Iterable[bytes], /) -> bool:
        """Unpack a tar stream in a folder of a container."""
        ...

    def get_archive(self, container: str, path: str, /) -> tuple[Iterable[bytes], Any]:
        """Return a folder of a container as a tar stream, with what is known of it."""
        ...


class Shared:
    """What a container sees of ours.

    Args:
        api: the daemon.
        container: has been created.
        parts: what was announced; those that are not in `bound` are copied now.
        bound: what the container was created with.
        user: who writes inside.

    Raises:
        InfrastructureError: a file cannot be copied.
    """

    def __init__(
        self, api: Archives, container: str, parts: Iterable[Part], bound: Collection[Part],
        user: tuple[int, int],
    ) -> None:  # fmt: skip
        self._api = api
        self._container = container
        self._user = user
        self._bound = {part: _state(part.path) for part in bound}
        self._copies: dict[Path, tuple[Part, ...]] = {
            part.path: (part,) for part in parts if part not in bound and not part.writable
        }
        self._inside: dict[Path, _State] = {}
        self._count = 0
        self._written: tuple[str, Path] | None = None
        self._update(part for copies in self._copies.values() for part in copies)

    def named(self, path: Path, *, written: bool) -> str:
        """Return the name of a file or folder inside, up to date.

        Args:
            path: of ours.
            written: whether the worker is to write there.

        Raises:
            InfrastructureError: it cannot be copied.
        """
        path = path.resolve()
        return self._bound_name(path) or (self._fresh(path) if written else self._copied(path))

    def settle(self) -> None:
        """Fetch what the last request wrote, where that folder is not bound; links are left out.

        Raises:
            InfrastructureError: it cannot be fetched, or is too much.
        """
        self.sweep()
        if self._written is None:
            return
        inside, path = self._written
        self._written = None
        with failing("cannot fetch what the worker wrote", where=inside):
            pieces, _ = self._api.get_archive(self._container, inside)
            unpack(pieces, path)

    def sweep(self) -> None:
        """Leave nothing but folders and regular files where the worker could write."""
        for part in self._bound:
            if part.writable:
                sweep(part.path)

    def _bound_name(self, path: Path) -> str:
        """Return the name of a path that is bound, empty for none or another file of that name."""
        for part, state in self._bound.items():
            if part.path == path and (path.is_dir() or _state(path) == state):
                return part.inside
            if path.is_relative_to(part.path) and part.path.is_dir() and path != part.path:
                return f"{part.inside}/{path.relative_to(part.path).as_posix()}"
        return ""

    def _fresh(self, path: Path) -> str:
        """Make a folder for what one request writes."""
        inside = f"{ROOT}/written/{self._number()}"
        self._put(folder_packed(inside, self._user))
        self._written = inside, path
        return inside

    def _copied(self, path: Path) -> str:
        if path not in self._copies:
            inside = f"{ROOT}/more/{self._number()}"
            folder = (Part(path=path, inside=inside),)
            self._copies[path] = folder if path.is_dir() else tuple(model_parts(path, inside))
        copies = self._copies[path]
        self._update(copies)
        # A file that is missing here is missing there, under a name that says which.
        return copies[0].inside if copies else f"{ROOT}/missing/{path.name}"

    def _update(self, parts: Iterable[Part]) -> None:
        """Copy the files that are not inside yet, or no longer what is."""
        changed = []
        for part in parts:
            for file, inside in part.files():
                state = _state(file)
                if self._inside.get(file) != state:
                    self._inside[file] = state
                    changed.append(Part(path=file, inside=inside))
        if changed:
            self._put(packed(changed))

    def _put(self, archive: bytes | Iterable[bytes]) -> None:
        with failing("cannot copy files into the container"):
            self._api.put_archive(self._container, ROOT, archive)

    def _number(self) -> int:
        self._count += 1
        return self._count


def _state(path: Path) -> _State:
    """Return what tells a file from a later one of its name; nothing of a missing one."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns
