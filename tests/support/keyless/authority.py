"""A certificate authority like Fulcio, with its certificate log: certificates of ten minutes.

The identity and the facts about a workflow stand in the extensions that Fulcio documents
(github.com/sigstore/fulcio, docs/oid-info.md); the certificate log's promise is embedded as RFC
6962, 3.2 and 3.3 have it.
"""

import hashlib
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_ARC = "1.3.6.1.4.1.57264.1"
_SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_VALID = timedelta(minutes=10)


def spki(key: Any) -> bytes:
    """Return a public key as DER."""
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


class Authority:
    """A root that signs leaves, and the key of the log that promises to hold them.

    Args:
        begins: from when the root is valid; for ten years unless `ends` says otherwise.
        ends: until when.
    """

    def __init__(
        self, begins: datetime | None = None, ends: datetime | None = None, name: str = "local"
    ) -> None:
        self.begins = begins or datetime.now(UTC) - timedelta(days=1)
        self.ends = ends or self.begins + timedelta(days=3650)
        self._key = new_key()
        self.log_key = new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])
        self.root = self._make_root()

    def _make_root(self) -> x509.Certificate:
        public = self._key.public_key()
        usage = _usage(key_cert_sign=True, crl_sign=True)
        return (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.begins)
            .not_valid_after(self.ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, public: Any, claims: Mapping[str, Any]) -> x509.Certificate:
        """Return a certificate for whom the claims of a workflow's token name."""
        start = datetime.now(UTC).replace(microsecond=0)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + _VALID)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        for extension, critical in _identity(claims):
            builder = builder.add_extension(extension, critical=critical)
        before = builder.sign(self._key, hashes.SHA256())
        promise = self._promise(before.tbs_certificate_bytes, start)
        return builder.add_extension(
            x509.UnrecognizedExtension(_SCT_LIST, promise), critical=False
        ).sign(self._key, hashes.SHA256())

    def _promise(self, tbs: bytes, at: datetime) -> bytes:
        """Return the certificate log's signed timestamp, as the extension holds it."""
        stamp = int(at.timestamp() * 1000)
        issuer = hashlib.sha256(spki(self._key.public_key())).digest()
        entry = issuer + len(tbs).to_bytes(3) + tbs
        signed = struct.pack("!BBQH", 0, 0, stamp, 1) + entry + struct.pack("!H", 0)
        signature = self.log_key.sign(signed, ec.ECDSA(hashes.SHA256()))
        log_id = hashlib.sha256(spki(self.log_key.public_key())).digest()
        sct = b"\0" + log_id + struct.pack("!QH", stamp, 0)
        sct += b"\4\3" + struct.pack("!H", len(signature)) + signature
        listed = struct.pack("!H", len(sct)) + sct
        return asn1.encode_der(struct.pack("!H", len(listed)) + listed)


def _identity(claims: Mapping[str, Any]) -> list[tuple[x509.ExtensionType, bool]]:
    server = "https://github.com"
    identity = claims.get("email") or f"{server}/{claims['job_workflow_ref']}"
    name = x509.RFC822Name if "@" in identity and "/" not in identity else (
        x509.UniformResourceIdentifier
    )  # fmt: skip
    found: list[tuple[x509.ExtensionType, bool]] = [
        (x509.SubjectAlternativeName([name(identity)]), True),
        (x509.UnrecognizedExtension(_oid(1), claims["iss"].encode()), False),
    ]
    texts = {8: claims["iss"], 9: identity, 11: "github-hosted"}
    if "repository" in claims:
        texts |= {
            12: f"{server}/{claims['repository']}", 13: claims["sha"], 14: claims["ref"],
            22: claims["repository_visibility"],
        }  # fmt: skip
    for number, text in texts.items():
        found.append((x509.UnrecognizedExtension(_oid(number), asn1.encode_der(text)), False))
    return found


def _oid(number: int) -> x509.ObjectIdentifier:
    return x509.ObjectIdentifier(f"{_ARC}.{number}")


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=key_cert_sign,
        crl_sign=crl_sign, encipher_only=False, decipher_only=False,
    )  # fmt: skip
