"""A bundle's digest binds names, sizes, contents and roles, and its names mean one thing."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.bundle import FileDigest
from ci_parity.release.bundle.files import describe, part_of
from ci_parity.release.bundle.manifest import (
    BundleCase,
    BundleFacts,
    BundleFixtures,
    BundleTarget,
    BundleVariant,
    bundle_digest,
    read_manifest,
)
from ci_parity.release.bundle.manifest import bundle_manifest as manifest_of
from tests.unit.release.samples import digest

FACTS = BundleFacts(
    deployment="reader",
    config="",
    variants=(),
    targets=(
        BundleTarget(
            name="cpu", runtime="onnxruntime==1.32.0", provider="CPUExecutionProvider",
            options='{"provider":{},"session":{}}',
        ),
    ),
    fixtures=BundleFixtures(folder="cases", cases=(BundleCase(name="one", classes=("typical",)),)),
    policy='{"tolerance":"calibrated"}',
    validate=("ci-parity", "bundle", "validate", "."),
)  # fmt: skip


def bundle_manifest(files: Sequence[FileDigest], facts: BundleFacts = FACTS) -> bytes:
    """Return the manifest of these files."""
    return manifest_of(facts, files)


def describe_file(path: Path, root: Path, role: str, sha256: str = "") -> FileDigest:
    """Choose a file and return its entry."""
    return describe(part_of(path, root, role, sha256))


def file(path: str = "model.onnx", word: str = "graph", role: str = "graph") -> FileDigest:
    """Return one file of a bundle."""
    return FileDigest(path=path, size_bytes=len(word), sha256=digest(word), role=role)


def refused(*files: FileDigest) -> str:
    """Return why a bundle of these files is refused."""
    with pytest.raises(EvidenceError) as caught:
        bundle_manifest(files)
    return caught.value.what


def test_the_manifest_spelled_out() -> None:
    """Canonical JSON, files in the order of their paths."""
    manifest = bundle_manifest([file("b/w.bin", "w", "weights"), file("a.onnx", "g")])
    a, b = digest("g"), digest("w")
    assert manifest.decode() == (
        '{"config":"","deployment":"reader",'
        f'"files":[{{"path":"a.onnx","role":"graph","sha256":"{a}","size":1}},'
        f'{{"path":"b/w.bin","role":"weights","sha256":"{b}","size":1}}],'
        '"fixtures":{"cases":[{"classes":["typical"],"name":"one"}],"folder":"cases",'
        '"license":"","provenance":"{}"},'
        r'"policy":"{\"tolerance\":\"calibrated\"}","schema":"ci-parity/bundle/v2",'
        r'"targets":[{"image":"","name":"cpu","options":"{\"provider\":{},\"session\":{}}",'
        '"provider":"CPUExecutionProvider","runtime":"onnxruntime==1.32.0"}],'
        '"validate":["ci-parity","bundle","validate","."],"variants":[]}'
    )
    assert bundle_digest(manifest) == sha256_bytes(manifest)


@given(st.permutations([file("a", "1"), file("b", "2"), file("Z/c", "3"), file("ä", "4")]))
def test_the_order_of_files_does_not_matter(files: list[FileDigest]) -> None:
    """The same files are the same bundle."""
    assert [item["path"] for item in json.loads(bundle_manifest(files))["files"]] == [
        "Z/c", "a", "b", "ä",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"path": "other.onnx"}, {"size_bytes": 6}, {"sha256": digest("x")}, {"role": "weights"}],
)
def test_every_fact_of_a_file_is_bound(change: dict[str, object]) -> None:
    """Renaming, truncating, replacing and reassigning a file each make another bundle."""
    before = bundle_manifest([file()])
    assert bundle_manifest([replace(file(), **change)]) != before  # type: ignore[arg-type]


def test_swapped_shards_are_another_bundle() -> None:
    """Two weights that trade names keep every digest and still change the bundle's."""
    first = bundle_manifest([file("w0", "a"), file("w1", "b")])
    assert bundle_digest(bundle_manifest([file("w0", "b"), file("w1", "a")])) != bundle_digest(
        first
    )


def test_refuses_a_bundle_without_files() -> None:
    """Nothing has no identity."""
    assert refused() == "a bundle without files"


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../model.onnx", "a/../../b", "a/..", "./a", "a/./b", "a//b", "a/", "."],
)
def test_refuses_paths_that_are_not_plain(path: str) -> None:
    """A path has one spelling and stays below its root."""
    assert "not relative and plain" in refused(file(path))


@pytest.mark.parametrize("path", ["a\\b", "C:/a", "C:\\a", "a:stream", "what?", 'a"b', "a|b", "a*"])
def test_refuses_paths_that_some_systems_cannot_hold(path: str) -> None:
    """Backslashes and drives are separators elsewhere."""
    assert "holds one of the characters" in refused(file(path))


@pytest.mark.parametrize(
    "path", ["a\nb", "a\x00b", "\x7f", "\x85", "a\u202eb", "a\u200bb", "a\u2028b", "\ud800"]
)
def test_refuses_control_and_invisible_characters(path: str) -> None:
    """Two different names must not look the same."""
    assert "control or invisible" in refused(file(path))


def test_refuses_paths_out_of_normal_form() -> None:
    """A decomposed letter is the same name to some file systems only."""
    assert "normal form C" in refused(file("mode\u0301le.onnx"))
    bundle_manifest([file("mod\u00e9le.onnx")])


@pytest.mark.parametrize(
    "path", ["nul", "CON", "aux.onnx", "a/Prn.txt", "com1", "LPT9.bin", "COM¹", "nul .txt", "con/x"]
)
def test_refuses_reserved_device_names(path: str) -> None:
    """Opening one of these on Windows opens a device."""
    assert "device" in refused(file(path))


@pytest.mark.parametrize("path", ["console.onnx", "com10", "null", "auxiliary/w", ".nul"])
def test_accepts_names_that_only_resemble_devices(path: str) -> None:
    """Only the reserved words themselves are refused."""
    bundle_manifest([file(path)])


@pytest.mark.parametrize("path", ["a.", "a /b", "b/..."])
def test_refuses_endings_that_windows_drops(path: str) -> None:
    """`a.` and `a` would be one file there."""
    assert "ends in a blank or a dot" in refused(file(path))


@pytest.mark.parametrize(
    ("one", "other"), [("a", "a"), ("Model.onnx", "model.onnx"), ("straße", "STRASSE"), ("É", "é")]
)
def test_refuses_paths_equal_but_for_case(one: str, other: str) -> None:
    """On a file system blind to case, one would overwrite the other."""
    assert "cannot tell apart" in refused(file(one, "1"), file(other, "2"))


def test_refuses_a_file_that_is_also_a_folder() -> None:
    """No file system holds both."""
    assert "a file and a folder" in refused(file("weights"), file("Weights/w0"))


@pytest.mark.parametrize("bad", ["", "0" * 63, "A" * 64, "sha256:" + "0" * 64, "0" * 64 + "\n"])
def test_refuses_what_is_no_digest(bad: str) -> None:
    """Only 64 lowercase hexadecimal digits are a digest."""
    assert "64 lowercase" in refused(replace(file(), sha256=bad))


@pytest.mark.parametrize("bad", [-1, True, 1.0])
def test_refuses_what_is_no_size(bad: int) -> None:
    """A size is a whole number of bytes."""
    assert "not a size" in refused(replace(file(), size_bytes=bad))


@pytest.mark.parametrize("bad", ["", "Graph", "two words", "graph\n", "engine"])
def test_refuses_what_is_no_role(bad: str) -> None:
    """What a file is for is one of the known roles."""
    assert "not a role" in refused(file(role=bad))


@pytest.mark.parametrize("path", ["bundle.json", "Bundle.JSON", "BUNDLE.md", "bundle.MD"])
def test_refuses_the_names_of_its_own_files(path: str) -> None:
    """The manifest and the card stand beside the files."""
    assert "keeps for itself" in refused(file(path))


@pytest.mark.parametrize(
    "path", ["a" * 256, "/".join(["a" * 200] * 6), "/".join("a" * 33), "é" * 128]
)
def test_refuses_paths_that_are_too_long(path: str) -> None:
    """Not every file system holds such names."""
    assert "is longer than" in refused(file(path)) or "parts" in refused(file(path))


def test_reads_what_it_wrote() -> None:
    """A manifest says the same when it is read."""
    facts = replace(FACTS, variants=(BundleVariant(name="v", path="model.onnx"),))
    read = read_manifest(bundle_manifest([file()], facts))
    assert (read.facts, read.files) == (facts, (file(),))


def test_refuses_a_variant_or_config_that_is_not_packed() -> None:
    """What the manifest speaks of is in the bundle, under its role."""
    lost = replace(FACTS, variants=(BundleVariant(name="v", path="model.onnx"),))
    with pytest.raises(EvidenceError, match="graph of variant 'v' is not in the bundle"):
        bundle_manifest([file(role="weights")], lost)
    with pytest.raises(EvidenceError, match="config is not in the bundle"):
        bundle_manifest([file()], replace(FACTS, config="ci-parity.yml"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"size":5', '"size": 5'),
        ('"size":5', '"size":5.0'),
        ('"size":5', '"size":5,"size":5'),
        ('"size":5', '"size":"5"'),
        ('"size":5', '"mode":5'),
        ('"config":""', '"config":"","more":1'),
        ('"config":"",', ""),
        ("bundle/v2", "bundle/v1"),
        ("model.onnx", "../model.onnx"),
        ('"variants":[]}', '"variants":[]}\n'),
        ('"variants":[]}', '"variants":[]'),
        ('"cpu"', "NaN"),
        ('"cpu"', "[" * 100_000),
    ],
)
def test_refuses_to_read_what_it_does_not_write(before: str, after: str) -> None:
    """A manifest has one form, and two readers cannot understand it differently."""
    text = bundle_manifest([file()]).decode()
    assert before in text
    with pytest.raises(EvidenceError):
        read_manifest(text.replace(before, after).encode())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema":"ci-parity/bundle/v2"}', "\xff"])
def test_refuses_to_read_what_is_no_manifest(text: str) -> None:
    """Another document, or none."""
    with pytest.raises(EvidenceError):
        read_manifest(text.encode("latin-1"))


def test_describes_a_file(tmp_path: Path) -> None:
    """Path below the root, size and digest, as they are on disk."""
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "rec.onnx"
    path.write_bytes(b"onnx" * 100_000)
    assert describe_file(path, tmp_path, "graph") == FileDigest(
        path="models/rec.onnx", size_bytes=400_000, sha256=sha256_bytes(b"onnx" * 100_000),
        role="graph",
    )  # fmt: skip


def test_describes_an_empty_file(tmp_path: Path) -> None:
    """No bytes are a size and a digest too."""
    (tmp_path / "labels.txt").touch()
    assert describe_file(tmp_path / "labels.txt", tmp_path, "labels").size_bytes == 0


def test_a_digest_that_is_known_is_not_measured_again(tmp_path: Path) -> None:
    """Name, size and kind of the file are looked at all the same."""
    (tmp_path / "rec.onnx").write_bytes(b"onnx")
    found = describe_file(tmp_path / "rec.onnx", tmp_path, "graph", "a" * 64)
    assert (found.size_bytes, found.sha256) == (4, "a" * 64)
    (tmp_path / "link.onnx").symlink_to("rec.onnx")
    assert "symbolic link" in unreadable(tmp_path / "link.onnx", tmp_path, "a" * 64)
    (tmp_path / "folder").mkdir()
    assert "cannot read the file" in unreadable(tmp_path / "folder", tmp_path, "a" * 64)
    assert "No such file" in unreadable(tmp_path / "gone.onnx", tmp_path, "a" * 64)


def unreadable(path: Path, root: Path, sha256: str = "") -> str:
    """Return why a file cannot be described."""
    with pytest.raises(EvidenceError) as caught:
        describe_file(path, root, "graph", sha256)
    assert caught.value.where
    assert caught.value.remedy
    return caught.value.what


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    """A file that is listed is there."""
    assert "No such file" in unreadable(tmp_path / "gone.onnx", tmp_path)


def test_refuses_a_file_outside_the_root(tmp_path: Path) -> None:
    """A bundle holds what lies below its root, however the path is spelled."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").touch()
    assert "outside" in unreadable(tmp_path / "secret", root)
    assert "not relative and plain" in unreadable(root / ".." / "secret", root)


def test_refuses_a_symbolic_link(tmp_path: Path) -> None:
    """A link may lead anywhere by the time it is followed."""
    (tmp_path / "real").touch()
    (tmp_path / "link.onnx").symlink_to("real")
    assert "symbolic link" in unreadable(tmp_path / "link.onnx", tmp_path)


def test_refuses_a_linked_folder(tmp_path: Path) -> None:
    """A link on the way is as bad as one at the end."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "w.bin").touch()
    (tmp_path / "folder").symlink_to("real")
    assert "symbolic link" in unreadable(tmp_path / "folder" / "w.bin", tmp_path)


def test_refuses_a_folder(tmp_path: Path) -> None:
    """A folder has no bytes of its own."""
    (tmp_path / "weights").mkdir()
    unreadable(tmp_path / "weights", tmp_path)


def test_refuses_a_pipe_without_waiting(tmp_path: Path) -> None:
    """Nobody will ever write into it."""
    os.mkfifo(tmp_path / "weights")
    assert "not a regular file" in unreadable(tmp_path / "weights", tmp_path)
