"""One line is read only in the one spelling that its entry has."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.records.latency import LoggedTiming
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.release.line import (
    FIRST_PREV,
    MAX_LINE_BYTES,
    RESULTS,
    decode_line,
    encode_line,
)
from tests.unit.release.samples import ORIGIN, changed, digest, entry, identity, put

LINE = encode_line(entry(), log=ORIGIN, seq=0, prev=FIRST_PREV)[:-1]
MADE = '{"file.tokenizer.json":"0","kind":"text"}'
WITH_PIPELINE = encode_line(
    entry(identities=(identity("cpu", preprocess=MADE), identity("gpu"))),
    log=ORIGIN, seq=0, prev=FIRST_PREV,
)[:-1]  # fmt: skip
TIMINGS = (
    LoggedTiming(target="cpu", variant="int8", case="typical", p50_ns=1_204_000, sessions=4),
    LoggedTiming(
        target="cpu", variant="int8", case='the "largest"', p50_ns=9, sessions=16,
        log_ratio_ppm=-1_250, error_ppm=800,
    ),
)  # fmt: skip
TIMED = encode_line(entry(timings=TIMINGS), log=ORIGIN, seq=0, prev=FIRST_PREV)[:-1]
PREDICATE = "statement.predicate"
TARGET = f"{PREDICATE}.targets.0"


def read(line: bytes) -> LogLine:
    """Read a line as the first of its log."""
    return decode_line(line, log=ORIGIN, seq=0, prev=FIRST_PREV, where="log: record 0")


def refused(line: bytes) -> str:
    """Return why a line is refused."""
    with pytest.raises(EvidenceError) as caught:
        read(line)
    assert caught.value.where == "log: record 0"
    assert caught.value.remedy
    return caught.value.what


def unwritable(item: LogEntry) -> str:
    """Return why an entry cannot be written."""
    with pytest.raises(EvidenceError) as caught:
        encode_line(item, log=ORIGIN, seq=0, prev=FIRST_PREV)
    assert caught.value.remedy
    return caught.value.what


def test_a_line_is_an_in_toto_statement_in_the_chain() -> None:
    """The format, spelled out once in full."""
    item = entry(
        kind=EntryKind.BLOCKED, findings_failed=("output.values",), identities=(identity(),)
    )
    line = encode_line(item, log=ORIGIN, seq=7, prev=digest("before"))
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "v": 1,
        "log": ORIGIN,
        "seq": 7,
        "prev": digest("before"),
        "idem": "acme/models/0/1/validated",
        "kind": "blocked",
        "channel": "edge-prod",
        "statement": {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "bundle.json", "digest": {"sha256": digest("bundle 0")}}],
            "predicateType": "https://ci-parity.dev/parity-release/v1",
            "predicate": {
                "result": "FAILED",
                "deployment": "ocr-reader",
                "targets": [
                    {
                        "target": "cpu",
                        "variant": "int8",
                        "model": digest("model"),
                        "runtime": "onnxruntime==1.32.0",
                        "provider": "CPUExecutionProvider",
                        "options": '{"provider":{},"session":{"intra_op_num_threads":1}}',
                        "optimization": "",
                        "fixtures": digest("fixtures"),
                        "policy": '{"tolerance":"ladder"}',
                        "converter": "",
                        "components": "",
                        "host": "",
                    }
                ],
                "failedFindings": ["output.values"],
                "fixtures": {"expected": 40, "run": 40},
                "tool": {"version": "0.1.0"},
                "invocation": {
                    "commit": "c0ffee" * 6 + "c0ff",
                    "runUrl": "https://git.example/acme/models/actions/runs/0",
                },
                "finishedOn": "2026-11-30T10:00:00Z",
            },
        },
    }


def test_an_index_of_results_stands_first_where_there_is_one() -> None:
    """A digest and nothing else; a line without one has no such key."""
    line = encode_line(entry(coverage=digest("i")), log=ORIGIN, seq=0, prev=FIRST_PREV)[:-1]
    assert json.loads(line)["statement"]["predicate"]["coverage"] == digest("i")
    assert read(line).entry.coverage == digest("i")
    assert read(LINE).entry.coverage == ""
    for bad in ("", "sha256:" + digest("i"), digest("i").upper(), None):
        refused(changed(line, put(f"{PREDICATE}.coverage", bad))[:-1])
    assert "64 lowercase" in unwritable(entry(coverage="../x"))


def test_a_pipeline_stands_in_its_target_alone_and_in_key_order() -> None:
    """Between policy and provider, and only where there is one: other lines stay what they were."""
    with_one, without = json.loads(WITH_PIPELINE)["statement"]["predicate"]["targets"]
    assert with_one["preprocess"] == MADE
    assert "preprocess" not in without
    keys = list(with_one)
    assert keys[keys.index("policy") :][:3] == ["policy", "preprocess", "provider"]
    assert read(WITH_PIPELINE).entry.identities[0].preprocess == MADE
    assert b"preprocess" not in LINE


def test_a_line_of_before_pipelines_reads_as_having_none() -> None:
    """Its bytes, and so its digest and all that is chained to it, are what they were."""
    record = read(LINE)
    assert {identity.preprocess for identity in record.entry.identities} == {""}
    assert encode_line(record.entry, log=ORIGIN, seq=0, prev=FIRST_PREV) == LINE + b"\n"


def test_what_was_timed_stands_beside_the_result() -> None:
    """A ratio and its error stand there together, or neither does; nothing timed has no key."""
    first, second = json.loads(TIMED)["statement"]["predicate"]["latency"]
    assert first == {
        "target": "cpu", "variant": "int8", "case": "typical", "p50Ns": 1204000, "sessions": 4,
    }  # fmt: skip
    assert (second["logRatioPpm"], second["errorPpm"]) == (-1250, 800)
    assert read(TIMED).entry.timings == TIMINGS
    assert b"latency" not in LINE
    assert read(LINE).entry.timings == ()


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("latency", []),
        ("latency", "fast"),
        ("latency", [{}]),
        ("latency.0.p50Ns", 1.5),
        ("latency.0.p50Ns", -1),
        ("latency.0.case", ""),
        ("latency.0.errorPpm", 3),
        ("latency.1.logRatioPpm", "0"),
        ("latency.1.more", 1),
    ],
)
def test_refuses_timings_that_are_none(path: str, bad: Any) -> None:
    """No array of them is empty, and no number is anything but whole."""
    refused(changed(TIMED, put(f"{PREDICATE}.{path}", bad))[:-1])


def test_refuses_an_empty_pipeline() -> None:
    """To have none has one spelling: no key."""
    said = refused(changed(LINE, put(f"{TARGET}.preprocess", ""))[:-1])
    assert said.endswith(".preprocess is '\"\"', which is not printable text that is not empty")


@pytest.mark.parametrize("value", [None, 1, ["a"], {"kind": "text"}, "line\nbreak"])
def test_refuses_a_pipeline_that_is_no_text(value: Any) -> None:
    """Both readers agree on what may stand there."""
    assert ".preprocess" in refused(changed(LINE, put(f"{TARGET}.preprocess", value))[:-1])


@pytest.mark.parametrize("place", ["", "statement.", f"{PREDICATE}.", f"{PREDICATE}.fixtures."])
def test_refuses_a_pipeline_elsewhere(place: str) -> None:
    """It belongs to a target."""
    assert "unknown key 'preprocess'" in refused(
        changed(LINE, put(f"{place}preprocess", MADE))[:-1]
    )


TEXT = st.text(
    st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), min_size=1, max_size=20
)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
IDENTITIES = st.builds(
    identity, TEXT, TEXT, model=DIGESTS, runtime=TEXT, provider=TEXT | st.just(""),
    options=TEXT | st.just(""), optimization=DIGESTS | st.just(""), preprocess=TEXT | st.just(""),
)  # fmt: skip

TIMED_CASES = st.builds(
    LoggedTiming, target=TEXT, variant=TEXT, case=TEXT, p50_ns=st.integers(0, 10**12 - 1),
    sessions=st.integers(0, 16), log_ratio_ppm=st.none() | st.integers(1 - 10**9, 10**9 - 1),
)  # fmt: skip


@given(
    kind=st.sampled_from([EntryKind.BLOCKED, EntryKind.INCONCLUSIVE, EntryKind.REVOKED]),
    texts=st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT),
    identities=st.lists(IDENTITIES, max_size=3, unique_by=lambda i: (i.target, i.variant)),
    failed=st.lists(TEXT, max_size=3),
    counts=st.tuples(st.integers(0, 10**12 - 1), st.integers(0, 10**12 - 1)),
    finished=st.datetimes(),
    timings=st.lists(TIMED_CASES, max_size=3),
)
@settings(deadline=None)
def test_every_entry_goes_round(
    kind: EntryKind, texts: Any, identities: Any, failed: Any, counts: Any, finished: Any,
    timings: Any,
) -> None:  # fmt: skip
    """What can be written is read back equal, quotes, backslashes and all scripts included."""
    log, channel, key, deployment, tool = texts
    item = entry(
        kind=kind, channel=channel, idempotency=key, deployment=deployment, tool_version=tool,
        identities=tuple(identities), findings_failed=tuple(failed), cases_run=counts[0],
        cases_expected=counts[1], finished_at=f"{finished.isoformat()}Z", run_url="",
        timings=tuple(timings),
    )  # fmt: skip
    line = encode_line(item, log=log, seq=3, prev=digest("x"))
    assert decode_line(line[:-1], log=log, seq=3, prev=digest("x")).entry == item


@given(
    whole=st.sampled_from([LINE, WITH_PIPELINE, TIMED]), position=st.integers(0, len(TIMED) - 1),
    piece=st.binary(max_size=3), cut=st.integers(0, 3),
)  # fmt: skip
@settings(deadline=None, max_examples=500)
def test_what_is_read_is_what_would_be_written(
    whole: bytes, position: int, piece: bytes, cut: int
) -> None:
    """However a line is changed, it is refused or is the one spelling of what was read."""
    line = whole[:position] + piece + whole[position + cut :]
    try:
        record = read(line)
    except EvidenceError:
        return
    assert encode_line(record.entry, log=ORIGIN, seq=0, prev=FIRST_PREV) == line + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace(b'"v":1', b'"v": 1'),
        LINE.replace(b'"v":1', b'"v":1.0'),
        LINE + b" ",
        b" " + LINE,
        json.dumps(json.loads(LINE)).encode(),
        json.dumps(dict(reversed(json.loads(LINE).items())), separators=(",", ":")).encode(),
        LINE.replace(b"edge-prod", b"edge\\u002dprod"),
        LINE.replace(b"https://git", b"https:\\/\\/git"),
    ],
)
def test_refuses_another_spelling_of_the_same_json(line: bytes) -> None:
    """Blanks, key order, number forms and needless escapes would change the digest unseen."""
    assert "not in its canonical form" in refused(line)


def test_refuses_a_byte_order_mark() -> None:
    """A line starts with its brace."""
    assert "malformed JSON" in refused(b"\xef\xbb\xbf" + LINE)


def test_refuses_other_encodings() -> None:
    """UTF-16 is JSON to Python's parser and not to this one."""
    assert "malformed JSON" in refused(LINE.decode().encode("utf-16"))


def test_refuses_bytes_that_are_no_utf8() -> None:
    """Latin-1 is not guessed at."""
    assert "malformed JSON" in refused(LINE.replace(b"edge", b"\xe9dge"))


def test_41_refuses_a_duplicate_key() -> None:
    """Two readers would take different values."""
    assert "duplicate key" in refused(LINE.replace(b'"v":1', b'"v":1,"v":1'))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_41_refuses_a_number_that_is_none(number: bytes) -> None:
    """Nothing beyond the range of a double is a number here."""
    assert "malformed JSON" in refused(LINE.replace(b'"expected":40', b'"expected":' + number))


def test_41_refuses_an_integer_beyond_what_json_readers_share() -> None:
    """Above 2^53 readers round differently."""
    assert "canonical" in refused(LINE.replace(b'"run":40', b'"run":9007199254740993'))


def test_41_refuses_an_integer_of_thousands_of_digits() -> None:
    """A number made to cost time is malformed."""
    assert "malformed JSON" in refused(LINE.replace(b'"run":40', b'"run":' + b"9" * 5000))


def test_41_refuses_deep_nesting() -> None:
    """Brackets by the thousand end in a refusal, not in a crash."""
    assert "malformed JSON" in refused(b"[" * 30_000 + b"]" * 30_000)
    assert "nested deeper" in refused(b"[" * 200 + b"]" * 200)


def test_41_refuses_lone_surrogates() -> None:
    """Half a character has no UTF-8 form."""
    assert "malformed JSON" in refused(LINE.replace(b"edge", b"\\ud800"))


@pytest.mark.parametrize("line", [b"null", b"[]", b"1", b'"text"', b"{}", b"{"])
def test_refuses_json_that_is_no_line(line: bytes) -> None:
    """Anything but the one object is refused."""
    refused(line)


def test_42_refuses_a_line_of_more_than_64_kib() -> None:
    """A reader never has to hold more, whatever a line contains."""
    long = changed(LINE, put("channel", "x" * MAX_LINE_BYTES))[:-1]
    assert f"at most {MAX_LINE_BYTES}" in refused(long)


def test_42_the_limit_counts_the_newline() -> None:
    """A line of exactly 64 KiB with its newline is the longest."""
    spare = MAX_LINE_BYTES - len(LINE) - 1 + len("edge-prod")
    longest = encode_line(entry(channel="x" * spare), log=ORIGIN, seq=0, prev=FIRST_PREV)
    assert len(longest) == MAX_LINE_BYTES
    assert "at most" in unwritable(entry(channel="x" * (spare + 1)))


@pytest.mark.parametrize(
    "bad",
    ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "sha256:" + "0" * 57, "../" + "0" * 61, None, 7],
)
@pytest.mark.parametrize("path", ["prev", "statement.subject.0.digest.sha256", f"{TARGET}.model"])
def test_49_refuses_what_is_no_digest(path: str, bad: Any) -> None:
    """Only 64 lowercase hexadecimal digits are a digest, short of a path or another algorithm."""
    assert "64 lowercase hexadecimal digits" in refused(changed(LINE, put(path, bad))[:-1])


def test_absent_fixtures_have_an_empty_digest() -> None:
    """A target without fixtures says so with an empty text, nothing else."""
    line = changed(LINE, put(f"{TARGET}.fixtures", ""))[:-1]
    assert read(line).entry.identities[0].fixtures == ""
    refused(changed(LINE, put(f"{TARGET}.fixtures", "0" * 40))[:-1])


@pytest.mark.parametrize("text", ["", "0" * 64, '{"recipe":"0","requires":"tools.lock"}'])
def test_an_optimization_is_a_digest_or_facts(text: str) -> None:
    """Lines from before tools were recorded hold the digest of the recipe."""
    line = changed(LINE, put(f"{TARGET}.optimization", text))[:-1]
    assert read(line).entry.identities[0].optimization == text


def test_49_refuses_another_digest_algorithm() -> None:
    """A second or weaker digest beside SHA-256 is an unknown key."""
    weak = changed(LINE, put("statement.subject.0.digest", {"md5": "0" * 32}))[:-1]
    assert "misses the key 'sha256'" in refused(weak)
    both = {"md5": "0" * 32, "sha256": digest("bundle")}
    assert "unknown key" in refused(changed(LINE, put("statement.subject.0.digest", both))[:-1])


@pytest.mark.parametrize("count", [0, 2])
def test_refuses_any_number_of_subjects_but_one(count: int) -> None:
    """One line speaks of one bundle."""
    subject = {"name": "bundle.json", "digest": {"sha256": digest("bundle")}}
    line = changed(LINE, put("statement.subject", [subject] * count))[:-1]
    assert f"$.statement.subject has {count} items where exactly 1" in refused(line)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("v", 2),
        ("statement._type", "https://in-toto.io/Statement/v0.1"),
        ("statement.predicateType", "https://in-toto.io/attestation/test-result/v0.1"),
        ("statement.subject.0.name", "model.onnx"),
    ],
)
def test_refuses_another_format(path: str, value: Any) -> None:
    """Versions and types are fixed; another is not read as if it were this one."""
    assert "which is not" in refused(changed(LINE, put(path, value))[:-1])


@pytest.mark.parametrize("path", ["extra", "statement.extra", f"{PREDICATE}.extra", f"{TARGET}.x"])
def test_refuses_unknown_keys(path: str) -> None:
    """What this version does not know it does not pass over."""
    assert "unknown key" in refused(changed(LINE, put(path, "x"))[:-1])


@pytest.mark.parametrize("key", ["v", "log", "seq", "prev", "idem", "kind", "channel", "statement"])
def test_refuses_a_missing_key(key: str) -> None:
    """Every key is there, empty or not."""
    assert f"misses the key '{key}'" in refused(changed(LINE, lambda v: v.pop(key))[:-1])


@pytest.mark.parametrize("bad", ["", "two\nlines", "bell\x07", "\x85", "a\u2028b", "\u202egnp", 1])
@pytest.mark.parametrize(
    "path",
    ["log", "idem", "channel", f"{PREDICATE}.deployment", f"{PREDICATE}.tool.version",
     f"{TARGET}.target", f"{TARGET}.variant", f"{TARGET}.runtime"],
)  # fmt: skip
def test_refuses_text_that_is_empty_or_not_printable(path: str, bad: Any) -> None:
    """Control, separating and reordering characters would mislead who reads the log."""
    assert "which is not printable text" in refused(changed(LINE, put(path, bad))[:-1])


@pytest.mark.parametrize("bad", [True, -1, 1.5, "0", None, 10**12])
@pytest.mark.parametrize("path", ["seq", f"{PREDICATE}.fixtures.run"])
def test_refuses_what_is_no_count(path: str, bad: Any) -> None:
    """A count is a whole number; neither true nor "0" is one."""
    refused(changed(LINE, put(path, bad))[:-1])


@pytest.mark.parametrize("bad", ["c0ffee", "HEAD", "C" * 40, "c" * 41, "c" * 63])
def test_refuses_a_commit_that_is_not_full(bad: str) -> None:
    """An abbreviated commit may come to mean another."""
    assert "full commit id" in refused(
        changed(LINE, put(f"{PREDICATE}.invocation.commit", bad))[:-1]
    )


@pytest.mark.parametrize("bad", ["javascript:alert(1)", "file:///etc", "https://", "http://a b"])
def test_refuses_an_address_that_is_not_of_the_web(bad: str) -> None:
    """A run's address becomes a link in reports."""
    assert "address" in refused(changed(LINE, put(f"{PREDICATE}.invocation.runUrl", bad))[:-1])


@pytest.mark.parametrize(
    "bad",
    ["2026-11-30", "2026-11-30T10:00:00", "2026-11-30T10:00:00+00:00", "2026-11-30 10:00:00Z",
     "2026-13-30T10:00:00Z", "2026-11-31T10:00:00Z", "2026-11-30T24:00:00Z", "٢026-11-30T10:00:00Z",
     "2026-11-30T10:00:00z", "2026-11-30T10:00:00.Z", ""],
)  # fmt: skip
def test_refuses_what_is_no_time_in_utc(bad: str) -> None:
    """Only RFC 3339 with Z is a time, and only a day that exists."""
    assert "finishedOn" in refused(changed(LINE, put(f"{PREDICATE}.finishedOn", bad))[:-1])


@pytest.mark.parametrize("kind", list(EntryKind))
@pytest.mark.parametrize("result", ["PASSED", "FAILED", "INCONCLUSIVE", "passed", "SKIPPED"])
def test_refuses_a_result_that_contradicts_its_kind(kind: EntryKind, result: str) -> None:
    """Kind and statement say the same, or the line says nothing."""
    line = encode_line(entry(kind=kind), log=ORIGIN, seq=0, prev=FIRST_PREV)[:-1]
    altered = changed(line, put(f"{PREDICATE}.result", result))[:-1]
    if result == RESULTS[kind]:
        assert read(altered).entry.kind is kind
    else:
        refused(altered)


def test_refuses_an_unknown_kind() -> None:
    """A kind from another version is not guessed at."""
    assert "one of validated" in refused(changed(LINE, put("kind", "approved"))[:-1])


def test_refuses_one_variant_on_one_target_twice() -> None:
    """Two identities for the same thing would contradict each other."""
    assert "twice" in unwritable(entry(identities=(identity(), identity(model=digest("other")))))


@pytest.mark.parametrize("bad", [None, {}, "text", [1], [[]], [{}], [None]])
def test_refuses_targets_that_are_none(bad: Any) -> None:
    """The array of targets holds whole targets."""
    assert "targets" in refused(changed(LINE, put(f"{PREDICATE}.targets", bad))[:-1])


@pytest.mark.parametrize("bad", [None, "output.values", [1], [""], [["x"]], [None]])
def test_refuses_findings_that_are_none(bad: Any) -> None:
    """Failed findings are a list of their ids."""
    assert "failedFindings" in refused(changed(LINE, put(f"{PREDICATE}.failedFindings", bad))[:-1])


_FAILED = {"findings_failed": ("output.values",)}


@pytest.mark.parametrize("kind", [EntryKind.VALIDATED, EntryKind.RELEASED, EntryKind.ROLLED_BACK])
@pytest.mark.parametrize(
    "lack",
    [{"identities": ()}, {"cases_run": 39}, {"cases_run": 0, "cases_expected": 0}, _FAILED],
)
def test_refuses_a_pass_without_evidence(kind: EntryKind, lack: dict[str, Any]) -> None:
    """Nothing measured, fewer cases than stored or a failed finding is never recorded as passed."""
    if (kind, lack) == (EntryKind.ROLLED_BACK, _FAILED):
        # Its reason in words stands there.
        assert encode_line(entry(kind=kind, **lack), log=ORIGIN, seq=0, prev=FIRST_PREV)
        return
    assert "without the evidence of a pass" in unwritable(entry(kind=kind, **lack))
    assert encode_line(entry(kind=EntryKind.BLOCKED, **lack), log=ORIGIN, seq=0, prev=FIRST_PREV)


def test_41_refuses_to_write_lone_surrogates() -> None:
    """A name that came from undecodable bytes has no place in a log."""
    assert "canonical" in unwritable(entry(channel="\ud800"))


def test_refuses_to_write_what_it_would_not_read() -> None:
    """Reader and writer share their rules, and the writer names the value."""
    assert "$.channel is '\"a\\\\nb\"'" in unwritable(entry(channel="a\nb"))
    assert "bundle" not in unwritable(entry(bundle="short"))
    assert "sha256" in unwritable(entry(bundle="short"))


def test_shortens_and_escapes_what_it_shows() -> None:
    """A hostile value cannot take over the terminal that shows the refusal."""
    what = refused(changed(LINE, put("kind", "\x1b[2J\u202e" + "x" * 500))[:-1])
    assert what.isascii()
    assert "\x1b" not in what
    assert len(what) < 250


def test_the_fast_reader_agrees_with_rfc_8785() -> None:
    """The layout spells keys in the order of canonical JSON."""
    assert canonical_bytes(json.loads(LINE)) == LINE


def keys(value: Any) -> Any:
    """Return the shape of a JSON value: its keys, all the way down."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return [keys(item) for item in value[:1]] if isinstance(value, list) else None


def test_the_documented_line_has_the_real_keys() -> None:
    """The example in the docs is a line of this version."""
    docs = Path(__file__).parents[3] / "docs" / "release-log.md"
    example = docs.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    assert keys(json.loads(example)) == keys(json.loads(LINE))
