"""A transparency log like Rekor: entries about signatures, a Merkle tree, signed checkpoints.

It takes an entry only with a signature that holds, as the public log does, and answers in the form
of either version of the interface: 1 with the time it vouches for, 2 without.
"""

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from ci_parity.release.merkle import Tree
from tests.support.keyless.authority import new_key, spki


def b64(data: bytes) -> str:
    """Return base64 as text."""
    return base64.b64encode(data).decode()


def pae(kind: str, payload: bytes) -> bytes:
    """Return what a DSSE signature is of."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


class EntryLog:
    """The log, its key and its entries."""

    def __init__(self, origin: str) -> None:
        self.key = new_key()
        self.origin = origin
        self._tree = Tree()
        for number in range(5):
            self._tree.append(b"somebody else's %d" % number)

    @property
    def log_id(self) -> bytes:
        """The hash of the log's key."""
        return hashlib.sha256(spki(self.key.public_key())).digest()

    def add_v1(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """Take a proposed entry of kind `dsse`, and answer as version 1 does."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        (pem,) = content["verifiers"]
        payload = base64.b64decode(envelope["payload"])
        (signature,) = envelope["signatures"]
        _hold(_certificate(base64.b64decode(pem)), signature["sig"],
              pae(envelope["payloadType"], payload))  # fmt: skip
        body = {
            "apiVersion": "0.0.1", "kind": "dsse",
            "spec": {
                "envelopeHash": _hash(content["envelope"].encode()),
                "payloadHash": _hash(payload),
                "signatures": [{"signature": signature["sig"], "verifier": pem}],
            },
        }  # fmt: skip
        return {hashlib.sha256(signature["sig"].encode()).hexdigest(): self._entry_v1(body)}

    def _entry_v1(self, body: dict[str, Any]) -> dict[str, Any]:
        leaf = rfc8785.dumps(body)
        # Version 1 names its tree, too: readers tell its checkpoints by that.
        proof = self._proof(leaf, f"{self.origin} - 1193050959916656506")
        promised = {
            "body": b64(leaf), "integratedTime": int(datetime.now(UTC).timestamp()),
            "logID": self.log_id.hex(), "logIndex": proof["index"],
        }  # fmt: skip
        promise = self._sign(rfc8785.dumps(promised))
        inclusion = {
            "logIndex": proof["index"], "treeSize": proof["size"], "rootHash": proof["root"].hex(),
            "hashes": [one.hex() for one in proof["path"]], "checkpoint": proof["checkpoint"],
        }  # fmt: skip
        said = {"signedEntryTimestamp": b64(promise), "inclusionProof": inclusion}
        return {**promised, "verification": said}

    def add_v2(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Take a `hashedrekord` about the digest of what was signed; answer as version 2 does."""
        request = asked["hashedRekordRequestV002"]
        verifier = request["signature"]["verifier"]
        body: dict[str, Any] = {
            "apiVersion": "0.0.2", "kind": "hashedrekord",
            "spec": {"hashedRekordV002": {
                "data": {"algorithm": "SHA2_256", "digest": request["digest"]},
                "signature": request["signature"],
            }},
        }  # fmt: skip
        certificate = x509.load_der_x509_certificate(
            base64.b64decode(verifier["x509Certificate"]["rawBytes"])
        )
        _hold(certificate, request["signature"]["content"], base64.b64decode(request["digest"]),
              hashed=True)  # fmt: skip
        leaf = rfc8785.dumps(body)
        proof = self._proof(leaf, self.origin)
        return {
            "logIndex": str(proof["index"]), "logId": {"keyId": b64(self.log_id)},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
            "inclusionProof": {
                "logIndex": str(proof["index"]), "rootHash": b64(proof["root"]),
                "treeSize": str(proof["size"]), "hashes": [b64(one) for one in proof["path"]],
                "checkpoint": {"envelope": proof["checkpoint"]},
            },
            "canonicalizedBody": b64(leaf),
        }  # fmt: skip

    def _proof(self, leaf: bytes, origin: str) -> dict[str, Any]:
        self._tree.append(leaf)
        size = len(self._tree)
        root = self._tree.root()
        text = f"{origin}\n{size}\n{b64(root)}\n"
        signature = b64(self.log_id[:4] + self._sign(text.encode()))
        return {
            "index": size - 1, "size": size, "root": root, "path": self._tree.inclusion(size - 1),
            "checkpoint": f"{text}\n— {self.origin} {signature}\n",
        }  # fmt: skip

    def _sign(self, data: bytes) -> bytes:
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))


def _hold(
    certificate: x509.Certificate, signature: str, data: bytes, *, hashed: bool = False
) -> None:
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    digest = Prehashed(hashes.SHA256()) if hashed else hashes.SHA256()
    key.verify(base64.b64decode(signature), data, ec.ECDSA(digest))


def _certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _hash(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}
