import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.escape import code, prose, visible

TEXT = st.text(max_size=60)


@given(TEXT)
def test_nothing_invisible_remains(text: str) -> None:
    """Neither control characters, nor line ends, nor characters that turn text around."""
    for shown in (visible(text, 100), code(text)):
        assert all(unicodedata.category(c) not in {"Cc", "Cf", "Zl", "Zp"} for c in shown)


@given(TEXT)
def test_prose_reads_like_the_text(text: str) -> None:
    """A reader sees what was written, on one line, with breaks of no width and code at most."""
    read = re.sub(r"`([0-9a-f]{7,64})`", r"\1", prose(text))
    assert html.unescape(read).replace("\u200b", "") == visible(text, 400)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see c0ffee1.", "see `c0ffee1`."),
        ("a" * 40, f"`{'a' * 40}`"),
        ("(deadbeef)", "(`deadbeef`)"),
        ("1234567 elements", "1234567 elements"),
        ("c0ffee", "c0ffee"),
        ("c0ffee1x xc0ffee1 c0ffee1_", "c0ffee1x xc0ffee1 c0ffee1&#95;"),
        ("b" * 65, "b" * 65),
    ],
)
def test_what_could_name_a_commit_is_code(text: str, shown: str) -> None:
    """GitHub links a commit by its first seven digits, but not inside a code span."""
    assert prose(text) == shown


@given(st.text(st.sampled_from("@#:/w.gGhH-1a _*`|<>[]!&\\~$"), max_size=30))
def test_nothing_in_prose_is_acted_on(text: str) -> None:
    """Neither as Markdown or HTML in the source, nor as a mention or address in what is read."""
    shown = prose(text)
    assert not re.search(r"[@:_*`|<>\[\]!\\~$]|&(?!#\d+;)|(?<!&)#", shown)
    read = html.unescape(shown)
    assert not re.search(r"[@#][A-Za-z0-9]|://|www\.|(?<![A-Za-z0-9])gh-\d", read, re.IGNORECASE)


@given(TEXT)
def test_code_is_one_span(text: str) -> None:
    """With a backtick at each end, none inside, and no pipe that ends a cell."""
    span = code(text)
    if span:
        assert span[0] == span[-1] == "`"
        assert "`" not in span[1:-1]
        assert not re.search(r"(?<!\\)\|", span)
        assert span[1:-1].strip()


@pytest.mark.parametrize("text", ["", " ", "\n", "\t \r\n"])
def test_nothing_gives_an_empty_cell(text: str) -> None:
    """An empty code span is no Markdown."""
    assert (code(text), prose(text), visible(text, 9)) == ("", "", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", "a b c"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("abc\u202edef", "abc\\u202edef"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("a\u2028b", "a b"),
        ("größe 模型", "größe 模型"),
        ("x" * 11, "x" * 9 + "…"),
        ("x" * 10, "x" * 10),
        (" " * 159 + "x", "x"),
        (" " * 160 + "x", "…"),
    ],
)
def test_one_line_of_bounded_length(text: str, shown: str) -> None:
    """Blanks are one, what is hidden is spelt out, the rest is cut."""
    assert visible(text, 10 if set(text) <= {"x", " "} else 100) == shown


def test_length_is_bounded_whatever_is_escaped() -> None:
    """Ten million characters of any kind."""
    for character in "x @#:<|`\u202e模\x00":
        text = character * 10_000_000
        assert len(prose(text)) < 8000
        assert len(code(text)) < 1000
