"""Ed25519 keys to test with, made anew from a word: never the same as anyone's."""

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


def private_key(word: str = "log") -> Ed25519PrivateKey:
    """Return the key whose seed is the SHA-256 of a word."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(word.encode()).digest())


def private_pem(word: str = "log") -> bytes:
    """Return that key as unencrypted PEM."""
    return private_key(word).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(word: str = "log") -> bytes:
    """Return its public key as PEM."""
    key = private_key(word).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def write_keys(folder: Path, word: str = "log") -> tuple[Path, Path]:
    """Write both and return their paths, the private one first."""
    private, public = folder / f"{word}.key", folder / f"{word}.pub"
    private.write_bytes(private_pem(word))
    public.write_bytes(public_pem(word))
    return private, public
