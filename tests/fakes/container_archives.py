"""The files of a container in memory, put and taken as tar streams."""

import io
import posixpath
import tarfile
from collections.abc import Iterable


class ContainerArchives:
    """Implements `Archives` of `ci_parity.run.container.shared` for one container.

    `files` maps the full names of files to their bytes; `puts` counts what was sent.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: dict[str, tuple[int, int]] = {}
        self.puts = 0

    def put_archive(self, container: str, path: str, data: bytes | Iterable[bytes], /) -> bool:
        """Unpack a tar stream."""
        assert container == "container"
        self.puts += 1
        whole = data if isinstance(data, bytes) else b"".join(data)
        with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
            for member in archive:
                name = posixpath.join(path, member.name)
                if member.isdir():
                    self.folders[name] = member.uid, member.gid
                    continue
                content = archive.extractfile(member)
                assert content is not None
                self.files[name] = content.read()
        return True

    def get_archive(self, container: str, path: str, /) -> tuple[Iterable[bytes], None]:
        """Pack the files below a folder, under the folder's own name."""
        assert container == "container"
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, data in self.files.items():
                if name.startswith(f"{path}/"):
                    below = posixpath.relpath(name, path)
                    head = tarfile.TarInfo(posixpath.join(posixpath.basename(path), below))
                    head.size = len(data)
                    archive.addfile(head, io.BytesIO(data))
        return iter([out.getvalue()]), None
