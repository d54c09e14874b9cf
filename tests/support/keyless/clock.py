"""A clock that signs what time it is: a timestamp authority (RFC 3161), by openssl."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.keyless.authority import _usage, new_key

_CONFIG = """\
[tsa]
default_tsa = local
[local]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


class Clock:
    """An authority with a root of its own; `chain` begins with the certificate that stamps."""

    def __init__(self, scratch: Path) -> None:
        self.begins = datetime.now(UTC) - timedelta(days=1)
        self._folder = scratch
        root_key, key = new_key(), new_key()
        root = self._certificate("local clocks", "local clocks", root_key, root_key, ca=True)
        leaf = self._certificate("local clock", "local clocks", key, root_key, ca=False)
        self.chain = [leaf, root]
        (scratch / "tsa.pem").write_bytes(leaf.public_bytes(Encoding.PEM))
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (scratch / "tsa.key").write_bytes(pem)
        (scratch / "serial").write_text("01\n")
        (scratch / "tsa.cnf").write_text(_CONFIG.format(folder=scratch))

    def _certificate(
        self, subject: str, issuer: str, key: object, signing: object, *, ca: bool
    ) -> x509.Certificate:
        public = key.public_key()  # type: ignore[attr-defined]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(issuer))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.begins)
            .not_valid_after(self.begins + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=not ca, key_cert_sign=ca), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )
        if not ca:
            purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
            builder = builder.add_extension(purpose, critical=True)
        return builder.sign(signing, hashes.SHA256())  # type: ignore[arg-type]

    def stamp(self, query: bytes) -> bytes:
        """Return the reply to a request for a timestamp."""
        asked, reply = self._folder / "query.tsq", self._folder / "reply.tsr"
        asked.write_bytes(query)
        subprocess.run(
            ["openssl", "ts", "-reply", "-config", self._folder / "tsa.cnf", "-queryfile", asked,
             "-out", reply],
            check=True, capture_output=True,
        )  # fmt: skip
        return reply.read_bytes()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
