"""Ed25519 keys for checkpoints: from a file or the environment, by the library `cryptography`.

The library is an extra (`ci-parity[sign]`) and imported on use. A key that was named and cannot be
read is an error; only where none was named is there none.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ci_parity.base.errors import ConfigError
from ci_parity.release.note import ED25519, Note, SigningKey, key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_VARIABLE = "CI_PARITY_SIGNING_KEY"
_VKEY = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})")
_MAKE_KEY = "make one with: openssl genpkey -algorithm ed25519 -out log.key"
_MAKE_PUBLIC = "make it with: openssl pkey -in log.key -pubout -out log.pub"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """An Ed25519 public key; `name` is who it signs as, empty for whatever the log is called."""

    raw: bytes
    name: str = ""


class _Ed25519:
    """A private key in memory; never printed."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def find_signing_key(path: Path | None, environ: Mapping[str, str]) -> SigningKey | None:
    """Return the private key in a file, else that in the environment; `None` where neither is.

    Both hold the key as unencrypted PEM (PKCS #8).

    Raises:
        ConfigError: when the key that is named cannot be read, or the library is not there.
    """
    if path is not None:
        return _private(key_bytes(path), str(path))
    text = environ.get(KEY_VARIABLE, "")
    return _private(text.strip().encode() + b"\n", KEY_VARIABLE) if text.strip() else None


def read_public_key(path: Path) -> PublicKey:
    """Read a public key: PEM, or one line `NAME+ID+BASE64` as the tools of signed notes write it.

    Raises:
        ConfigError: when it is neither.
    """
    data = key_bytes(path)
    if match := _VKEY.fullmatch(data.decode("utf-8", "replace").strip()):
        return _verifier_key(match, str(path))
    ed25519, serialization = _library()
    try:
        key = serialization.load_pem_public_key(data)
    except ValueError as error:
        raise ConfigError(
            "not a public key in PEM, nor a verifier key NAME+ID+BASE64",
            where=str(path),
            remedy=_MAKE_PUBLIC,
        ) from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise ConfigError("the key is not of Ed25519", where=str(path), remedy=_MAKE_KEY)
    return PublicKey(raw=key.public_bytes_raw())


def signed_by(note: Note, key: PublicKey, name: str) -> bool:
    """Tell whether a note bears a signature of `key` under `name`; every one of its own must hold.

    Signatures of other keys are passed over, as the format asks.
    """
    name = key.name or name
    ours = [s for s in note.signatures if (s.name, s.key_id) == (name, key_id(name, key.raw))]
    return bool(ours) and all(_holds(key.raw, s.value, note.text.encode()) for s in ours)


def names_key(note: Note, key: PublicKey, name: str) -> bool:
    """Tell whether a note says that `key` signed it, rightly or wrongly."""
    name = key.name or name
    return any((s.name, s.key_id) == (name, key_id(name, key.raw)) for s in note.signatures)


def _holds(public: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    ed25519, _ = _library()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _private(pem: bytes, where: str) -> SigningKey:
    ed25519, serialization = _library()
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        # The library's words may quote what it was given.
        raise ConfigError(
            "not an unencrypted private key in PEM", where=where, remedy=_MAKE_KEY
        ) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ConfigError("the key is not of Ed25519", where=where, remedy=_MAKE_KEY)
    return _Ed25519(key)


def _verifier_key(match: re.Match[str], where: str) -> PublicKey:
    try:
        raw = base64.b64decode(match[3], validate=True)
    except binascii.Error:
        raw = b""
    if raw[:1] != ED25519 or len(raw) != 33 or key_id(match[1], raw[1:]).hex() != match[2]:
        raise ConfigError(
            "the verifier key is not of Ed25519, or its id is not that of its key",
            where=where,
            remedy="copy it again from whom it is of",
        )
    return PublicKey(raw=raw[1:], name=match[1])


def key_bytes(path: Path) -> bytes:
    """Return the bytes of a key's file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the key: {error.strerror or error}",
            where=str(path),
            remedy="name a file that holds one",
        ) from error


def _library() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ConfigError(
            f"signatures need a library that is not installed: {error}",
            where="cryptography",
            remedy="install it: pip install 'ci-parity[sign]'",
        ) from error
    return ed25519, serialization
