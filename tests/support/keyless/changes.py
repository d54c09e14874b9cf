"""What somebody may do to an attestation, each in one function, and to every part in turn."""

import base64
import json
from collections.abc import Iterator
from typing import Any

_ENTRY = "verificationMaterial.tlogEntries.0"
_STAMPS = "verificationMaterial.timestampVerificationData"
UNBOUND = {
    # The time is vouched for twice, by the log and by the clock, of which one is enough.
    1: {
        _STAMPS, f"{_STAMPS}.rfc3161Timestamps", f"{_STAMPS}.rfc3161Timestamps.0",
        f"{_STAMPS}.rfc3161Timestamps.0.signedTimestamp", f"{_ENTRY}.inclusionPromise",
    },
    # Both only hint at where to look; the proof has a number of its own.
    2: {f"{_ENTRY}.logIndex", f"{_ENTRY}.logId.keyId"},
}  # fmt: skip
"""What may be changed or left out, by the version of the log's interface; all else is bound."""


def parts(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each part of a document is, the whole left out."""
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner if isinstance(value, dict | list) else ():
        yield from parts(one, (*place, key))


def without(value: Any, place: tuple[Any, ...]) -> Any:
    """Return a document with a text changed in its middle, or anything else left out."""
    whole = json.loads(json.dumps(value))
    *folders, name = place
    inner = whole
    for folder in folders:
        inner = inner[folder]
    if isinstance(text := inner[name], str):
        middle = len(text) // 2
        other = next(one for one in ("12" if text.isdigit() else "AB") if one != text[middle])
        inner[name] = text[:middle] + other + text[middle + 1 :]
    else:
        del inner[name]
    return whole


def swapped_statement(value: dict[str, Any]) -> None:
    """Let the Statement say another count."""
    envelope = value["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    envelope["payload"] = base64.b64encode(payload.replace(b'"run":40', b'"run":41')).decode()


def no_proof(value: dict[str, Any]) -> None:
    """Leave out where the entry stands in the log."""
    del value["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]


def no_entry(value: dict[str, Any]) -> None:
    """Leave out the log."""
    value["verificationMaterial"]["tlogEntries"] = []


def another_place(value: dict[str, Any]) -> None:
    """Say that the entry stands elsewhere."""
    value["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]["logIndex"] = "3"


def bigger_log(value: dict[str, Any]) -> None:
    """Say that the log was larger."""
    proof = value["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]
    proof["checkpoint"]["envelope"] = proof["checkpoint"]["envelope"].replace("\n6\n", "\n7\n")


def no_time(value: dict[str, Any]) -> None:
    """Leave out whoever vouches for the time."""
    material = value["verificationMaterial"]
    material["tlogEntries"][0].pop("inclusionPromise", None)
    material.pop("timestampVerificationData", None)


def another_log_entry(value: dict[str, Any]) -> None:
    """Change what the log holds."""
    entry = value["verificationMaterial"]["tlogEntries"][0]
    body = base64.b64decode(entry["canonicalizedBody"]).replace(b"0.0.", b"0.1.")
    entry["canonicalizedBody"] = base64.b64encode(body).decode()


def of_a_file(value: dict[str, Any]) -> None:
    """Vouch for a file."""
    del value["dsseEnvelope"]
    value["messageSignature"] = {"signature": "AAAA"}


def two_signatures(value: dict[str, Any]) -> None:
    """Sign twice."""
    value["dsseEnvelope"]["signatures"] *= 2


def no_certificate(value: dict[str, Any]) -> None:
    """Put something else in place of the certificate."""
    value["verificationMaterial"]["certificate"] = {"rawBytes": "AAAA"}
