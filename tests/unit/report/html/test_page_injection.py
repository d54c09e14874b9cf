"""No text that came from outside acts on a page, whichever field of a verdict it stands in."""

import unicodedata
from dataclasses import replace

import pytest

from ci_parity.report.html import Files, render
from tests.unit.report.hostile import PAYLOADS, places, planted, planted_at
from tests.unit.report.html.reader import Page
from tests.unit.report.html.samples import FILES, everything

HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
LIMIT = 8 * 1024 * 1024
HTML_PAYLOADS = {
    **PAYLOADS,
    "end of script": "</script><script>alert(1)</script>",
    "end of style": "</style><style>*{display:none}</style>",
    "end of title": "</title><script>alert(1)</script>",
    "script data": "<!--<script>",
    "quotes": "\" onmouseover=alert(1) x='",
    "svg": "<svg onload=alert(1)><desc><![CDATA[</desc><script>alert(1)</script>]]>",
    "svg end": "</text></svg><img src=x onerror=alert(1)>",
    "unclosed": "<div <a <b",
    "scheme": "javascript:alert(1)",
    "json": '{"session": {"<img src=x onerror=y>": "</script>"}}',
    "broken json": '{"a": <script>',
    "json list": "[1, [2, ['</script>']]]",
    "surrogate": "\ud800\udfff<b>",
    "no character": "\ufffe\uffff\x00<b>",
}
# With everything in it, for the walk field by field.
MIXED = (
    "</script></style></title></svg></td><img src=x onerror=y>\"'`\n<a href=javascript:x>y</a>"
    "\u202e\u2066\u200b\x00&lt;b&gt;<!-- --> ]]>"
)


def shape(verdict: object, files: Files = FILES) -> list[tuple[str, tuple[str, ...]]]:
    """Return the elements of a page with the names of their attributes."""
    return Page(render(verdict, files)).shape  # type: ignore[arg-type]


ELEMENTS = {tag for tag, _ in shape(everything())}


@pytest.mark.parametrize("payload", HTML_PAYLOADS.values(), ids=HTML_PAYLOADS)
def test_no_text_acts_on_a_page(payload: str) -> None:
    """Whatever a model, a path, a branch or a worker's last words say.

    1. The page parses with every element closed where it was opened, so no text ended one.
    2. Its characters are visible ones.
    3. There is one script and one style, no attribute that runs, no comment.
    4. Every link leads to a part of the page or a file beside it.
    5. It is as short as any.
    """
    text = render(planted(everything(), payload), replace(FILES, commit=payload, run_url=payload))
    found = Page(text)
    shown = [unicodedata.category(c) for c in text if c != "\n"]
    assert not HIDDEN & set(shown)
    assert [len(found.all(tag)) for tag in ("script", "style", "img", "title")][:3] == [1, 1, 0]
    assert found.comments == []
    for tag, attributes in found.elements:
        assert tag in ELEMENTS
        assert not [key for key in attributes if key.startswith("on")]
        assert attributes.get("href", "#").startswith(("#", "./"))
    assert len(text) < LIMIT
    text.encode("utf-8")


@pytest.mark.parametrize("payload", [MIXED, HTML_PAYLOADS["end of script"], HTML_PAYLOADS["svg"]])
def test_markup_makes_the_same_page_as_a_word(payload: str) -> None:
    """Element for element and attribute for attribute, everything planted at once."""
    plain, hostile = (shape(planted(everything(), words)) for words in ("word", payload))
    assert hostile == plain


@pytest.mark.parametrize("place", places(everything()))
def test_no_field_is_forgotten(place: str) -> None:
    """Each text field of the verdict alone: markup in it changes no element of the page."""
    plain, hostile = (shape(planted_at(everything(), place, words)) for words in ("word", MIXED))
    assert hostile == plain


@pytest.mark.parametrize("name", ["report", "comment", "bundle", "reproductions", "commit"])
def test_no_word_about_the_files_acts(name: str) -> None:
    """They are paths and a commit."""
    plain, hostile = (
        shape(everything(), replace(FILES, **{name: words})) for words in ("word", MIXED)
    )
    assert hostile == plain
