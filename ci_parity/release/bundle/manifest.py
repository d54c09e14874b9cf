"""What a release is: the manifest that binds every file of a bundle, and its digest.

The manifest is the subject of every release-log statement. It binds name, size, content and role
of every file together with what gives them their meaning: which file is which variant, the targets
they run on, the cases, the policy they are judged by. Renamed, swapped, missing and extra files all
change the digest. It is a function of the deployment's own files alone, the same on every machine.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.bundle import FileDigest
from ci_parity.records.codec import from_json, to_json
from ci_parity.release.bundle.paths import MANIFEST_NAME, check_distinct, check_path

SCHEMA = "ci-parity/bundle/v2"
ROLES = (
    "graph", "weights", "preprocess", "labels", "tokenizer", "fixtures", "references", "config",
    "lock", "judge", "library", "licence",
)  # fmt: skip
MAX_MANIFEST_BYTES = 32 * 2**20
MAX_FILES = 100_000
MAX_FILE_BYTES = 2**43
UNKNOWN_SHA256 = "0" * 64

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVariant:
    """One variant: the path of its graph in the bundle, and the variant it was made from."""

    name: str
    path: str
    made_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTarget:
    """One target: `options` is the canonical JSON of both kinds, `image` the digest that pins it.

    `image` is empty where the runtime is no image, or a tag names it.
    """

    name: str
    runtime: str
    provider: str
    options: str
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCase:
    """One case of the fixture set and the classes it stands for."""

    name: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFixtures:
    """The fixture set: its folder, and what its list says of it.

    `provenance` is the canonical JSON of what the list states for the whole set.
    """

    folder: str
    cases: tuple[BundleCase, ...]
    license: str = ""
    provenance: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFacts:
    """What a bundle is, beside its files.

    `config` is empty where the deployment was discovered. `policy` is the canonical JSON of the
    policy and the contract as configured. `validate` is the command, word by word, that judges the
    stored cases anew in the folder of the bundle.
    """

    deployment: str
    config: str
    variants: tuple[BundleVariant, ...]
    targets: tuple[BundleTarget, ...]
    fixtures: BundleFixtures
    policy: str
    validate: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A bundle's facts and files; `by_path` finds a file by its path."""

    facts: BundleFacts
    files: tuple[FileDigest, ...]
    by_path: Mapping[str, FileDigest] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_path", {file.path: file for file in self.files})

    @property
    def size_bytes(self) -> int:
        """The bytes of all files together."""
        return sum(file.size_bytes for file in self.files)


def bundle_manifest(facts: BundleFacts, files: Sequence[FileDigest]) -> bytes:
    """Return `bundle.json`: canonical JSON, its files in the order of their paths' code points.

    Raises:
        EvidenceError: for a bundle without files or with too many; a path that is absolute, not
            normalized (NFC, no `.`, `..` or empty parts), unportable or equal to another's but for
            case; a size, digest or role that is malformed; a variant without its graph.
    """
    if not files:
        raise EvidenceError("a bundle without files", remedy="list the files that are released")
    ordered = sorted(files, key=lambda file: file.path)
    _check_files(ordered)
    _check_variants(facts, ordered)
    entries: list[Json] = [
        {"path": file.path, "role": file.role, "sha256": file.sha256, "size": file.size_bytes}
        for file in ordered
    ]
    written: Any = to_json(facts)
    data = canonical_bytes({"schema": SCHEMA, **written, "files": entries})
    if len(data) > MAX_MANIFEST_BYTES:
        raise EvidenceError(
            f"the manifest has {len(data)} bytes, {MAX_MANIFEST_BYTES} are allowed",
            remedy="release fewer files together",
        )
    return data


def read_manifest(data: bytes) -> Manifest:
    """Return what the bytes of a `bundle.json` say.

    Raises:
        EvidenceError: unless they are what `bundle_manifest` writes.
    """
    value = parse_strict(data, where=MANIFEST_NAME)
    if not isinstance(value, Mapping) or value.get("schema") != SCHEMA:
        raise EvidenceError(
            f"not a bundle manifest of the form {SCHEMA}",
            where=MANIFEST_NAME,
            remedy="read it with the version of ci-parity that wrote it",
        )
    rest = {key: item for key, item in value.items() if key not in {"schema", "files"}}
    facts = from_json(BundleFacts, rest, where=MANIFEST_NAME)
    files = tuple(_file(entry) for entry in _entries(value))
    if bundle_manifest(facts, files) != data:
        raise EvidenceError("the manifest is not in its canonical form", where=MANIFEST_NAME)
    return Manifest(facts=facts, files=files)


def bundle_digest(manifest: bytes) -> str:
    """Return the identity of a bundle: the SHA-256 of its manifest's bytes."""
    return sha256_bytes(manifest)


def _entries(value: Mapping[str, Json]) -> Sequence[Json]:
    entries = value.get("files")
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise EvidenceError("the manifest lists no files", where=MANIFEST_NAME)
    return entries


def _file(entry: Json) -> FileDigest:
    if not isinstance(entry, Mapping) or set(entry) != {"path", "role", "sha256", "size"}:
        raise EvidenceError("an entry of the manifest is malformed", where=MANIFEST_NAME)
    named = {key: item for key, item in entry.items() if key != "size"}
    return from_json(FileDigest, {**named, "size_bytes": entry["size"]}, where=MANIFEST_NAME)


def _check_files(files: Sequence[FileDigest]) -> None:
    if len(files) > MAX_FILES:
        raise EvidenceError(
            f"{len(files)} files, a bundle holds at most {MAX_FILES}",
            remedy="release fewer files together",
        )
    for file in files:
        check_path(file.path)
        _check_facts(file)
    check_distinct(file.path for file in files)


def _check_facts(file: FileDigest) -> None:
    if type(file.size_bytes) is not int or not 0 <= file.size_bytes <= MAX_FILE_BYTES:
        raise EvidenceError(f"{file.size_bytes!r} is not a size in bytes", where=ascii(file.path))
    if not _DIGEST.fullmatch(file.sha256):
        raise EvidenceError(
            f"{file.sha256!a} is not 64 lowercase hexadecimal digits", where=ascii(file.path)
        )
    if file.role not in ROLES:
        raise EvidenceError(
            f"{file.role!a} is not a role",
            where=ascii(file.path),
            remedy=f"one of {', '.join(ROLES)}",
        )


def _check_variants(facts: BundleFacts, files: Sequence[FileDigest]) -> None:
    graphs = {file.path for file in files if file.role == "graph"}
    for variant in facts.variants:
        if variant.path not in graphs:
            raise EvidenceError(
                f"the graph of variant {variant.name!a} is not in the bundle",
                where=ascii(variant.path),
            )
    if facts.config and not any((f.path, f.role) == (facts.config, "config") for f in files):
        raise EvidenceError("the config is not in the bundle", where=ascii(facts.config))
