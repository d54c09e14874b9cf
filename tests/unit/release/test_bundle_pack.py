"""What is packed is what was hashed, and the same files are the same bytes."""

import os
import tarfile
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError
from ci_parity.release.bundle.files import copied, part_of
from ci_parity.release.bundle.pack import pack
from ci_parity.release.bundle.verify import verify_bundle
from tests.unit.release.bundles import FACTS, FILES, bundle, deployment, packed

LARGE = bytes(range(256)) * 4096 * 9


def refused(root: Path, out: Path, files: dict[str, tuple[str, bytes]]) -> str:
    """Return why a bundle of these files is refused; nothing may be left of it."""
    out.parent.mkdir(exist_ok=True)
    with pytest.raises(EvidenceError) as caught:
        packed(root, out, files=files)
    assert list(out.parent.iterdir()) == []
    return str(caught.value)


def test_archive_and_folder_are_one_bundle(tmp_path: Path) -> None:
    """Both have the same files and the same digest."""
    archive, folder = bundle(tmp_path), packed(tmp_path / "root", tmp_path / "b")
    assert verify_bundle(archive).digest == verify_bundle(folder).digest
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    assert names == ["bundle.json", *sorted(FILES), "BUNDLE.md"]
    for name in names:
        with tarfile.open(archive) as opened:
            stream = opened.extractfile(name)
            assert stream is not None
            assert stream.read() == (folder / name).read_bytes()


def test_modes_owners_times_and_order_of_the_originals_do_not_matter(tmp_path: Path) -> None:
    """Only names and bytes go into an archive."""
    first = bundle(tmp_path).read_bytes()
    other = deployment(tmp_path / "other", dict(reversed(FILES.items())))
    for number, path in enumerate(sorted(other.rglob("*"))):
        path.chmod(0o700 if path.is_dir() or number % 2 else 0o400)
        os.utime(path, (1, 1_234_567_890 + number))
    before = os.umask(0o077)
    try:
        made = packed(other, tmp_path / "again.tar", files=dict(reversed(FILES.items())))
        folder = packed(other, tmp_path / "again")
    finally:
        os.umask(before)
    assert made.read_bytes() == first
    assert made.stat().st_mode & 0o777 == 0o644
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    assert modes == {True: 0o755, False: 0o644}


def test_large_files_arrive_in_pieces(tmp_path: Path) -> None:
    """In order, each once, and they make the digest that is returned."""
    (tmp_path / "w.bin").write_bytes(LARGE + b"rest")
    pieces = bytearray()
    digest = copied(part_of(tmp_path / "w.bin", tmp_path, "weights"), pieces.extend)
    assert bytes(pieces) == LARGE + b"rest"
    assert digest == sha256_bytes(LARGE + b"rest")


@pytest.mark.parametrize("size", [100, len(LARGE)])
@pytest.mark.parametrize("change", ["grow", "cut", "edit", "replace"])
def test_28_a_file_that_changes_while_it_is_copied_is_refused(
    tmp_path: Path, size: int, change: str
) -> None:
    """Whether its bytes, its size or the file itself is another one afterwards."""
    path = tmp_path / "w.bin"
    path.write_bytes(LARGE[:size])
    os.utime(path, ns=(1, 1))
    part = part_of(path, tmp_path, "weights")

    def disturb(_: object) -> None:
        if change == "grow":
            with path.open("ab") as stream:
                stream.write(b"more")
        elif change == "cut":
            os.truncate(path, size // 2)
        elif change == "edit":
            with path.open("r+b") as stream:
                stream.write(b"other")
        else:
            os.utime(path, ns=(2, 2))

    with pytest.raises(EvidenceError, match="changed while it was read"):
        copied(part, disturb)


def test_28_a_file_replaced_after_it_was_chosen_is_refused(tmp_path: Path) -> None:
    """An external file list belongs to the graph that was opened, not to a later one."""
    root = deployment(tmp_path / "root")
    parts = [part_of(root / name, root, role) for name, (role, _) in FILES.items()]
    other = tmp_path / "other"
    other.write_bytes(FILES["models/reader.onnx"][1])
    other.replace(root / "models/reader.onnx")
    with pytest.raises(EvidenceError, match="changed while it was read"):
        pack(FACTS, parts, tmp_path / "out" / "b.tar")
    assert list((tmp_path / "out").iterdir()) == []


def test_2_3_links_are_refused_at_pack(tmp_path: Path) -> None:
    """At the end of a path and on the way."""
    root = deployment(tmp_path / "root")
    (root / "models/weights0.bin").unlink()
    (root / "models/weights0.bin").symlink_to("weights1.bin")
    assert "symbolic link" in refused(root, tmp_path / "out" / "b.tar", FILES)
    (root / "models").rename(root / "real")
    (root / "models").symlink_to("real")
    assert "symbolic link" in refused(root, tmp_path / "out" / "b", FILES)


def test_4_a_hard_link_is_copied_privately(tmp_path: Path) -> None:
    """What is packed has no second name, whatever the original has."""
    root = deployment(tmp_path / "root")
    os.link(root / "models/weights0.bin", tmp_path / "other-name")
    made = packed(root, tmp_path / "b")
    assert (made / "models/weights0.bin").stat().st_nlink == 1
    assert verify_bundle(made).whole


def test_5_pipes_and_folders_are_refused_at_pack(tmp_path: Path) -> None:
    """Without waiting for who will never write."""
    root = deployment(tmp_path / "root")
    (root / "models/weights0.bin").unlink()
    os.mkfifo(root / "models/weights0.bin")
    assert "not a regular file" in refused(root, tmp_path / "out" / "b.tar", FILES)
    (root / "models/weights0.bin").unlink()
    (root / "models/weights0.bin").mkdir()
    refused(root, tmp_path / "out" / "b.tar", FILES)


def test_14_a_missing_file_is_refused_at_pack(tmp_path: Path) -> None:
    """What is listed is there."""
    root = deployment(tmp_path / "root")
    (root / "models/weights0.bin").unlink()
    assert "No such file" in refused(root, tmp_path / "out" / "b.tar", FILES)


@pytest.mark.parametrize(
    ("one", "other"), [("Model.bin", "model.bin"), ("é/x", "É/x"), ("straße", "strasse")]
)
def test_15_names_that_differ_by_case_are_refused_at_pack(
    tmp_path: Path, one: str, other: str
) -> None:
    """One would overwrite the other somewhere."""
    files = {**FILES, one: ("weights", b"1"), other: ("weights", b"2")}
    root = deployment(tmp_path / "root", files)
    assert "cannot tell apart" in refused(root, tmp_path / "out" / "b.tar", files)


@pytest.mark.parametrize(
    "name", ["mode\u0301le.bin", "new\nline", "aux.bin", "a\\b", "x.", "bundle.json", "BUNDLE.MD"]
)
def test_15_names_that_machines_read_differently_are_refused_at_pack(
    tmp_path: Path, name: str
) -> None:
    """Decomposed letters, line breaks, devices, separators, and a bundle's own names."""
    files = {**FILES, name: ("weights", b"1")}
    root = deployment(tmp_path / "root", files)
    assert "a bundle path" in refused(root, tmp_path / "out" / "b.tar", files)


@pytest.mark.parametrize("name", ["b.tar", "b"])
def test_nothing_is_written_over_something(tmp_path: Path, name: str) -> None:
    """An earlier bundle, or anything else, stays as it is."""
    bundle(tmp_path, name)
    before = verify_bundle(tmp_path / name).digest
    with pytest.raises(ConfigError, match="something already"):
        packed(tmp_path / "root", tmp_path / name)
    assert verify_bundle(tmp_path / name).digest == before


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    """It is the disk's fault, not that of the file being packed."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full, which Linux has")
    from ci_parity.release.bundle.pack import writer

    root = deployment(tmp_path / "root")
    part = part_of(root / "models/weights0.bin", root, "weights")
    with (
        full.open("wb", buffering=0) as stream,
        pytest.raises(InfrastructureError, match="No space left"),
    ):
        copied(part, writer(stream.write, full))


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file where a folder should be."""
    (tmp_path / "file").touch()
    deployment(tmp_path / "root")
    with pytest.raises(InfrastructureError, match="cannot write the bundle"):
        packed(tmp_path / "root", tmp_path / "file" / "b.tar")
