import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.run.container.archive import MAX_FETCHED_BYTES, folder_packed, packed, sweep, unpack
from ci_parity.run.container.files import Part


def pieces(data: bytes, size: int = 700) -> Iterator[bytes]:
    """Yield bytes in pieces that fit no block."""
    yield from (data[at : at + size] for at in range(0, len(data), size))


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return the head of an entry."""
    head = tarfile.TarInfo(name)
    head.type, head.linkname = kind, link
    return head


def test_files_are_packed_for_anyone_to_read_and_none_to_change(tmp_path: Path) -> None:
    """With their folders, under their names inside; what lies deeper or is a link stays out."""
    (tmp_path / "a.bin").write_bytes(b"x" * 5000)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "b.bin").touch()
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "a.bin").chmod(0o600)
    data = b"".join(packed([Part(path=tmp_path, inside="/ci-parity/inputs")]))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        heads = {head.name: head for head in tar}
        assert list(heads) == ["inputs", "inputs/a.bin"]
        assert (heads["inputs/a.bin"].mode, heads["inputs/a.bin"].uid) == (0o444, 0)
        assert heads["inputs"].isdir()
        content = tar.extractfile("inputs/a.bin")
        assert content is not None
        assert content.read() == b"x" * 5000


def test_a_folder_belongs_to_who_writes_there() -> None:
    """Which is not root."""
    data = folder_packed("/ci-parity/written/1", (1001, 121))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        (head,) = tar
    assert (head.name, head.isdir(), head.uid, head.gid) == ("written/1", True, 1001, 121)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """Half an archive would be taken for the whole."""
    with pytest.raises(InfrastructureError, match="cannot copy a file"):
        list(packed([Part(path=tmp_path / "gone", inside="/ci-parity/model/gone")]))


def test_only_plain_files_come_out(tmp_path: Path) -> None:
    """Whatever a worker puts into its folder, nothing of it lands elsewhere or leads elsewhere."""
    data = archive(
        (member("1", tarfile.DIRTYPE), b""),
        (member("1/fine.bin"), b"y" * 3000),
        (member("1/link.bin", tarfile.SYMTYPE, "/etc/hostname"), b""),
        (member("1/hard.bin", tarfile.LNKTYPE, "1/fine.bin"), b""),
        (member("1/pipe.bin", tarfile.FIFOTYPE), b""),
        (member("1/../escaped.bin"), b"z"),
        (member("1/.."), b"z"),
        (member("1/deeper/x.bin"), b"z"),
        (member("/absolute.bin"), b"z"),
        (member("1/last.bin"), b""),
    )
    folder = tmp_path / "exchange"
    folder.mkdir()
    unpack(pieces(data), folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "absolute.bin",
        "fine.bin",
        "last.bin",
    ]
    assert (folder / "fine.bin").read_bytes() == b"y" * 3000
    assert list(tmp_path.iterdir()) == [folder]


def test_a_link_in_our_folder_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    """Else a file elsewhere could be overwritten."""
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    folder = tmp_path / "exchange"
    folder.mkdir()
    (folder / "x.bin").symlink_to(target)
    unpack(pieces(archive((member("1/x.bin"), b"new"))), folder)
    assert target.read_bytes() == b"kept"
    assert (folder / "x.bin").read_bytes() == b"new"


def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    """Before a byte of it is written."""
    head = member("1/huge.bin")
    head.size = MAX_FETCHED_BYTES + 1
    with pytest.raises(InfrastructureError, match="more than can be fetched"):
        unpack(pieces(head.tobuf()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_stream_is_an_error(tmp_path: Path) -> None:
    """What has arrived may be half a file."""
    data = archive((member("1/x.bin"), b"y" * 3000))
    with pytest.raises(InfrastructureError, match="cannot fetch"):
        unpack(pieces(data[:2000]), tmp_path)


def test_what_is_no_file_is_swept_out(tmp_path: Path) -> None:
    """Links, pipes and sockets; files and folders stay."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "to_folder").symlink_to("/etc")
    (tmp_path / "nowhere").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
