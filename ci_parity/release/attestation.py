"""A log line's in-toto Statement in a signed envelope, for tools that read those and not our log.

The envelope is DSSE (https://github.com/secure-systems-lab/dsse), made and signed by the library
securesystemslib: by a key in a file or the environment, or by one that never leaves a key
management service. The library is an extra (`ci-parity[attest]`) and imported on use. Unlike a
proof, an envelope says nothing of where the line stands.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.errors import ConfigError, EvidenceError, PublishError
from ci_parity.records.release import EntryKind, LogEntry
from ci_parity.release.line import FIRST_PREV, RESULTS, decode_line

if TYPE_CHECKING:
    from securesystemslib.signer import Signer, SSlibKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
SCHEMES = ("awskms", "azurekms", "gcpkms", "hsm", "hv")
"""Services and devices that keep a key to themselves, by the first word of the key's address."""


def statement_of(line: bytes) -> bytes:
    """Return the Statement in a line that `release.chain` has verified, as canonical JSON."""
    value = parse_strict(line, where="the release log")
    assert isinstance(value, dict)
    return canonical_bytes(value["statement"])


def read_statement(statement: Json) -> tuple[LogEntry, str]:
    """Read a Statement without its line, as strictly as a line; return its result too.

    What only a line says (kind, channel, place) is made up so that a line could hold it, and means
    nothing.

    Raises:
        EvidenceError: no line could hold it.
    """
    predicate = statement.get("predicate") if isinstance(statement, Mapping) else None
    result = predicate.get("result") if isinstance(predicate, Mapping) else None
    refusal = EvidenceError("it has no result")
    for kind in (kind for kind, said in RESULTS.items() if said == result):
        line: Json = {
            "v": 1, "log": "-", "seq": 0, "prev": FIRST_PREV, "idem": "-", "kind": kind.value,
            "channel": "-", "statement": statement,
        }  # fmt: skip
        try:
            read = decode_line(canonical_bytes(line), log=None, seq=0, prev=FIRST_PREV)
        except EvidenceError as error:
            # A rollback may give its reason where a validation must have none.
            refusal = refusal if kind is EntryKind.ROLLED_BACK else error
        else:
            return read.entry, str(result)
    raise refusal


def attest(statement: bytes, signer: "Signer") -> bytes:
    """Return the envelope of a Statement with one signature, as canonical JSON and one newline.

    Raises:
        PublishError: the key does not sign.
    """
    from securesystemslib.dsse import Envelope

    envelope = Envelope(statement, PAYLOAD_TYPE, {})
    try:
        envelope.sign(signer)
    except Exception as error:  # a signer raises whatever its service does
        raise PublishError(
            f"the key does not sign: {type(error).__name__}",
            where=type(signer).__name__,
            remedy="see that this job may use the key, and that it is of the public key given",
        ) from error
    return canonical_bytes(envelope.to_dict()) + b"\n"


def local_signer(pem: bytes, where: str) -> "Signer":
    """Return the signer of an unencrypted private key in PEM: Ed25519, ECDSA or RSA.

    Raises:
        ConfigError: it is none, or the library is not there.
    """
    _require_library()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    try:
        return CryptoSigner(load_pem_private_key(pem, password=None))
    except (ValueError, TypeError) as error:
        # The library's words may quote what it was given.
        raise ConfigError(
            "not an unencrypted private key in PEM, of Ed25519, ECDSA or RSA",
            where=where,
            remedy="make one with: openssl genpkey -algorithm ed25519 -out log.key",
        ) from error


def remote_signer(address: str, public_pem: bytes, where: str) -> "Signer":
    """Return the signer of a key that is used where it is kept.

    Args:
        address: `awskms:KEY`, `gcpkms:KEY`, `azurekms:…`, `hsm:…` or `hv:KEY`, as securesystemslib
            has them; credentials come from where the service's own library finds them.
        public_pem: the public half, so that nothing but the key that is meant signs.
        where: the public key's file.

    Raises:
        ConfigError: the address, the public key or a library cannot be used.
    """
    scheme, _, rest = address.partition(":")
    if scheme not in SCHEMES or not rest:
        raise ConfigError(
            f"{address!a} is not the address of a key",
            where="--key-uri",
            remedy=f"one of {', '.join(f'{name}:…' for name in SCHEMES)}",
        )
    _require_library()
    from securesystemslib.signer import Signer

    key = _public(public_pem, where)
    try:
        return Signer.from_priv_key_uri(address, key)
    except Exception as error:  # as for signing
        raise ConfigError(
            f"the key cannot be used: {type(error).__name__}: {str(error)[:200]}",
            where=address,
            remedy=f"install what {scheme} needs, pip install 'securesystemslib[{scheme}]', "
            "and give this job credentials",
        ) from error


def _public(pem: bytes, where: str) -> "SSlibKey":
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    try:
        return SSlibKey.from_crypto(load_pem_public_key(pem))
    except ValueError as error:
        raise ConfigError(
            "not a public key in PEM", where=where, remedy="export it from where the key is kept"
        ) from error


def _require_library() -> None:
    try:
        import cryptography  # noqa: F401 - whether it is there
        import securesystemslib.signer  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ConfigError(
            f"attestations need a library that is not installed: {error}",
            where="securesystemslib",
            remedy="install it: pip install 'ci-parity[attest]'",
        ) from error
