import json
import math
from dataclasses import replace
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.outcome import Outcome
from ci_parity.records.places import Part, Place
from ci_parity.report import stored
from ci_parity.report.words import failures, headline
from tests.unit.report.hostile import planted
from tests.unit.report.large import CASES, FAILED, SHORT, large
from tests.unit.report.samples import SAMPLES, diff, failed, finding, output, passed, row

REPORT = b"{}\n"


def restored(data: bytes, report: bytes = REPORT) -> Any:
    """Read a record back."""
    return stored.restore(data, report, where="verdict.record.json")


def edited(**parts: Any) -> bytes:
    """Return the record of a pass with parts of its verdict replaced."""
    document = json.loads(stored.store(passed(), REPORT))
    document["verdict"] |= parts
    return json.dumps(document).encode()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_verdict_comes_back_as_it_was(name: str) -> None:
    """Every part of it, whatever command reached it."""
    for verdict in (SAMPLES[name], diff(SAMPLES[name])):
        assert restored(stored.store(verdict, REPORT)) == verdict


def test_places_come_back() -> None:
    """With and without a line."""
    places = (
        Place(part=Part.MODEL, name="exported", path="m.onnx"),
        Place(part=Part.TARGET, name="cpu", path="ci-parity.yml", line=3),
    )
    assert restored(stored.store(passed(places=places), REPORT)).places == places


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_has_not_come_back(number: float) -> None:
    """A limit that would have been needed may have no end."""
    verdict = restored(stored.store(passed(outputs=(output(required=number),)), REPORT))
    assert str(verdict.outputs[0].required) == str(number)


@pytest.mark.parametrize("payload", SHORT.values(), ids=SHORT)
def test_any_text_can_be_stored(payload: str) -> None:
    """Cut where nobody reads it; the same verdict."""
    data = stored.store(planted(failed(), payload), REPORT)
    assert len(data) < stored.MAX_BYTES
    assert restored(data).outcome is Outcome.FAIL


def test_half_a_character_is_spelt_out() -> None:
    """As paths bring them that are no Unicode; no JSON reader takes one."""
    verdict = restored(stored.store(replace(failed(), deployment="a\udc80b"), REPORT))
    assert verdict.deployment == "a\\udc80b"


def test_of_many_comparisons_what_passed_is_left_out_first_and_counted() -> None:
    """The outcome stays, and a reader of any report made of it sees what is missing."""
    data = stored.store(large(), REPORT)
    assert len(data) < stored.MAX_BYTES
    verdict = restored(data)
    assert verdict.outcome is Outcome.FAIL
    assert len(failures(verdict)) == 10_000 < FAILED
    said = next(f for f in verdict.findings if f.id == "report.shortened")
    assert f"{CASES - 10_000} findings and {CASES - 10_000} output comparisons" in said.evidence
    assert "90000 findings left out of the record" in headline(verdict)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": "ci-parity/stored-verdict/v1"}',
        b'{"schema": 1, "report_sha256": "", "verdict": {}}',
        b'{"a": 1, "a": 2}', b"[" * 100_000, b'{"verdict": NaN}',
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(data: bytes) -> None:
    """Each in one message."""
    with pytest.raises(EvidenceError):
        restored(data)


def test_a_torn_record_is_refused() -> None:
    """Wherever it ends."""
    whole = stored.store(failed(), REPORT)
    for end in range(0, len(whole), 997):
        with pytest.raises(EvidenceError):
            restored(whole[:end])


def test_a_record_beside_another_report_is_refused() -> None:
    """A folder of files of two runs is of neither."""
    with pytest.raises(EvidenceError, match="not of one run"):
        restored(stored.store(passed(), REPORT), b"{}")


def test_a_large_record_is_not_read() -> None:
    """However well it may be formed."""
    with pytest.raises(EvidenceError, match="larger than 64 MiB"):
        restored(b" " * (stored.MAX_BYTES + 1))


@pytest.mark.parametrize(
    "parts",
    [
        {"outcome": "fine"}, {"outcome": None}, {"rows": {}}, {"rows": [{}]}, {"ran": 1},
        {"extra": 1}, {"inputs_count": "2"}, {"findings": "none"}, {"changes": []},
        {"environment": {"host": "h", "systems": "s"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_of_another_shape_is_refused(parts: dict[str, Any]) -> None:
    """Unknown keys and other types are not guessed at."""
    with pytest.raises(EvidenceError):
        restored(edited(**parts))


@pytest.mark.parametrize(
    "parts",
    [
        {"findings": (finding(),)},
        {"findings": (finding(outcome=Outcome.INCONCLUSIVE),)},
        {"findings": ()},
        {"findings": (finding(advisory=True),), "rows": ()},
        {"rows": (row(Outcome.FAIL),)},
        {"rows": (row(Outcome.INCONCLUSIVE),)},
        {"ran": False, "findings": (finding(),)},
    ],
    ids=str,
)
def test_a_pass_that_its_own_findings_deny_is_refused(parts: dict[str, Any]) -> None:
    """Who edits the outcome alone gains nothing."""
    with pytest.raises(EvidenceError, match="the verdict says pass"):
        restored(stored.store(passed(**parts), REPORT))
