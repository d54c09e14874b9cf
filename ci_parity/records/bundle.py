"""One file of a bundle, as its manifest lists it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """One file of a bundle: POSIX path below the deployment's root, size, SHA-256 and role."""

    path: str
    size_bytes: int
    sha256: str
    role: str
