"""What is installed beside an interpreter, from the files that installers leave; nothing is run.

Feeds the runtime facts. It reads `*.dist-info` folders (packaging.python.org, "Recording installed
projects") and refuses an interpreter that has no place for packages.
"""

import csv
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import InfrastructureError

# Lies in an environment of ours that has been built to its end.
COMPLETE = "ci-parity-complete"
# What installers write, not what the wheel held; it differs from tool to tool and place to place.
_INSTALLERS_OWN = re.compile(
    r"\.\./.*|.*\.pyc|[^/]+\.dist-info/(RECORD|INSTALLER|REQUESTED|.*\.json)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """A line of RECORD: a path below the packages' folder, `sha256=…` in base64, its size."""

    path: str
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One installed package, its name in canonical form; `folder` is its `.dist-info`."""

    name: str
    version: str
    folder: Path

    @property
    def site(self) -> Path:
        """The folder all its paths are relative to."""
        return self.folder.parent

    def header(self, file: str, field: str) -> list[str]:
        """Return every value of a field of METADATA or WHEEL, which have the form of mail headers.

        Raises:
            OSError: the file cannot be read.
        """
        head = (self.folder / file).read_text("utf-8", "replace").partition("\n\n")[0]
        lines = (line.partition(":") for line in head.splitlines())
        return [value.strip() for name, _, value in lines if name.lower() == field.lower()]

    def record(self) -> tuple[RecordedFile, ...]:
        """Return the files the installer wrote, with the digests it checked.

        Raises:
            OSError: RECORD cannot be read.
            ValueError: it is no RECORD.
        """
        text = (self.folder / "RECORD").read_text("utf-8", "replace")
        rows = (row for row in csv.reader(text.splitlines()) if row)
        return tuple(
            RecordedFile(path=path, digest=digest, size_bytes=int(size) if size else -1)
            for path, digest, size in rows
        )

    def content(self) -> str:
        """Return the digest of the wheel's content as RECORD states it; raises as `record` does.

        Two installations of the same wheel have the same one, whoever installed them where.
        """
        lines = [
            f"{file.path},{file.digest}\n"
            for file in self.record()
            if not _INSTALLERS_OWN.fullmatch(file.path)
        ]
        return sha256_bytes("".join(sorted(lines)).encode())


def canonical(name: str) -> str:
    """Return a package's name in canonical form (PEP 503).

    `packaging.utils` does the same, but its import costs more than all that is read here.
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(folders: Sequence[Path]) -> dict[str, Distribution]:
    """Return the installed packages by canonical name; an earlier folder hides a later one."""
    found: dict[str, Distribution] = {}
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            key = canonical(name)
            found.setdefault(key, Distribution(name=key, version=version, folder=info))
    return found


def site_folders(python: Path) -> list[Path]:
    """Return where an interpreter's packages are: our own by its paths, another's by its layout.

    Raises:
        InfrastructureError: there is no such folder.
    """
    if python == Path(sys.executable):
        paths = sysconfig.get_paths()
        return [Path(path) for path in dict.fromkeys((paths["purelib"], paths["platlib"]))]
    prefix = python.parent.parent
    found = [*prefix.glob("lib*/python3.*/site-packages"), *prefix.glob("Lib/site-packages")]
    # lib64 is a link to lib; a file system that ignores case finds one folder twice.
    folders = list({folder.resolve(): folder for folder in sorted(found)}.values())
    if not folders:
        raise InfrastructureError(
            "the interpreter has no folder of packages", where=str(python),
            remedy="remove the environment, so that it is built again",
        )  # fmt: skip
    return folders


def closure(installed: dict[str, Distribution], roots: Sequence[str]) -> list[str]:
    """Return `roots` and all they require, extras aside, as far as it is installed."""
    names: list[str] = []
    waiting = [name for name in roots if name in installed]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.append(name)
            waiting += [r for r in _requirements(installed[name]) if r in installed]
    return names


def _requirements(distribution: Distribution) -> Iterator[str]:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        texts = distribution.header("METADATA", "Requires-Dist")
    except OSError:
        return
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonical(requirement.name)
