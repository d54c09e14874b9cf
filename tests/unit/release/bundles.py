"""Bundles to test with, and archives that no bundle has; all made on the spot."""

import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ci_parity.release.bundle.files import part_of
from ci_parity.release.bundle.manifest import (
    BundleCase,
    BundleFacts,
    BundleFixtures,
    BundleTarget,
    BundleVariant,
)
from ci_parity.release.bundle.pack import pack

FILES = {
    "models/reader.onnx": ("graph", b"graph of the reader"),
    "models/weights0.bin": ("weights", bytes(range(256)) * 3),
    "models/weights1.bin": ("weights", bytes(range(256))[::-1] * 3),
    "cases/one/input_0.pb": ("fixtures", b"in"),
    "cases/one/output_0.pb": ("references", b"out"),
    "labels/naïve labels.txt": ("labels", b"cat\ndog\n"),
    "empty.txt": ("licence", b""),
}
FACTS = BundleFacts(
    deployment="reader",
    config="",
    variants=(BundleVariant(name="exported", path="models/reader.onnx"),),
    targets=(
        BundleTarget(
            name="cpu", runtime="onnxruntime==1.32.0", provider="CPUExecutionProvider",
            options='{"provider":{},"session":{}}',
        ),
    ),
    fixtures=BundleFixtures(folder="cases", cases=(BundleCase(name="one"),)),
    policy='{"tolerance":"calibrated"}',
    validate=("ci-parity", "bundle", "validate", "."),
)  # fmt: skip

Entry = tuple[tarfile.TarInfo, bytes]


def deployment(root: Path, files: Mapping[str, tuple[str, bytes]] = FILES) -> Path:
    """Write the files of a deployment."""
    for name, (_, data) in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def packed(
    root: Path, out: Path, facts: BundleFacts = FACTS,
    files: Mapping[str, tuple[str, bytes]] = FILES,
) -> Path:  # fmt: skip
    """Pack the files of a deployment."""
    pack(facts, [part_of(root / name, root, role) for name, (role, _) in files.items()], out)
    return out


def bundle(scratch: Path, name: str = "b.tar", facts: BundleFacts = FACTS) -> Path:
    """Make a deployment and its bundle: an archive, or a folder where the name has no `.tar`."""
    return packed(deployment(scratch / "root"), scratch / name, facts)


def entries(archive: Path) -> list[Entry]:
    """Return the entries of an archive with their bytes."""
    with tarfile.open(archive) as opened:
        return [(info, _content(opened, info)) for info in opened]


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(info)
    return stream.read() if stream is not None else b""


def rewritten(archive: Path, change: Callable[[list[Entry]], list[Entry]]) -> Path:
    """Write an archive anew, in its own form but for what a change does to its entries."""
    data = b""
    for info, content in change(entries(archive)):
        data += info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        data += content + bytes(-len(content) % 512)
    archive.write_bytes(data + bytes(1024))
    return archive


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    """Return an entry as a bundle would have it, but for its kind."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type, info.linkname = len(content), 0o644, kind, link
    return info, content


def before_card(items: list[Entry], *more: Entry) -> list[Entry]:
    """Add entries where a file may stand."""
    return [*items[:-1], *more, items[-1]]


def repacked(archive: Path) -> Path:
    """Write an archive anew as another tool would: the same files, owners, modes and times."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as out:
        for info, content in entries(archive):
            info.mtime, info.uname = 1_700_000_000, "someone"
            out.addfile(info, io.BytesIO(content))
    archive.write_bytes(stream.getvalue())
    return archive


def named(deployment_name: str) -> BundleFacts:
    """Return facts of a deployment of another name."""
    return replace(FACTS, deployment=deployment_name)
