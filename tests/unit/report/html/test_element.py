import pytest

from ci_parity.report.html.element import (
    Html,
    address,
    beside,
    code,
    element,
    link,
    spaced,
    text,
    together,
)
from tests.unit.report.html.reader import Page

MARKUP = "<img src=x onerror=alert(1)>"


def test_text_is_never_markup() -> None:
    """As a child, in a sequence, in an attribute."""
    made = element("p", MARKUP, [MARKUP, element("b", MARKUP)], title=MARKUP)
    page = Page(made)
    assert page.shape == [("p", ("title",)), ("b", ())]
    assert page.all("p")[0]["title"] == MARKUP
    assert page.text.count(MARKUP) == 3


@pytest.mark.parametrize(
    "made", [f"{element('b', 'x')}", element("b", "x") + "<i>", "".join([element("b", "x")])]
)
def test_what_python_makes_of_an_element_is_text_again(made: str) -> None:
    """Forgetting to wrap is seen on the page, never run."""
    assert Page(element("p", made)).shape == [("p", ())]


def test_a_quote_does_not_end_an_attribute() -> None:
    """Neither kind does."""
    made = element("p", "x", title="\" onclick='x' \"")
    assert Page(made).shape == [("p", ("title",))]


def test_attributes_know_truth_nothing_and_numbers() -> None:
    """Their names lose what Python needs."""
    made = element("td", "x", class_="a", data_value=1.5, open=True, id=None, hidden=False)
    assert made == '<td class="a" data-value="1.5" open>x</td>'


def test_shapes_close_themselves() -> None:
    """Else each would hold all those behind it; an input needs no end."""
    assert element("svg", element("rect", x=1)) == '<svg><rect x="1"/></svg>'
    assert element("input", type="checkbox") == '<input type="checkbox">'


def test_invisible_characters_are_spelt_out_and_long_text_is_cut() -> None:
    """A name cannot turn the line around that it stands in."""
    assert text("a\u202eb") == "a\\u202eb"
    assert text("x" * 1000, 10) == "x" * 9 + "…"


def test_blanks_between_elements_are_kept_and_nothing_leaves_none() -> None:
    """What is empty is no gap."""
    assert spaced("a", None, "", element("b", "c")) == "a <b>c</b>"
    assert together(None) == Html("")
    assert code(" \n") == ""


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", " https://a.example", "//a.example", "data:text/html,x", "https:",
     "https://a.example/\u202e", "https://[", "file:///etc/passwd",
     "https://a.example/" + "x" * 3000,
     "JaVaScRiPt:x", "https://a.example/\n"],
)  # fmt: skip
def test_an_address_is_one_of_the_web_or_none(url: str) -> None:
    """What is none is no link."""
    assert address(url) == ""
    assert link("x", address(url)) == "x"


def test_a_web_address_is_kept() -> None:
    """With its query, which is escaped as any attribute."""
    url = "https://git.example/a?b=1&c=2"
    assert Page(link("x", address(url))).all("a") == [{"href": url}]


@pytest.mark.parametrize(
    "path", ["//evil.example/x", "javascript:x", "a b?c#d", "\\\\evil", "../x", "http://evil"]
)
def test_a_path_leads_nowhere_but_to_a_file(path: str) -> None:
    """It begins with the page's own folder, and holds no scheme, host, query or fragment."""
    made = beside(path)
    assert made.startswith("./")
    assert not made.startswith(".//")
    assert not {":", "?", "#", "\\", " "} & set(made)
