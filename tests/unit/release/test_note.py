"""Signed notes and their keys, against published notes of other implementations."""

import base64
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.release.note import Note, key_id, read_note, signed, write_note
from ci_parity.release.signing import (
    KEY_VARIABLE,
    PublicKey,
    find_signing_key,
    names_key,
    read_public_key,
    signed_by,
)
from tests.unit.release.keys import private_key, private_pem, public_pem, write_keys

# The example of the signed-note specification, and that of Go's package note with a second signer
# from its tests; Ed25519 has one signature for a key and a text.
SPEC_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
SPEC = (
    "This is an example message.\n\n"
    "\u2014 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYj"
    "OBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
PETERS = (
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqf"
    "qdngotpRZb6KE6RyyBwJnAM=\n"
)
ENOCHS = (
    "\u2014 EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG0"
    "1oOTGwnWLox33WWd1RvMc+QQ=\n"
)


def public(folder: Path, line: str) -> PublicKey:
    """Return the key that a line in a file names."""
    (folder / "key.pub").write_text(f"{line}\n")
    return read_public_key(folder / "key.pub")


def note(text: str) -> Note:
    """Read a note."""
    return read_note(text.encode(), where="note")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (SPEC, SPEC_KEY),
        (f"{TEXT}\n{PETERS}", PETER),
        (f"{TEXT}\n{PETERS}{ENOCHS}", PETER),
        (f"{TEXT}\n{PETERS}{ENOCHS}", ENOCH),
    ],
)
def test_verifies_published_notes(tmp_path: Path, text: str, key: str) -> None:
    """And writes them back byte for byte."""
    assert signed_by(note(text), public(tmp_path, key), "")
    assert write_note(note(text)) == text.encode()


def test_signs_as_the_published_note_is_signed(tmp_path: Path) -> None:
    """The same key over the same text."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = Ed25519PrivateKey.from_private_bytes(PETER_SEED).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    (tmp_path / "peter.key").write_bytes(pem)
    key = find_signing_key(tmp_path / "peter.key", {})
    assert key is not None
    assert write_note(signed(TEXT, "PeterNeumann", key)).decode() == f"{TEXT}\n{PETERS}"


@pytest.mark.parametrize(
    "text",
    [
        f"{TEXT.replace('know', 'knew')}\n{PETERS}",
        f"{TEXT}\n{PETERS.replace('ZJku', 'ZJkv')}",
        f"{TEXT}\n{PETERS}{PETERS.replace('ZJku', 'ZJkv')}",  # one of its own that is wrong
        f"{TEXT}\n{PETERS[:39]}AAA=\n",
    ],
)
def test_a_wrong_signature_does_not_verify(tmp_path: Path, text: str) -> None:
    """Another text, another signature, or a second one of the same key that is wrong."""
    key = public(tmp_path, PETER)
    assert names_key(note(text), key, "")
    assert not signed_by(note(text), key, "")


@pytest.mark.parametrize("text", [f"{TEXT}\n", f"{TEXT}\n{ENOCHS}", SPEC])
def test_50_no_signature_of_the_key_is_no_signature(tmp_path: Path, text: str) -> None:
    """Unsigned, or signed by others only."""
    key = public(tmp_path, PETER)
    assert not names_key(note(text), key, "")
    assert not signed_by(note(text), key, "")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n\n", b"text\n", b"text", f"{TEXT}\n{PETERS}"[:-1].encode(),
        f"{TEXT}\n{PETERS}\n{PETERS}rest\n".encode(), f"{TEXT}\n- a AAAAAAA=\n".encode(),
        f"{TEXT}\n\u2014 a b AAAAAAA=\n".encode(), f"{TEXT}\n\u2014 a+b AAAAAAA=\n".encode(),
        f"{TEXT}\n\u2014 a AAAA\n".encode(), f"{TEXT}\n\u2014 a AAAAAAA\n".encode(),
        f"{TEXT}\n\u2014 a AAAAAAA=\r\n".encode(), b"a\tb\n\n", b"\xff\n\n",
        f"{TEXT}\n{PETERS}\u2028{PETERS}".encode(),
        (TEXT + "\n" + PETERS * 101).encode(), b"a" * (1 << 20) + b"\n\n",
    ],
)  # fmt: skip
def test_refuses_what_is_no_note(data: bytes) -> None:
    """Cut off, other dashes, bad names, bad base64, control characters, too long."""
    with pytest.raises(EvidenceError, match="malformed signed note"):
        read_note(data, where="note")


def test_reads_keys_as_openssl_writes_them(tmp_path: Path) -> None:
    """The commands that the docs name make keys that we read, and read ours."""
    for command in (
        ("genpkey", "-algorithm", "ed25519", "-out", "log.key"),
        ("pkey", "-in", "log.key", "-pubout", "-out", "log.pub"),
    ):
        subprocess.run(["openssl", *command], cwd=tmp_path, check=True, capture_output=True)
    key = find_signing_key(tmp_path / "log.key", {})
    assert key is not None
    made = signed("a\n1\nb\n", "git.example/models", key)
    assert signed_by(made, read_public_key(tmp_path / "log.pub"), "git.example/models")
    assert not signed_by(made, read_public_key(tmp_path / "log.pub"), "git.example/other")
    assert not signed_by(made, read_public_key(write_keys(tmp_path)[1]), "git.example/models")


def test_a_verifier_key_is_one_line(tmp_path: Path) -> None:
    """As other tools of signed notes write it."""
    raw = private_key().public_key().public_bytes_raw()
    spelt = base64.b64encode(b"\x01" + raw).decode()
    key = public(tmp_path, f"log.example+{key_id('log.example', raw).hex()}+{spelt}")
    assert key == PublicKey(raw=raw, name="log.example")


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key.replace("c74f20a3", "c74f20a4"),
        lambda key: key.replace("ARpc", "BBpc"),
        lambda key: key[:-4],
        lambda key: key.replace("Peter", "Petra"),
        lambda _: "",
        lambda _: private_pem().decode(),
    ],
)
def test_refuses_what_is_no_public_key(tmp_path: Path, change: Callable[[str], str]) -> None:
    """A mangled line, nothing, a private key."""
    with pytest.raises(ConfigError):
        public(tmp_path, change(PETER))


def other_keys() -> list[bytes]:
    """Return what is no unencrypted private key of Ed25519."""
    curve = ec.generate_private_key(ec.SECP256R1())
    locked = private_key().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
    )
    plain = curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return [b"", b"s3cret", public_pem(), locked, plain]


@pytest.mark.parametrize("number", range(5))
def test_refuses_what_is_no_signing_key_without_quoting_it(tmp_path: Path, number: int) -> None:
    """A key that was named is never passed over."""
    data = other_keys()[number]
    (tmp_path / "log.key").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        find_signing_key(tmp_path / "log.key", {})
    assert "s3cret" not in str(caught.value)
    assert "openssl" in caught.value.remedy


def test_refuses_a_public_key_of_another_kind(tmp_path: Path) -> None:
    """Only Ed25519 signs notes here."""
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    path = tmp_path / "other.pub"
    path.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(ConfigError, match="not of Ed25519"):
        read_public_key(path)


def test_a_key_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Named and missing is not the same as not named."""
    with pytest.raises(ConfigError, match="cannot read the key"):
        find_signing_key(tmp_path / "no.key", {})
    with pytest.raises(ConfigError, match="cannot read the key"):
        read_public_key(tmp_path / "no.pub")


def test_the_environment_holds_a_key_where_no_file_is_named(tmp_path: Path) -> None:
    """A file comes first; without either there is none."""
    variables = {KEY_VARIABLE: private_pem("environment").decode().rstrip()}
    found = find_signing_key(None, variables)
    assert found is not None
    assert found.public == private_key("environment").public_key().public_bytes_raw()
    first = find_signing_key(write_keys(tmp_path)[0], variables)
    assert first is not None
    assert first.public == private_key().public_key().public_bytes_raw()
    assert find_signing_key(None, {KEY_VARIABLE: " \n"}) is None
    assert find_signing_key(None, {}) is None
    with pytest.raises(ConfigError, match=r"not an unencrypted") as caught:
        find_signing_key(None, {KEY_VARIABLE: "s3cret"})
    assert "s3cret" not in f"{caught.value}{os.linesep}"
