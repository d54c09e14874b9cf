"""What a Sigstore bundle is worth: whether it vouches, for whom it must, for one bundle of ours.

Bytes in, a reading out, without a network: the keys and authorities that are trusted are given. The
library `sigstore` judges signature, certificate, its log's promise, and the public log's proof;
here stand what it leaves to its caller: that the roots vouched at that time, who must have signed,
that the Statement is one of ours, whole, and of which bundle. Everything else is a refusal in
words, and never a pass.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import LogEntry
from ci_parity.release.attestation import PAYLOAD_TYPE, read_statement
from ci_parity.release.keyless import names_in, public_roots, read_limited, require_library
from ci_parity.release.layout import PREDICATE_TYPE

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from sigstore.models import Bundle, TrustedRoot

GITHUB_ISSUER = "https://token.actions.githubusercontent.com"
_LOG = logging.getLogger(__name__)
_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle"
_ROOTS_REMEDY = "name a trusted_root.json, or what `gh attestation trusted-root` prints"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What must be vouched for, and by whom.

    `identity` is the certificate's name in full, such as
    `https://github.com/OWNER/NAME/.github/workflows/FILE@refs/tags/v1`; a `*` at its end, after
    `@refs/`, stands for any rest. `issuer` is who vouched for that identity.
    """

    digest: str
    identity: str
    issuer: str = GITHUB_ISSUER

    def __post_init__(self) -> None:
        fixed, star, _ = self.identity.partition("*")
        if not fixed or (star and ("@refs/" not in fixed or not self.identity.endswith("/*"))):
            raise ConfigError(
                f"{self.identity!a} does not name who must have signed",
                where="--identity",
                remedy="give the whole name; only a last part after @refs/ may be left open, as in "
                "https://github.com/OWNER/NAME/.github/workflows/release.yml@refs/tags/*",
            )

    def accepts(self, name: str) -> bool:
        """Tell whether a certificate of this name is one that must have signed."""
        if self.identity.endswith("*"):
            return name.startswith(self.identity[:-1])
        return name == self.identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One attestation, judged: its Statement where it vouches, and in words why it does not."""

    outcome: Outcome
    words: str
    entry: LogEntry | None = None


class Roots:
    """Keys and authorities that are trusted: those of a file, else the public Sigstore's by TUF.

    Raises:
        ConfigError: the library is missing, or a file holds no roots.
    """

    def __init__(self, path: Path | None) -> None:
        require_library()
        self._known = [_root(value) for value in _documents(path)] if path else []
        for value in self._known:
            _load(value, where=str(path))

    def _values(self) -> list[Mapping[str, Json]]:
        """Return the roots; the network is asked where they are needed, and once."""
        if not self._known:
            # No public way leads to the JSON, of which a part is judged here.
            text = public_roots().trusted_root._inner.to_json()  # noqa: SLF001
            self._known = [_object(text, "the public Sigstore's roots")]
        return self._known

    def as_of(self, at: datetime) -> "list[TrustedRoot]":
        """Return the roots with what vouched at one time; not those that nothing is left of.

        The library takes signatures of authorities and logs from after their time too.

        Raises:
            InfrastructureError: the public Sigstore's cannot be had.
        """
        found = []
        for value in self._values():
            kept = {
                **value,
                "certificateAuthorities": [
                    one for one in _listed(value, "certificateAuthorities") if _holds(one, at)
                ],
                **{
                    name: [one for one in _listed(value, name) if _holds(one.get("publicKey"), at)]
                    for name in ("tlogs", "ctlogs")
                },
            }
            if kept["certificateAuthorities"] and kept["tlogs"] and kept["ctlogs"]:
                found.append(_load(kept, where="trusted root"))
        return found


@dataclass(slots=True)
class _Required:
    """The library's question whether a certificate is the right one; remembers the answer no."""

    asked: Asked
    refusal: str = field(default="")

    def verify(self, certificate: "Certificate") -> None:
        from sigstore.errors import VerificationError
        from sigstore.verify.policy import AnyOf, OIDCIssuer, OIDCIssuerV2

        names = names_in(certificate)
        if not any(self.asked.accepts(name) for name in names):
            signer = ascii(", ".join(names))
            self.refusal = f"it was signed by {signer}, not by {self.asked.identity}"
            raise VerificationError(self.refusal)
        issuer = self.asked.issuer
        self.refusal = f"another issuer than {issuer} vouched for who signed it"
        AnyOf([OIDCIssuerV2(issuer), OIDCIssuer(issuer)]).verify(certificate)
        self.refusal = ""


def examine(data: bytes, asked: Asked, roots: Roots, *, where: str) -> Reading:
    """Judge one attestation.

    1. It is a Sigstore bundle around a Statement.  2. A public log has proved that it holds the
    signature.  3. The roots vouched at that time, and all signatures hold.  4. Who had to sign did.
    5. The Statement is ours and of this bundle.

    Raises:
        EvidenceError: it is no JSON that could be read in one way only.
        InfrastructureError: the roots cannot be had.
    """
    value = _object(data, where)
    if early := _unfit(value):
        return early
    try:
        from sigstore.models import Bundle

        bundle = Bundle.from_json(canonical_bytes(value))
        at = bundle.signing_certificate.not_valid_before_utc
    except Exception as error:  # noqa: BLE001 - hostile bytes meet any error of several parsers
        return _refused(f"it is no Sigstore bundle that can be read: {_first_line(error)}")
    trusted = roots.as_of(at)
    if not trusted:
        return _refused(f"no trusted authority and logs were valid at {at:%Y-%m-%dT%H:%M:%SZ}, "
                        "when it was signed: the root has expired, or is younger")  # fmt: skip
    readings = [_verified(bundle, asked, root) for root in trusted]
    return next((one for one in readings if one.entry is not None), readings[0])


def _unfit(value: Mapping[str, Json]) -> Reading | None:
    """Say what a document is that is no bundle around a logged Statement."""
    if "_type" in value:
        return _open("unsigned: a bare Statement, which anyone could have written")
    if "payload" in value and "signatures" in value:
        return _open("it is an envelope signed by a key, not a Sigstore bundle: hold it against "
                     "that key")  # fmt: skip
    if not str(value.get("mediaType")).startswith(_MEDIA_TYPE):
        return _refused("it is no Sigstore bundle")
    if "dsseEnvelope" not in value:
        return _refused("it vouches for a file, not for a Statement: it is of another artifact")
    material = value.get("verificationMaterial")
    entries = material.get("tlogEntries") if isinstance(material, Mapping) else None
    if not isinstance(entries, Sequence) or not any(
        isinstance(one, Mapping) and one.get("inclusionProof") for one in entries
    ):
        return _refused("it has no inclusion proof: no public log shows that it holds it")
    return None


def _verified(bundle: "Bundle", asked: Asked, root: "TrustedRoot") -> Reading:
    from sigstore.errors import CertValidationError
    from sigstore.verify import Verifier

    required = _Required(asked)
    try:
        kind, payload = Verifier(trusted_root=root).verify_dsse(bundle, required)
    except CertValidationError:
        return _refused("its certificate is of no trusted authority, or of none that was valid "
                        "then: the root has expired, or is another")  # fmt: skip
    except Exception as error:  # noqa: BLE001 - as in reading it
        return _refused(required.refusal or f"it does not verify: {_first_line(error)}")
    name = next(one for one in names_in(bundle.signing_certificate) if asked.accepts(one))
    return _about(kind, payload, asked, name)


def _about(kind: str, payload: bytes, asked: Asked, name: str) -> Reading:
    """Judge a Statement that the right one has signed."""
    if kind != PAYLOAD_TYPE:
        return _refused(f"what was signed is {kind[:80]!a}, not a Statement")
    try:
        value = _object(payload, "the Statement")
        if (predicate := value.get("predicateType")) != PREDICATE_TYPE:
            return _refused(f"it says something else of its subject: {str(predicate)[:80]!a}")
        entry, result = read_statement(value)
    except EvidenceError as error:
        return _refused(f"its Statement is not one of ours: {error.what}")
    if entry.bundle != asked.digest:
        return _refused(f"it is of another bundle, sha256:{entry.bundle}")
    outcome = {"PASSED": Outcome.PASS, "FAILED": Outcome.FAIL}.get(result, Outcome.INCONCLUSIVE)
    ran = f"{entry.cases_run} of {entry.cases_expected} cases, finished {entry.finished_at}"
    return Reading(outcome=outcome, words=f"{result}, {ran}, signed by {name}", entry=entry)


def judge(readings: Sequence[Reading]) -> Outcome:
    """Return what several attestations of one bundle come to; none is never a pass.

    Of those that vouch the newest decides that does not leave it open, as in the log; where none
    vouches, a refusal is one.
    """
    said = [one for one in readings if one.entry is not None]
    if not said:
        return Outcome.worst([one.outcome for one in readings])
    decided = [one for one in said if one.outcome is not Outcome.INCONCLUSIVE]
    if not decided:
        return Outcome.INCONCLUSIVE
    newest = max(_finished(one) for one in decided)
    return Outcome.worst([one.outcome for one in decided if _finished(one) == newest])


def _finished(reading: Reading) -> datetime:
    assert reading.entry is not None
    return datetime.fromisoformat(reading.entry.finished_at)


def _documents(path: Path) -> list[Mapping[str, Json]]:
    """Read a file of one JSON document, or of one in each line."""
    data = read_limited(path, _ROOTS_REMEDY)
    try:
        return [_object(data, str(path))]
    except EvidenceError:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise
        return [_object(line, str(path)) for line in lines]


def _root(value: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the roots in a document of nothing else, or of where to sign too."""
    inner = value.get("trustedRoot", value)
    assert isinstance(inner, Mapping) or inner is None
    return inner or {}


def _load(value: Mapping[str, Json], *, where: str) -> "TrustedRoot":
    from sigstore.models import TrustedRoot
    from sigstore_models.trustroot.v1 import TrustedRoot as Inner

    try:
        return TrustedRoot(Inner.from_json(canonical_bytes(value)))
    except Exception as error:
        raise ConfigError(
            f"no trusted roots: {_first_line(error)}", where=where, remedy=_ROOTS_REMEDY
        ) from error


def _listed(value: Mapping[str, Json], name: str) -> list[Mapping[str, Json]]:
    found = value.get(name)
    if not isinstance(found, Sequence):
        return []
    return [one for one in found if isinstance(one, Mapping)]


def _holds(holder: Json, at: datetime) -> bool:
    """Tell whether a time lies in what a key or an authority says of its own; none is no time."""
    window = holder.get("validFor") if isinstance(holder, Mapping) else None
    if not isinstance(window, Mapping):
        return False
    try:
        start = datetime.fromisoformat(str(window["start"]))
        end = datetime.fromisoformat(str(window["end"])) if window.get("end") else at
        return bool(start <= at <= end)
    except (KeyError, ValueError, TypeError):
        return False


def _object(text: str | bytes, where: str) -> Mapping[str, Json]:
    value = parse_strict(text, where=where)
    if not isinstance(value, Mapping):
        raise EvidenceError("it is JSON, but no object", where=where)
    return value


def _first_line(error: Exception) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0]
    return ascii(text)[1:-1][:200]


def _refused(words: str) -> Reading:
    return Reading(outcome=Outcome.FAIL, words=words)


def _open(words: str) -> Reading:
    return Reading(outcome=Outcome.INCONCLUSIVE, words=words)
