import os
from pathlib import Path

import pytest

from ci_parity.base.files import hand_over, write_atomic

NEEDS_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can give files away: run the tests as root, in a container",
)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The old bytes are gone, longer as they were."""
    path = tmp_path / "report.json"
    write_atomic(path, b"a long first text")
    write_atomic(path, b"short")
    assert path.read_bytes() == b"short"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made(tmp_path: Path) -> None:
    """A report folder need not exist."""
    write_atomic(tmp_path / "a" / "b" / "c.txt", b"x")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"x"


def test_everybody_may_read_the_file(tmp_path: Path) -> None:
    """The runner's user is not the container's."""
    write_atomic(tmp_path / "x", b"")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    """A link planted in a report folder leads nowhere."""
    (tmp_path / "secret").write_bytes(b"untouched")
    (tmp_path / "x").symlink_to(tmp_path / "secret")
    write_atomic(tmp_path / "x", b"new")
    assert (tmp_path / "secret").read_bytes() == b"untouched"
    assert not (tmp_path / "x").is_symlink()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a half file nor a temporary one."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path / "taken", b"x")
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]
    assert list((tmp_path / "taken").iterdir()) == []


@NEEDS_ROOT
def test_all_below_is_handed_over(tmp_path: Path) -> None:
    """Folders, files and links themselves get the owner of the workspace."""
    workspace, report, outside = (tmp_path / name for name in ("workspace", "report", "outside"))
    workspace.mkdir()
    os.chown(workspace, 1234, 1235)
    outside.write_bytes(b"")
    (report / "deep").mkdir(parents=True)
    (report / "deep" / "file").write_bytes(b"")
    (report / "link").symlink_to(outside)
    hand_over(report, owner_of=workspace)
    handed = (report, report / "deep", report / "deep" / "file", report / "link")
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in handed} == {(1234, 1235)}
    assert outside.stat().st_uid == 0


def test_what_does_not_exist_is_not_handed_over(tmp_path: Path) -> None:
    """A run that wrote no report ends in peace."""
    hand_over(tmp_path / "absent", owner_of=tmp_path)
    assert not (tmp_path / "absent").exists()


@NEEDS_ROOT
def test_who_is_not_root_hands_nothing_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a laptop files belong to whom they should."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    os.chown(workspace, 1234, 1235)
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    hand_over(tmp_path / "file", owner_of=workspace)
    assert (tmp_path / "file").stat().st_uid == 0
