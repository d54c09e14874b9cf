"""A bundle held to its manifest, byte by byte, without being unpacked or trusted.

What is wrong is collected, so that one look tells everything; after `MAX_PROBLEMS` only counted.
An archive whose framing is lost, and a manifest that cannot be read, end the look at once. Nothing
is written unless the caller asks for the files (`Take`), and then only those that are listed.
"""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.base.escape import visible
from ci_parity.release.bundle.card import render_card
from ci_parity.release.bundle.files import Writer
from ci_parity.release.bundle.manifest import BundleFacts, Manifest, read_manifest
from ci_parity.release.bundle.paths import CARD_NAME, MANIFEST_NAME, folded

MAX_PROBLEMS = 100

Take = Callable[[str], AbstractContextManager[Writer]]
"""Gives, for a listed path, what takes the bytes that are verified there."""

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a look at a bundle found: no problems, and it is what its digest says.

    `manifest` is None where there is none that can be read. `problems` are the first `MAX_PROBLEMS`
    of `problem_count`.
    """

    digest: str
    manifest: Manifest | None
    manifest_bytes: bytes
    problems: tuple[str, ...]
    problem_count: int

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problem_count and self.manifest is not None

    @property
    def facts(self) -> BundleFacts:
        """What the manifest of a whole bundle says beside its files."""
        assert self.manifest is not None
        return self.manifest.facts


@dataclass(slots=True, kw_only=True)
class Inspection:
    """The state of one look: what is due, what was seen, what is wrong."""

    expected: str
    take: Take | None = None
    digest: str = ""
    manifest: Manifest | None = None
    manifest_bytes: bytes = b""
    card: bytes = b""
    seen: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def problem(self, path: str, what: str) -> None:
        """Note what is wrong with a path."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{visible(path, 300)}: {visible(what, 400)}")

    def begin(self, data: bytes) -> bool:
        """Read the manifest; false, with the problem noted, where that ends the look."""
        self.digest, self.manifest_bytes = sha256_bytes(data), data
        self.seen.add(MANIFEST_NAME)
        if self.expected and self.digest != self.expected:
            self.problem(
                MANIFEST_NAME,
                f"another bundle: its digest is sha256:{self.digest}, not sha256:{self.expected}",
            )
        try:
            self.manifest = read_manifest(data)
            self.card = render_card(data)
        except EvidenceError as error:
            self.manifest = None
            self.problem(MANIFEST_NAME, f"{error.what} {error.where}".strip())
            return False
        return True

    def is_due(self, path: str) -> bool:
        """Say whether a file belongs here, once; what does not is noted."""
        manifest = self.manifest
        assert manifest is not None
        if path in self.seen:
            self.problem(path, "is there twice")
            return False
        other = self.names.setdefault(folded(path), path)
        if other != path:
            self.problem(path, f"differs from {other!a} only by case or Unicode form")
        if path not in manifest.by_path and path != CARD_NAME:
            self.problem(path, "is not listed")
            return False
        self.seen.add(path)
        return True

    def size_of(self, path: str) -> int:
        """Return how many bytes a due file must have."""
        assert self.manifest is not None
        return len(self.card) if path == CARD_NAME else self.manifest.by_path[path].size_bytes

    def check(self, path: str, sha256: str) -> None:
        """Hold the digest of a due file of the right size to what is due."""
        assert self.manifest is not None
        if path == CARD_NAME:
            if sha256 != sha256_bytes(self.card):
                self.problem(path, "is not the card of this bundle")
        elif sha256 != self.manifest.by_path[path].sha256:
            self.problem(path, f"was changed: its digest is sha256:{sha256}")

    def taking(self, path: str) -> AbstractContextManager[Writer | None]:
        """Return what takes the bytes of a due file, None where nobody wants them."""
        return self.take(path) if self.take else nullcontext(None)

    def finish(self) -> Verified:
        """Note what is missing, and return what was found."""
        if self.manifest is not None:
            for path in self._missing(self.manifest):
                self.problem(path, "is missing")
        return Verified(
            digest=self.digest,
            manifest=self.manifest,
            manifest_bytes=self.manifest_bytes,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
        )

    def _missing(self, manifest: Manifest) -> Iterable[str]:
        due = (MANIFEST_NAME, *(file.path for file in manifest.files), CARD_NAME)
        return (path for path in due if path not in self.seen)


def verify_bundle(path: Path, expected: str = "", take: Take | None = None) -> Verified:
    """Hold a folder or an archive to its manifest, and its digest to the expected one.

    Args:
        path: the folder, or the archive.
        expected: `sha256:` and 64 digits, empty to accept any digest.
        take: receives the files while they are verified; what it got counts only if the result is
            whole.

    Raises:
        ConfigError: `expected` is no digest.
        EvidenceError: there is nothing at `path`, or it cannot be read.
    """
    from ci_parity.release.bundle.verify_archive import inspect_archive
    from ci_parity.release.bundle.verify_folder import inspect_folder

    inspection = Inspection(expected=digest_text(expected), take=take)
    real = Path(os.path.realpath(path))
    if real.is_dir():
        inspect_folder(real, inspection)
    else:
        inspect_archive(real, inspection)
    return inspection.finish()


def digest_text(digest: str) -> str:
    """Return the digits of a digest as it is given on a command line; empty stays empty.

    Raises:
        ConfigError: it is no SHA-256 in lowercase hexadecimal.
    """
    match = _DIGEST.fullmatch(digest)
    if digest and match is None:
        raise ConfigError(
            f"{digest[:80]!a} is not the digest of a bundle",
            where="--digest",
            remedy="write sha256: and 64 lowercase hexadecimal digits",
        )
    return match[1] if match else ""
