"""A verdict as a file that can be read back, so that other reports can be made of it later.

No published contract: another version may write it otherwise. What is read is untrusted. A file
that is too large, torn, not ours, or not that of the `verdict.json` beside it is refused, and so is
a verdict that is better than its own findings.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict

SCHEMA = "ci-parity/stored-verdict/v1"
MAX_BYTES = 64 * 1024 * 1024
_MAX_ITEMS = 10_000
_MAX_TEXT = 32 * 1024
_KEYS = {"schema", "report_sha256", "verdict"}
_NUMBER = "number"
_ORDER = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1}
_Judged = TypeVar("_Judged", Finding, OutputComparison)
_REMEDY = "run `ci-parity check --report-dir DIR` again and publish from DIR"


def store(verdict: Verdict, report: bytes) -> bytes:
    """Return a verdict as JSON text of at most `MAX_BYTES`; `report` is the `verdict.json` of it.

    Where there is too much of it, what passed is left out first, and a warning counts it.
    """
    for shown in (_MAX_ITEMS, _MAX_ITEMS // 10, _MAX_ITEMS // 100, 1):
        document = {
            "schema": SCHEMA,
            "report_sha256": sha256_bytes(report),
            "verdict": _written(to_json(shortened(verdict, shown))),
        }
        data = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
        if len(data) <= MAX_BYTES:
            return data
    raise EvidenceError("the verdict is too large to be stored", where=verdict.deployment)


def restore(data: bytes, report: bytes, *, where: str) -> Verdict:
    """Return the verdict that `store` wrote beside `report`.

    Raises:
        EvidenceError: it cannot be trusted to be one.
    """
    if len(data) > MAX_BYTES:
        raise EvidenceError(f"larger than {MAX_BYTES >> 20} MiB", where=where, remedy=_REMEDY)
    document = parse_strict(data, where=where)
    if not isinstance(document, Mapping) or set(document) != _KEYS or document["schema"] != SCHEMA:
        raise EvidenceError("not a stored verdict of this version", where=where, remedy=_REMEDY)
    if document["report_sha256"] != sha256_bytes(report):
        raise EvidenceError(
            "the files of the folder are not of one run", where=where, remedy=_REMEDY
        )
    verdict = from_json(Verdict, _read(document["verdict"]), where=where)
    worst = _worst(verdict)
    if Outcome.worst([worst, verdict.outcome]) is not verdict.outcome:
        said = f"the verdict says {verdict.outcome.value}, its findings {worst.value}"
        raise EvidenceError(said, where=where, remedy=_REMEDY)
    return verdict


def shortened(verdict: Verdict, most: int) -> Verdict:
    """Return a verdict with at most so many findings and comparisons, the gravest of them.

    A warning says how many were left out.
    """
    findings, lost = _gravest(verdict.findings, most)
    outputs, more = _gravest(verdict.outputs, most)
    if not lost and not more:
        return verdict
    said = f"{lost} findings and {more} output comparisons are not in this report: too many"
    note = Finding(
        id="report.shortened", outcome=Outcome.INCONCLUSIVE, subject=Subject(), evidence=said,
        remedy="all of them are in verdict.json", advisory=True,
    )  # fmt: skip
    notes = "; ".join(filter(None, (verdict.note, f"{lost} findings left out of the record")))
    return replace(verdict, findings=(*findings, note), outputs=outputs, note=notes)


def _gravest(items: Sequence[_Judged], most: int) -> tuple[tuple[_Judged, ...], int]:
    """Return the gravest of `items` in their order, and the number of those left out."""
    if len(items) <= most:
        return tuple(items), 0
    kept = sorted(range(len(items)), key=lambda at: (_rank(items[at]), at))[:most]
    return tuple(items[at] for at in sorted(kept)), len(items) - most


def _rank(item: Finding | OutputComparison) -> int:
    """Return 0 for what binds and failed, up to 3 for what passed."""
    if item.outcome is Outcome.PASS:
        return 3
    return 2 if isinstance(item, Finding) and item.advisory else _ORDER[item.outcome]


def _worst(verdict: Verdict) -> Outcome:
    """Return the outcome that findings and rows amount to."""
    binding = [f.outcome for f in verdict.findings if not f.advisory]
    held = Outcome.worst(binding) if verdict.ran or binding else Outcome.PASS
    return Outcome.worst([held, *(row.outcome for row in verdict.rows)])


def _written(value: Json) -> Json:
    """Return JSON without what JSON cannot hold: numbers that are not finite, halves of characters.

    Texts longer than anyone reads are cut.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: str(value)}
    if isinstance(value, str):
        kept = value if len(value) <= _MAX_TEXT else f"{value[:_MAX_TEXT]}…"
        return kept.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_written(item) for item in value]
    return value


def _read(value: Json) -> Json:
    if isinstance(value, Mapping):
        if set(value) == {_NUMBER} and value[_NUMBER] in {"inf", "-inf", "nan"}:
            return float(cast("str", value[_NUMBER]))
        return {key: _read(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_read(item) for item in value]
    return value
