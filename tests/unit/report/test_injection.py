"""No text that came from outside acts in a comment, whichever field of a verdict it stands in.

The comment is rendered by cmark-gfm, which is what GitHub renders with, raw HTML let through; what
comes out is compared element by element with the comment of the same verdict around a plain word.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from ci_parity.records.divergence import NodeName
from ci_parity.records.history import EarlierVerdict
from ci_parity.records.identity import Axis, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.records.verdict import Environment, Verdict
from ci_parity.report.markdown import comment, no_verdict
from ci_parity.report.occasion import Occasion
from ci_parity.report.rollback import RollbackProposal, body, title
from tests.unit.report.hostile import PAYLOADS, places, planted, planted_at
from tests.unit.report.samples import (
    changes,
    divergence,
    failed,
    finding,
    identity,
    inconclusive,
    latency,
    on_gpu,
    output,
    row,
    unchanged,
)

PAGE = "https://git.example/acme/models/actions/runs/7"
LINKS = {PAGE, f"{PAGE}#artifacts"}
# GitHub refuses longer bodies.
LIMIT = 65_536
ELEMENTS = {
    "h3", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "strong", "ul", "li", "a",
    "sub", "br", "details", "summary", "pre",
}  # fmt: skip
# What GitHub looks for in the text that a reader sees outside code.
ACTIVE = re.compile(
    r"[@#][A-Za-z0-9]|://|www\.|(?<![A-Za-z0-9])gh-\d|(?<!\w)(?=[0-9]*[a-f])[0-9a-f]{7,40}(?!\w)",
    re.IGNORECASE | re.ASCII,
)
# One text with a bit of everything, for the walk field by field.
MIXED = (
    "</details><img src=x onerror=y>|`a`\n# h\n[l](https://evil.example) @team #1 c0ffee1 "
    "\u202e\u200b::error::x <!-- --> **b** ![i](https://evil.example/p.png)"
)


class Rendered(HTMLParser):
    """A comment as a page: its elements in order, their attributes, the text outside code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.links: list[str] = []
        self.others: list[str] = []
        self.words: list[str] = []
        self._code = 0
        self.feed(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count an element; keep what its attributes say."""
        self.elements[tag] += 1
        self._code += tag in {"code", "pre"}
        for name, value in attrs:
            if (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif (tag, name, value) != ("pre", "lang", "text"):
                self.others.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        """Leave code."""
        self._code -= tag in {"code", "pre"}

    def handle_data(self, data: str) -> None:
        """Keep what is read outside code."""
        self.words += [] if self._code else [data]

    def handle_comment(self, data: str) -> None:
        """Keep what no comment of ours has."""
        self.others.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        """Keep what no comment of ours has."""
        self.others.append(f"declaration {decl}")

    def handle_pi(self, data: str) -> None:
        """Keep what no comment of ours has."""
        self.others.append(f"instruction {data}")

    def unknown_decl(self, data: str) -> None:
        """Keep what no comment of ours has."""
        self.others.append(f"declaration {data}")


def cells(text: str) -> Iterator[tuple[int, int]]:
    """Yield the number of columns of every table line, with that of its head."""
    wanted = 0
    for line in text.split("\n"):
        bars = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        wanted = (wanted or bars) if bars else 0
        if bars:
            yield bars, wanted


def full() -> Verdict:
    """Return a verdict that has something in every part of a comment."""
    node = NodeName(name="n", op_type="o", domain="d", outputs=("a",) * 5, origin="s")
    moved = Change(
        axis=Axis.MODEL, target="t", variant="v", before="b", after="a", sentences=("s",)
    )
    agreed = finding("decision.argmax", outcome=Outcome.PASS)
    found = divergence(nodes=(node,) * 20, candidate_nodes=(node,) * 19, optimizers=("o",) * 20)
    sample = failed()
    return replace(
        sample,
        findings=(*sample.findings, agreed),
        rows=(*sample.rows, row(Outcome.INCONCLUSIVE, inherits="x", worst=output())),
        changes=replace(changes(moved), source=replace(changes().source, reason="r")),
        divergences=(found, *sample.divergences),
        placements=(on_gpu(), replace(on_gpu(), target="other")),
        latency=(latency(), latency(reason="why")),
        environment=Environment(host="h", systems=("s",) * 12),
        note="n",
    )


SAMPLES = {"full": full(), "none": inconclusive(), "unchanged": unchanged()}


def proof() -> LogLine:
    """Return a validated line of a log."""
    entry = LogEntry(
        kind=EntryKind.VALIDATED, channel="c", idempotency="i", bundle="b" * 64, commit="c" * 40,
        finished_at="2026-11-30T10:07:00Z", deployment="d", identities=(identity("r"),),
        findings_failed=(), cases_run=2, cases_expected=2, tool_version="v", run_url="u",
    )  # fmt: skip
    return LogLine(seq=7, sha256="d" * 64, entry=entry)


def occasion() -> Occasion:
    """Return circumstances with everything that can be known."""
    past = EarlierVerdict(run=6, attempt=1, page=6, sha="e" * 40, outcome=Outcome.FAIL)
    return Occasion(
        commit="f" * 40, run_url=PAGE, earlier=((past, PAGE),) * 4, proof=proof(), log="file:x"
    )


# Addresses come from the runner, and are checked where they are read.
RUNNERS = frozenset({"Occasion.run_url", "Occasion.earlier"})


def check(rung: str, plain: str) -> None:
    """Assert that a comment is made of nothing but what it is made of around a plain word.

    1. Its characters are visible ones.
    2. There is no element, attribute, comment or link but ours, and no more of ours.
    3. Every line of a table has the columns of its head.
    4. GitHub finds no mention, issue, commit or address in what is read.
    """
    shown = {unicodedata.category(c) for c in rung.replace("\n", "")}
    assert not shown & {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    found, expected = Rendered(rung), Rendered(plain)
    assert set(found.elements) <= ELEMENTS
    # What looks like a commit becomes a code span, which is as inert as text.
    assert set(found.elements - expected.elements) <= {"code"}
    assert found.others == []
    assert set(found.links) <= LINKS
    assert all(bars == wanted for bars, wanted in cells(rung))
    assert not ACTIVE.search("\n".join(found.words))


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_no_text_acts_in_a_comment(payload: str, name: str) -> None:
    """Every text of a verdict and of its circumstances is one and the same hostile one."""
    around = planted(occasion(), payload, skip=RUNNERS)
    ladder = comment(planted(SAMPLES[name], payload), around)
    plain = comment(planted(SAMPLES[name], "x"), planted(occasion(), "x", skip=RUNNERS))
    for at, rung in enumerate(ladder):
        assert rung.startswith("### ")
        check(rung, plain[min(at, len(plain) - 1)] if len(plain) == len(ladder) else plain[0])
    assert len(ladder[-1]) < LIMIT


@pytest.mark.parametrize("name", SAMPLES)
def test_no_field_is_forgotten(name: str) -> None:
    """Field by field, so that what one of them breaks is not hidden by another."""
    known = [*places(SAMPLES[name])]
    assert len(known) > 20
    for place in known:
        hostile, plain = (
            comment(planted_at(SAMPLES[name], place, text), occasion())[0] for text in (MIXED, "x")
        )
        check(hostile, plain)


def test_no_field_of_the_circumstances_is_forgotten() -> None:
    """The log's line and the earlier verdicts come from files that others write."""
    for place in [name for name in places(occasion()) if name not in RUNNERS]:
        for sample in SAMPLES.values():
            hostile, plain = (
                comment(sample, planted_at(occasion(), place, text))[0] for text in (MIXED, "x")
            )
            check(hostile, plain)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_no_error_acts_in_a_comment(payload: str) -> None:
    """A message quotes what could not be read."""
    for hostile, plain in zip(
        no_verdict(payload, occasion()), no_verdict("x", occasion()), strict=False
    ):
        check(hostile, plain)


def test_an_address_that_could_end_a_link_does_not() -> None:
    """Were the runner's own address odd, it would still be one link, to it."""
    (link,) = {
        link
        for rung in comment(
            unchanged(), Occasion(run_url="https://x/) <b>[a](https://evil.example")
        )
        for link in Rendered(rung).links
    }
    assert link.startswith("https://x/%29")
    assert Rendered(comment(unchanged(), Occasion(run_url="javascript:x"))[0]).links == []


def proposal(count: int) -> RollbackProposal:
    """Return a proposal to go back that changes some files."""
    files = tuple(("AMD"[at % 3], f"file {at}") for at in range(count))
    return RollbackProposal(
        deployment="d", channel="c", proof=proof(), left=proof(), barred=proof(), log="file:x",
        files=files, held="h", settings=("s",), reason="r", run_url=PAGE,
    )  # fmt: skip


# Where a config keeps things is Markdown of ours; the run's address comes from the runner.
GIVEN = frozenset({"RollbackProposal.settings", "RollbackProposal.run_url"})


@pytest.mark.parametrize("count", [1, 100], ids=["one file", "many files"])
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_nothing_of_a_proposal_acts_in_its_body(payload: str, count: int) -> None:
    """Paths come from bundles, reasons from people, names from configs."""
    sample = proposal(count)
    said = body(planted(sample, payload, skip=GIVEN))
    check(said, body(planted(sample, "x", skip=GIVEN)))
    assert len(said) < LIMIT
    for place in (place for place in places(sample) if place not in GIVEN):
        check(body(planted_at(sample, place, MIXED)), body(planted_at(sample, place, "x")))


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_the_title_of_a_proposal_is_one_line(payload: str) -> None:
    """GitHub shows a title as it stands, and takes 256 characters."""
    said = title(payload, "b" * 64)
    assert said.isprintable()
    assert len(said) < 256
