import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.canonical import MAX_DEPTH, canonical_bytes, parse_strict
from ci_parity.base.errors import EvidenceError

SAFE = 2**53 - 1
# A float between the two is written like an integer that is not safe.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not SAFE < abs(number) < 1e21
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE, SAFE) | FLOATS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=15,
)


@given(VALUES)
def test_what_was_written_is_what_is_read(value: Any) -> None:
    """Any value survives, and its bytes are the same the second time."""
    written = canonical_bytes(value)
    found = parse_strict(written, where="test")
    assert found == value
    assert canonical_bytes(found) == written
    assert json.loads(written) == value


@given(st.dictionaries(st.text(max_size=3), st.integers(-9, 9)))
def test_the_order_of_keys_is_not_the_callers(value: dict[str, int]) -> None:
    """Keys are sorted by their UTF-16 code units."""
    written = canonical_bytes(dict(reversed(value.items())))
    assert written == canonical_bytes(value)
    keys = list(json.loads(written))
    assert keys == sorted(keys, key=lambda key: key.encode("utf-16-be"))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [True, None, "x"]}, '{"a":[true,null,"x"],"b":1}'),
        ({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "ö": 7},
         '{"\\r":2,"1":4,"\x80":6,"ö":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'),
        ("\u20ac$\x0f\nA'B\"\\\\\"/", '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (333333333.33333329, "333333333.3333333"),
        (4.50, "4.5"),
        (SAFE, "9007199254740991"),
    ],
)  # fmt: skip
def test_examples_of_the_standard(value: Any, written: str) -> None:
    """RFC 8785, sections 3.2.2 and 3.2.3."""
    assert canonical_bytes(value).decode() == written


@pytest.mark.parametrize(
    ("bits", "written"),
    [
        ("0000000000000001", "5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_numbers_are_written_as_ecmascript_does(bits: str, written: str) -> None:
    """RFC 8785, appendix B."""
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_bytes(number).decode() == written


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, SAFE + 1, -SAFE - 1, "\ud800", {"\udfff": 1}, [[math.nan]]],
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    """At any depth, in keys too."""
    with pytest.raises(EvidenceError, match="no canonical JSON form"):
        canonical_bytes(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "1 2",
        "{} x",
        "{'a': 1}",
        "[1,]",
        "nul",
        "\ufeff{}",
        '{"a": 1, "a": 1}',
        '[{"b": {"a": 1, "\\u0061": 2}}]',
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        "1e400",
        "-1e400",
        '"\\ud800"',
        '{"\\udc00": 1}',
        '["\\ud800x"]',
        '"\x00"',
        "9" * 5000,
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1),
        "[" * 100_000,
        b"\xff",
        b'"\xed\xa0\x80"',
        b"\xff\xfe{\x00}\x00",
    ],
)  # fmt: skip
def test_what_two_readers_could_read_differently_is_refused(text: str | bytes) -> None:
    """Doubled keys, numbers no double holds, half characters, other encodings, endless nesting."""
    with pytest.raises(EvidenceError, match="malformed JSON") as caught:
        parse_strict(text, where="the log")
    assert caught.value.where == "the log"


def test_nesting_is_fine_up_to_the_limit() -> None:
    """Deep is not endless."""
    depth = MAX_DEPTH - 1
    assert parse_strict("[" * depth + "]" * depth, where="test")


def test_a_surrogate_pair_is_one_character() -> None:
    """Only half of one is refused."""
    assert parse_strict('"\\ud83d\\ude00"', where="test") == "\U0001f600"
