import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import ConfigError
from ci_parity.config.yaml_source import parse


def value(text: str) -> dict[str, Any]:
    """Return what a document says."""
    return parse(text, where="ci-parity.yml").value


def refusal(text: str) -> ConfigError:
    """Return the error of a document that must be refused."""
    with pytest.raises(ConfigError) as caught:
        parse(text, where="ci-parity.yml")
    return caught.value


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="ascii", categories=["L"])), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abcdef"), JSON, max_size=4))
@settings(deadline=None)
def test_json_is_yaml(written: dict[str, Any]) -> None:
    """What JSON says is what is read, numbers and quoted text included."""
    assert value(json.dumps(written)) == written


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("+2e0", 2.0),
        ("-1.5e3", -1.5e3),
        ("1.e2", 100.0),
        (".5e3", 500.0),
        ("0e0", 0.0),
        ("0e-7", 0.0),
        ("1.5", 1.5),
        ("12", 12),
        ("-0.0", 0.0),
    ],
)
def test_numbers_are_numbers(text: str, number: float) -> None:
    """Also those that YAML 1.1 takes for text, as nobody else does."""
    found = value(f"a: {text}")["a"]
    assert (found, type(found)) == (number, type(number))


@pytest.mark.parametrize("text", ["'1e-3'", '"1e-3"', "1e-3x", "e-3", "1e", "|-\n  1e3", "v1e3"])
def test_text_stays_text(text: str) -> None:
    """Quotes decide, and so does a letter more."""
    assert isinstance(value(f"a: {text}")["a"], str)


def test_every_key_and_item_has_its_line() -> None:
    """From which messages are made; what is not in the text is placed at its parent."""
    document = parse("# comment\na:\n  b:\n    - 1\n    - {c: 2}\nd: 3\n", where="x.yml")
    assert document.place(("a",)) == "x.yml:2"
    assert document.place(("a", "b")) == "x.yml:3"
    assert document.place(("a", "b", 0)) == "x.yml:4"
    assert document.place(("a", "b", 1, "c")) == "x.yml:5"
    assert document.place(("d",)) == "x.yml:6"
    assert document.place(("a", "b", 1, "absent", "deeper")) == "x.yml:5"
    assert document.place(("absent",)) == "x.yml:2"
    assert parse("", where="x.yml").place(("absent",)) == "x.yml:1"


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}"])
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    """What is missing is the schema's business."""
    assert value(text) == {}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\nb: 2\na: 3", 3, "duplicate key 'a'"),
        ("a:\n  b: 1\n  'b': 2", 3, "duplicate key 'b'"),
        ('a: 1\n"\\x61": 2', 2, "duplicate key 'a'"),
        ("1: x", 1, "key 1 is not text"),
        ("on: x", 1, "key True is not text"),
        ("a: {null: x}", 1, "key None is not text"),
        ("1e3: x", 1, "key 1000.0 is not text"),
        ("? {a: b}\n: c", 1, "a value of type map"),
        ("? [a]\n: c", 1, "a value of type seq"),
        ("a: 2026-01-01", 1, "a value of type timestamp"),
        ("a: .nan", 1, "nan is not a number"),
        ("a: .inf", 1, "inf is not a number"),
        ("a: -.inf", 1, "inf is not a number"),
        ("a: 1e999", 1, "inf is not a number"),
        ("a: 1.0e+999", 1, "inf is not a number"),
        ("a: 9007199254740992", 1, "beyond"),
        ("a: -9007199254740992", 1, "beyond"),
        ("a: " + "9" * 5000, 1, "no value"),
        ("a: =", 1, "a value of type value"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "a value of type merge"),
    ],
)
def test_what_json_does_not_have_is_refused(text: str, line: int, said: str) -> None:
    """Doubled keys, keys that are not text, dates, bytes, merges, numbers no double holds."""
    error = refusal(text)
    assert said in error.what
    assert error.where == f"ci-parity.yml:{line}"


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system x",
        "!!python/object:ci_parity.Foo {a: 1}",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!pairs [a: 1]",
        "!custom x",
        "!custom {a: 1}",
        "!custom [1]",
        "!<tag:example,2026:x> {a: 1}",
        "!!int abc",
        "!!float abc",
        "!!bool maybe",
        "!!null x",
        "!!timestamp x",
        "!!binary aGk=",
        "!!str 5",
        "! x",
    ],
)
def test_tags_are_refused(text: str) -> None:
    """A tag makes a document mean what only one reader knows, on scalars and collections alike."""
    for document in (f"a: {text}", f"a: [{text}]" if "," not in text else f"a:\n  - {text}"):
        error = refusal(document)
        assert "tag" in error.what
        assert error.where.startswith("ci-parity.yml:")


def test_a_tagged_document_is_refused() -> None:
    """The top is a value like any other."""
    assert "tag '!Foo'" in refusal("!Foo\na: 1").what


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: 'x",
        "a: b: c",
        "\ta: 1",
        "a: 1\n---\nb: 2",
        "%YAML 9.9\n---\na: 1",
        "a: *nowhere",
        "a: !<broken",
        "a: \x00",
        "a: \x1b[31m",
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    """Broken syntax, two documents, unknown versions and anchors, control characters."""
    error = refusal(text)
    assert error.what.startswith("not YAML: ")
    assert "\n" not in error.what


@pytest.mark.parametrize("text", ["- a", "text", "3", "null", "[]", "~", '"a: 1"'])
def test_a_document_that_is_no_mapping_is_refused(text: str) -> None:
    """Lists and scalars, and a null that was written out."""
    assert "not a mapping" in refusal(text).what


def test_aliases_that_multiply_are_refused() -> None:
    """Ten anchors of ten references each would be ten thousand million values."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]
    assert "too many" in refusal("\n".join(["a0: &a0 [x]", *levels])).what


def test_an_alias_to_itself_is_refused() -> None:
    """A value without end."""
    assert "too many or too deeply" in refusal("a: &a [*a]").what
    assert "too many or too deeply" in refusal("a: &a {b: *a}").what


def test_a_few_aliases_are_fine() -> None:
    """Two targets that share their options."""
    assert value("a: &a {x: 1}\nb: *a") == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize("depth", [60, 3000])
def test_deep_nesting_is_refused(depth: int) -> None:
    """Before it exhausts the stack, and when it does."""
    refusal("a: " + "[" * depth + "]" * depth)
    refusal("a: " + "{b: " * depth + "1" + "}" * depth)


def test_a_large_file_is_refused_unread() -> None:
    """No config is a megabyte long."""
    assert "1 MiB" in refusal("#" * (1 << 20) + "\na: 1").what


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udfff"'])
def test_half_a_character_is_refused(text: str) -> None:
    """A lone surrogate cannot be written to any file."""
    assert "Unicode" in refusal(f"a: {text}").what
    assert "Unicode" in refusal(f"{text}: a").what
