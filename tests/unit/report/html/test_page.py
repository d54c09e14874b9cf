import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from urllib.parse import unquote

import pytest

from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.html import Files, render
from ci_parity.report.html.frame import own_file
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.html.reader import Page
from tests.unit.report.html.samples import FILES, everything
from tests.unit.report.samples import (
    SAMPLES,
    diff,
    divergence,
    finding,
    latency,
    output,
    passed,
    row,
)

VERDICTS = {**SAMPLES, "everything": everything(), "diff": diff(everything())}


def bare(text: str) -> str:
    """Return a page an element a line, without its style, script and their digests."""
    for own in ("page.css", "page.js"):
        text = text.replace(own_file(own), f"[{own}]")
    return re.sub(r"sha256-[A-Za-z0-9+/=]{44}", "sha256-…", text).replace("><", ">\n<")


def page(name: str) -> Page:
    """Return the page of a sample, parsed."""
    return Page(render(VERDICTS[name], FILES))


@pytest.mark.parametrize("name", ["everything", "unchanged", "inconclusive"])
def test_a_page_reads_as_accepted(name: str) -> None:
    """Element for element as in the golden file; style and script are looked at in a browser."""
    assert_golden(f"{name}.html", bare(render(VERDICTS[name], FILES)))


@pytest.mark.parametrize("name", VERDICTS)
def test_a_page_is_well_formed_and_asks_for_nothing(name: str) -> None:
    """No address is loaded; a link leads to a part of the page, a file beside it or the run."""
    found = page(name)
    assert found.declarations == ["doctype html"]
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in found.elements:
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "form", "image"}
        assert not {"src", "srcset", "style", "action", "background", "ping"} & set(attributes)
        assert not [key for key in attributes if key.startswith("on")]
        href = attributes.get("href", "#verdict")
        if href.startswith("#"):
            assert href[1:] in ids
        else:
            assert href == FILES.run_url or href.startswith("./")
    for _, attributes in found.elements:
        labels = attributes.get("aria-labelledby", "").split()
        assert set(labels) <= set(ids)


def test_the_browser_is_told_to_run_nothing_but_our_own() -> None:
    """The policy names the digests of the one script and the one style, and forbids the rest."""
    found = page("everything")
    (policy,) = (m["content"] for m in found.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        assert len(found.all(tag)) == 1
        digest = hashlib.sha256("".join(found.inside[tag]).encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "unsafe" not in policy
    heads = [tag for tag, _ in found.elements]
    assert heads.index("meta") < heads.index("style") < heads.index("script")


@pytest.mark.parametrize("name", VERDICTS)
def test_a_page_can_be_told(name: str) -> None:
    """Landmarks, one heading of the first rank, no rank left out, named tables and pictures."""
    found = page(name)
    assert [len(found.all(tag)) for tag in ("main", "header", "nav", "h1", "head")] == [1] * 5
    assert found.all("html") == [{"lang": "en"}]
    ranks = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(ranks))
    assert len(found.all("caption")) == len(found.all("table"))
    assert all(head.get("scope") in {"col", "row"} for head in found.all("th"))
    for picture in found.all("svg"):
        named = "aria-label" in picture or "aria-labelledby" in picture
        assert picture.get("aria-hidden") == "true" or (picture["role"] == "img" and named)
    first = next(a for tag, a in found.elements if tag == "a")
    assert (first["class"], first["href"]) == ("skip", "#verdict")


def test_the_first_words_are_the_verdict() -> None:
    """The line of all reports; what was decided stands in the title, too."""
    found = page("fail")
    assert "Parity broken FAIL The release is blocked. PARITY FAIL (3 of 5" in found.text
    assert "PARITY FAIL" in "".join(found.inside["title"])
    assert "Parity unchanged PASS" in page("unchanged").text
    assert "Parity not proven INCONCLUSIVE" in page("inconclusive").text
    assert "Parity holds PASS" in page("pass").text


def test_a_latency_that_fails_alone_does_not_break_parity() -> None:
    """The headline says which of the two it is."""
    slow = finding("latency.p50", advisory=False)
    held = finding(outcome=Outcome.PASS)
    verdict = passed(
        outcome=Outcome.FAIL, findings=(held, slow),
        latency=(latency(outcome=Outcome.FAIL, enforced=True),),
    )  # fmt: skip
    assert "Parity holds, latency does not" in Page(render(verdict)).text


def test_failures_come_before_everything_that_passed() -> None:
    """Then where it begins, the matrix, the figures."""
    titles = [a["id"] for tag, a in page("everything").elements if tag == "section"]
    assert titles == [
        "failures", "divergence", "matrix", "comparisons", "latency", "changes", "placement",
        "decisions", "warnings", "messages", "unmeasured", "passed", "again",
    ]  # fmt: skip


def test_every_figure_of_a_comparison_is_on_the_page() -> None:
    """Those that are many are hidden until they are asked for, and there all the same."""
    one = output(
        required=0.111, limit=0.222, max_abs=0.333, max_rel=0.444, max_ulp=0.555,
        rel_to_scale=0.666, mean_abs=0.777, rms_abs=0.888, p50_abs=0.999, p99_abs=0.123,
        p999_abs=0.234, bias=-0.345, sqnr_db=45.6, cosine=0.567, nonfinite=678, excess=0.789,
        rms_excess=0.891, unit="x noise",
        mismatched=12345, elements=67890, rule="the rule", worst_index=(4, 5),
        worst_baseline="left", worst_candidate="right",
    )  # fmt: skip
    text = Page(render(passed(outputs=(one,), rows=(row(worst=one),)))).text
    for shown in (
        "0.111", "0.222 x noise", "0.333", "0.444", "0.555", "0.666", "0.777", "0.888", "0.999",
        "0.123", "0.234", "-0.345", "45.6", "0.567", "678", "0.789", "0.891", "12,345 of 67,890",
        "the rule", "at [4, 5]", "left", "right", "float32[1, 10]",
    ):  # fmt: skip
        assert shown in text


def test_a_cell_of_the_matrix_leads_to_its_figures() -> None:
    """The first click; the second shows all of them."""
    text = render(everything(), FILES)
    cells = re.findall(r'<span class="cell \w+"><a href="#(c\d+)">', text)
    assert cells
    for anchor in cells:
        assert f'<tr id="{anchor}">' in text


def test_numbers_are_sorted_by_their_value() -> None:
    """Which every numeric cell of a body carries, empty where there is none."""
    found = page("everything")
    bodies = [a for tag, a in found.elements if tag == "td" and "number" in a.get("class", "")]
    assert bodies
    for attributes in bodies:
        value = attributes["data-value"]
        assert value == "" or float(value) == float(value) or value == "nan"


def test_reproductions_are_linked_where_they_are_ours() -> None:
    """Any other word stays a word; without a folder there is no link at all."""

    def links(found: Verdict, files: Files) -> list[str]:
        return [a["href"] for a in Page(render(found, files)).all("a") if "repro" in a["href"]]

    ours = passed(divergences=(divergence(reproduction="repro-1"),))
    assert links(ours, Files(reproductions="../out of here")) == [
        "./../out%20of%20here/repro-1/README.md"
    ]
    assert links(ours, Files()) == []
    for word in ("repro-1/../../etc", "javascript:repro-1", "//repro-1", "repro-1\n"):
        theirs = passed(divergences=(divergence(reproduction=word),))
        assert links(theirs, Files(reproductions=".")) == []


def test_only_a_web_address_of_the_run_is_a_link() -> None:
    """A run's address comes from the environment."""
    for url in ("javascript:alert(1)", "data:text/html,x"):
        found = Page(render(passed(), replace(FILES, run_url=url)))
        assert url not in [unquote(a["href"]) for a in found.all("a")]


def test_graphs_show_the_operators_that_moved() -> None:
    """Those that moved most first, with the opsets."""
    text = page("everything").text
    assert "12 nodes before, 14 after; ai.onnx 17 before, ai.onnx 21 after" in text
    assert text.index("MatMul 0 4 +4") < text.index("Gemm 3 1 -2")


def test_latency_shows_its_sessions_and_what_would_have_shown() -> None:
    """And what was measured beside it, with why something was not."""
    text = page("everything").text
    for words in ("+18.0 %", "+22.0 %", "+3.0 %", "p95", "no device was asked for", "too noisy"):
        assert words in text


def test_what_was_not_measured_is_listed() -> None:
    """Findings, cases that did not run, latency."""
    short = passed(rows=(row(Outcome.INCONCLUSIVE, cases=1),), latency=())
    text = Page(render(short)).text
    assert "1 of 2 cases ran" in text
    assert "Latency." in text
    assert "the contract was not run" in page("everything").text
    whole = Page(render(passed(latency=(latency(outcome=Outcome.PASS),)))).text
    assert "Everything that was asked for was measured." in whole


def test_columns_that_nothing_is_in_are_left_out() -> None:
    """A diff of two models has no target and no variant."""
    one = output(subject=replace(output().subject, target="", variant=""))
    verdict = diff(passed(rows=(row(target="", variant="", worst=one),), outputs=(one,)))
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', render(verdict))
    assert "boundary" in heads
    assert not {"target", "variant"} & set(heads)
