"""`ci-parity log attest`: envelopes that other tools verify, by local keys and by a KMS."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from ci_parity.cli import run
from tests.integration.support.s3_server import S3Server
from tests.unit.release.keys import private_key, write_keys
from tests.unit.release.samples import entry, log_of

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a log of three lines, in the working directory, and no key in the environment."""
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_of(*(entry(number) for number in range(3))))
    return path


def attest(*words: str) -> int:
    """Run the command on that log."""
    return run(["log", "attest", *words, "--log", "log.jsonl"])


def signed_text(envelope: Path) -> bytes:
    """Return what the signature is of, put together by hand as the specification says."""
    value = json.loads(envelope.read_text())
    payload = base64.b64decode(value["payload"])
    kind = value["payloadType"].encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def signature(envelope: Path) -> bytes:
    """Return the one signature of an envelope."""
    (one,) = json.loads(envelope.read_text())["signatures"]
    return base64.b64decode(one["sig"])


def test_an_envelope_holds_the_lines_statement_and_verifies(log: Path, capsys: Output) -> None:
    """By the library that others use, and by hand."""
    private, _ = write_keys(log.parent)
    assert attest("1", "--signing-key", str(private), "--out", "a.json") == 0
    assert "record 1 in a log of 3, signed by the private key" in capsys.readouterr().out
    path = log.parent / "a.json"
    value = json.loads(path.read_text())
    line = json.loads(log.read_bytes().splitlines()[1])
    assert value["payloadType"] == "application/vnd.in-toto+json"
    assert json.loads(base64.b64decode(value["payload"])) == line["statement"]
    public = private_key().public_key()
    public.verify(signature(path), signed_text(path))
    key = SSlibKey.from_crypto(public)
    assert Envelope.from_dict(value).verify([key], 1) == {key.keyid: key}
    with pytest.raises(InvalidSignature):
        private_key("other").public_key().verify(signature(path), signed_text(path))


def test_the_key_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a workflow, from a secret; other kinds of keys sign too."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    monkeypatch.setenv("CI_PARITY_SIGNING_KEY", pem.decode())
    assert attest("0") == 0
    path = Path("line-0.intoto.json")
    key.public_key().verify(signature(path), signed_text(path), ec.ECDSA(hashes.SHA256()))


def test_a_bare_statement_says_that_it_is_unsigned(capsys: Output) -> None:
    """For GitHub's attestations, which sign themselves."""
    assert attest("2", "--unsigned", "--out", "statement.json") == 0
    assert "unsigned" in capsys.readouterr().out
    statement = json.loads(Path("statement.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert len(statement["subject"]) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("3", "--unsigned"), 2, "the log has 3 lines"),
        (("0",), 2, "there is no key to sign with"),
        (("0", "--signing-key", "none.key"), 2, "cannot read the key"),
        (("0", "--signing-key", "log.jsonl"), 2, "not an unencrypted private key"),
        (("0", "--key-uri", "awskms:x"), 2, "needs its public half"),
        (("0", "--key-uri", "file:x", "--public-key", "log.pub"), 2, "not the address of a key"),
        (("0", "--key-uri", "awskms:x", "--public-key", "log.key"), 2, "not a public key in PEM"),
    ],
)
def test_what_cannot_sign_writes_nothing(
    log: Path, capsys: Output, words: tuple[str, ...], code: int, message: str
) -> None:
    """One message, and no file that could pass for an envelope."""
    write_keys(log.parent)
    assert attest(*words) == code
    said = capsys.readouterr().err
    assert message in said
    assert "PRIVATE" not in said
    assert not list(log.parent.glob("*.intoto.json"))


def test_43_a_log_that_does_not_verify_is_not_attested(log: Path) -> None:
    """An edited line would get a signature of ours."""
    log.write_bytes(log.read_bytes().replace(b"onnxruntime==1.32.0", b"onnxruntime==1.31.0", 1))
    assert attest("2", "--unsigned") == 4


@pytest.fixture(scope="module")
def kms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve AWS' key management API on this machine and return its address."""
    with S3Server(tmp_path_factory.mktemp("kms")) as server:
        yield server.endpoint


def test_a_key_that_stays_in_a_kms_signs(
    kms: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """The private half is nowhere here; the service vouches for what it signed."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", kms)
    client = boto3.client("kms")
    made = client.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")
    key_id = made["KeyMetadata"]["KeyId"]
    public = load_der_public_key(client.get_public_key(KeyId=key_id)["PublicKey"])
    assert isinstance(public, ec.EllipticCurvePublicKey)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    Path("kms.pub").write_bytes(pem)
    assert attest("0", "--key-uri", f"awskms:{key_id}", "--public-key", "kms.pub") == 0
    assert f"signed by awskms:{key_id}" in capsys.readouterr().out
    path = Path("line-0.intoto.json")
    said = client.verify(
        KeyId=key_id, Message=hashlib.sha256(signed_text(path)).digest(), MessageType="DIGEST",
        Signature=signature(path), SigningAlgorithm="ECDSA_SHA_256",
    )  # fmt: skip
    assert said["SignatureValid"]
    assert attest("0", "--key-uri", "awskms:no-such-key", "--public-key", "kms.pub") == 6
    assert "the key does not sign" in capsys.readouterr().err
