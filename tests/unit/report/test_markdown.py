import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ci_parity.records.divergence import Divergence, NodeName
from ci_parity.records.finding import Subject
from ci_parity.records.identity import Axis, BaselineSource, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import (
    ClassedWarning,
    Method,
    OperatorPlacement,
    Placement,
    WarningKind,
)
from ci_parity.records.verdict import Environment, Verdict
from ci_parity.report.markdown import comment
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.samples import (
    SAMPLES,
    attribution,
    changes,
    depth_point,
    divergence,
    failed,
    finding,
    latency,
    on_gpu,
    open_divergence,
    output,
    passed,
    row,
)

COMMIT = "c0ffee" * 6 + "c0ff"
RUN_URL = "https://git.example/acme/models/actions/runs/7"
# GitHub refuses longer bodies.
LIMIT = 65_536
PAYLOADS = {
    "end of details": "</details></summary></sub>",
    "comment": "<!-- x --> --> <!--",
    "script": "<script>alert(1)</script>",
    "image tag": "<img src=x onerror=y>",
    "entity": "&lt;b&gt; &amp; &#64;team",
    "pipes": "a|b||c\\|d\\\\|e",
    "backticks": "`a` ``b`` ```c``` `",
    "backslashes": "\\` \\| \\\\",
    "link": "[click](https://evil.example/x)",
    "reference link": "[x][y] [y]: https://evil.example",
    "image": "![x](https://evil.example/pixel.png)",
    "address": "https://evil.example/?q=1 http://evil.example ftp://evil.example",
    "bare address": "www.evil.example WWW.EVIL.EXAMPLE (www.evil.example)",
    "angle address": "<https://evil.example> <mail@evil.example>",
    "mail": "mail@evil.example mailto:mail@evil.example",
    "team": "@team @acme/team cc @all",
    "issue": "#123 acme/models#123 GH-123 gh-7",
    "emphasis": "**bold** __bold__ *x* _x_ ~~gone~~",
    "heading": "# title\n## title\ntitle\n===\n---",
    "list": "- a\n* b\n1. c\n> d\n- [ ] e",
    "fence": "```\ncode\n```\n~~~\ncode",
    "table": "| a | b |\n|---|---|\n| c | d |",
    "front matter": "---\na: b\n---",
    "lines": "a\r\nb\rc\n\nd\u2028e\u2029f\x0bg\x0ch\x85i",
    "controls": "\x00\x07\x08\x1b[31mred\x7f\x9b",
    "bidi": "\u202e\u2066abc\u2069\u202c\u200f\u061c",
    "hidden": "a\u200bb\u200db\ufeffc\u00add\U000e0041",
    "math": "$x$ $$y$$ $`z`$",
    "emoji": ":rocket: :x:",
    "command": "::error::x ##[error]x",
    "blank": " \n\t ",
    "nothing": "",
    "long": "x" * 10_000_000,
    "long words": "ab " * 3_000_000,
    "long blanks": " " * 10_000_000,
    "long signs": "<@#`|" * 2_000_000,
    "long bidi": "\u202e" * 10_000_000,
}
OURS = re.compile(
    r"(?:<details><summary>[A-Za-z]+( [a-z]+)?( \(\d+\))?</summary>|</details>|</?sub>|<br>)\n?"
)
# What GitHub looks for in the text that a reader sees.
ACTIVE = re.compile(r"[@#][A-Za-z0-9]|://|www\.|(?<![A-Za-z0-9])gh-\d", re.IGNORECASE)


def poisoned(payload: str) -> Verdict:
    """Return a verdict in which everything that comes from outside is one text."""
    about = Subject(target=payload, variant=payload, boundary=payload, case=payload, output=payload)
    source = BaselineSource(kind="log", label=payload, commit=payload, reason=payload)
    moved = Change(
        axis=Axis.MODEL, target=payload, variant=payload, before=payload, after=payload,
        sentences=(payload,),
    )  # fmt: skip
    found = output(
        subject=about, dtype=payload, rule=payload, worst_baseline=payload,
        worst_candidate=payload, outcome=Outcome.FAIL,
    )  # fmt: skip
    wrong: dict[str, Any] = {"subject": about, "evidence": payload, "remedy": payload}
    foreseen = finding("foresight", advisory=True, **wrong)
    since = replace(changes(moved), source=source, foresight=(foreseen,))
    operator = OperatorPlacement(provider=payload, op_type=payload, count=2, names=(payload,))
    system = replace(
        on_gpu(), target=payload, variant=payload, requested=payload, providers=(payload,),
        placement=Placement(method=Method.PROFILE, operators=(operator,), why_not=payload),
        warnings=(ClassedWarning(kind=WarningKind.FALLBACK, text=payload, count=2),),
    )  # fmt: skip
    return passed(
        deployment=payload, summary=payload, outcome=Outcome.FAIL,
        rows=(
            row(Outcome.FAIL, target=payload, variant=payload, boundary=payload, worst=found,
                inherits=payload),
        ),
        attributions=(
            attribution(target=payload, variant=payload, boundary=payload, sentence=payload,
                        cases=(payload,)),
        ),
        divergences=(poisoned_divergence(payload),) * 2,
        findings=(
            finding(payload or "x", **wrong), finding("decision.argmax", advisory=True, **wrong),
        ),
        outputs=(found,), latency=(latency(subject=about),),
        changes=since,
        placements=(system,),
        environment=Environment(host=payload, systems=(payload,)), reproduce=(payload,),
    )  # fmt: skip


def poisoned_divergence(payload: str) -> Divergence:
    """Return a divergence in which everything that comes from outside is one text."""
    about = Subject(target=payload, variant=payload, boundary=payload, case=payload, output=payload)
    node = NodeName(
        name=payload, op_type=payload, domain=payload, outputs=(payload,) * 5, origin=payload
    )
    point = depth_point(3, 4e12, tensor=payload, op_type=payload, guilty=True)
    return divergence(
        target=payload, variant=payload, boundary=payload, case=payload, sentence=payload,
        nodes=(node,) * 20, candidate_nodes=(node,) * 19, optimizers=(payload,) * 20,
        local=(output(subject=about, dtype=payload),) * 20, unpaired=(payload,),
        depth=(point,) * 20, reproduction=payload or "x",
    )  # fmt: skip


def tokens(text: str) -> Iterator[Token]:
    """Parse a comment as CommonMark with tables; yield every token, inner ones too."""
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        yield token
        yield from token.children or ()


def rungs(verdict: Verdict) -> tuple[str, ...]:
    """Return the whole ladder."""
    return comment(verdict, commit=COMMIT, run_url=RUN_URL)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_comment_reads_as_accepted(name: str) -> None:
    """Line for line as in the golden file, from the fullest rung to the shortest."""
    for number, rung in enumerate(rungs(SAMPLES[name])):
        assert_golden(f"{name}.{number}.md", rung)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_rung_has_the_verdict_and_is_shorter(name: str) -> None:
    """Whichever is accepted says how it ended, for which deployment, and where it ran."""
    ladder = rungs(SAMPLES[name])
    lengths = [len(rung) for rung in ladder]
    assert lengths == sorted(set(lengths), reverse=True)
    heads = {rung.partition("\n\n")[0] for rung in ladder}
    assert len(heads) == 1
    assert heads.pop().startswith("### ")
    for rung in ladder:
        assert "`digits`" in rung
        assert rung.rstrip().endswith("</sub>")
        assert f"`{COMMIT[:12]}`" in rung
        assert f"[workflow run]({RUN_URL})" in rung


def test_many_failures_shorten_the_ladder_step_by_step() -> None:
    """Fifty, then ten, then none but the verdict; what is left out is counted."""
    many = tuple(finding(subject=Subject(case=f"c{number}")) for number in range(200))
    ladder = rungs(passed(outcome=Outcome.FAIL, findings=many, outputs=(output(),) * 300))
    assert [rung.count("`output.values`") for rung in ladder] == [50, 50, 10, 0]
    assert "… and 150 more." in ladder[1]
    assert "… and 190 more." in ladder[2]
    assert "… and 100 more in the JSON report." in ladder[0]
    lengths = [len(rung) for rung in ladder]
    assert lengths == sorted(set(lengths), reverse=True)
    assert lengths[-1] < 2000


def cells(text: str) -> Iterator[tuple[int, int]]:
    """Yield the number of columns of every table line, with that of its head."""
    wanted = 0
    for line in text.split("\n"):
        bars = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        wanted = (wanted or bars) if bars else 0
        if bars:
            yield bars, wanted


def outside_code(found: Sequence[Token]) -> str:
    """Return the text that a reader sees outside code spans, where GitHub looks for names."""
    return "\n".join(token.content for token in found if token.type == "text")


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_no_text_acts_in_a_comment(payload: str) -> None:
    """Whatever a model, a path, a branch or a worker's last words say.

    1. Its characters are visible ones.
    2. There is no element, link or image but ours.
    3. Every line of a table has the columns of its head.
    4. GitHub finds no mention, issue or address in what is read.
    5. It is as short as any, and has the verdict line.
    """
    ladder = rungs(poisoned(payload))
    assert len(ladder) == 3
    plain = [list(tokens(rung)) for rung in rungs(poisoned("x"))]
    for rung, expected in zip(ladder, plain, strict=True):
        shown = [unicodedata.category(c) for c in rung.replace("\n", "")]
        assert not {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"} & set(shown)
        found = list(tokens(rung))
        for token in found:
            if token.type in {"html_inline", "html_block"}:
                assert OURS.fullmatch(token.content), token.content
        links = [token.attrs["href"] for token in found if token.type == "link_open"]
        assert links == [RUN_URL]
        kinds = [{t.type for t in side} for side in (found, expected)]
        assert kinds[0] - kinds[1] == set()
        assert all(bars == wanted for bars, wanted in cells(rung))
        assert not ACTIVE.search(outside_code(found))
        assert rung.startswith("### ❌ PARITY FAIL")
        for block in ("tr_open", "list_item_open"):
            counts = [sum(t.type == block for t in side) for side in (found, expected)]
            assert counts[0] == counts[1]
    assert len(ladder[-1]) < LIMIT / 2


def test_our_own_sentences_are_left_alone() -> None:
    """Escaping does not make the usual evidence unreadable in the source."""
    text = rungs(failed())[0]
    assert "latency +20.0 % &#91;+15.0 %, +25.0 %&#93;" in text
    assert "3 of 10 elements differ; at &#91;0, 3&#93; baseline 0.0476, candidate 0.5" in text


def test_failing_rows_come_first() -> None:
    """Then the open ones."""
    order = (Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL)
    text = rungs(passed(rows=tuple(row(outcome, target=outcome.value) for outcome in order)))[0]
    shown = re.findall(r"^\| [^ a-z]+ \| `(\w+)`", text, re.MULTILINE)
    assert shown[:3] == ["fail", "inconclusive", "pass"]


def test_without_a_run_there_is_no_link() -> None:
    """On a laptop there is nothing to link to."""
    text = comment(passed())[0]
    assert "workflow run" not in text
    assert "commit" not in text


@pytest.mark.parametrize(
    ("source", "count", "said"),
    [("fixtures", 2, "2 stored cases"), ("given", 1, "1 given case"),
     ("generated", 6, "6 generated cases")],
)  # fmt: skip
def test_the_inputs_are_named(source: str, count: int, said: str) -> None:
    """Where they come from, and how many there are."""
    assert f" · {said} · " in comment(passed(inputs_source=source, inputs_count=count))[0]


def test_one_cause_is_said_once() -> None:
    """With every pair that it concerns."""
    other = attribution(variant="int8")
    text = comment(passed(attributions=(attribution(), other)))[0]
    sentence = "runtime onnxruntime 1.31.1→1.32.0&#58; all of it"
    assert f"- `cpu` `exported`, `cpu` `int8`: {sentence}" in text


def test_what_inherits_says_from_where() -> None:
    """In the table of boundaries, behind the boundary's own name."""
    text = comment(passed(rows=(row(Outcome.FAIL, inherits="exported: baseline→candidate"),)))[0]
    assert "baseline→candidate (inherits from exported&#58; baseline→candidate)" in text


def test_a_label_that_agrees_shows_how_far_its_score_moved() -> None:
    """Passing decisions are folded into the comment; other passing checks are not."""
    moved = "label agrees in 1 row, score moved by 0.2"
    agreed = finding(
        "decision.top_k", outcome=Outcome.PASS, evidence=moved, limit=0.0, required=0.0, remedy=""
    )
    text = comment(replace(passed(), findings=(agreed,)))[0]
    assert "Decisions that agree (1)" in text
    assert moved in text


def test_limits_in_noise_floors_say_so() -> None:
    """A calibrated limit is not a tolerance."""
    worst = output(limit=4.09, required=0.344, unit="x noise")
    shown = replace(passed().rows[0], worst=worst)
    text = comment(replace(passed(), rows=(shown,)))[0]
    assert "| 0.344 | 4.09 x noise |" in text


def test_every_rung_says_where_the_first_failure_begins() -> None:
    """The nodes and their reproduction go last of all."""
    for rung in rungs(failed()):
        seen = rung.partition("<details>")[0]
        assert "**Where it begins to fail:** `cpu` `exported` `baseline→candidate` in `ty" in seen
        assert "Gemm 'classify', Relu 'clip' go wrong only as they are optimized together" in seen
        assert "`repro-1/README.md` (and 1 more)" in seen


def test_what_a_sentence_rests_on_is_folded_and_goes_first() -> None:
    """It is left out where the comment is too long."""
    shown = ["| `Gemm` | `classify` |" in rung for rung in rungs(failed())]
    assert shown == [True, False, False]


def test_a_search_that_came_to_nothing_is_one_line() -> None:
    """There is nothing to fold."""
    text = rungs(passed(outcome=Outcome.FAIL, divergences=(open_divergence(),)))[0]
    assert text.count("the model cannot be taken apart") == 1
    assert "Divergences (" not in text


def test_many_nodes_and_divergences_are_cut_and_counted() -> None:
    """A dozen nodes of five divergences; the rest stands in the JSON report."""
    nodes = tuple(
        NodeName(name=f"n{at}", op_type="Add", outputs=tuple("abcde")) for at in range(15)
    )
    text = rungs(passed(outcome=Outcome.FAIL, divergences=(divergence(nodes=nodes),) * 7))[0]
    assert text.count("| `Add` | `n11` |") == 5
    assert "`n12`" not in text
    assert text.count("… 3 more.") == 5
    assert "… and 2 more in the JSON report." in text
    assert "`a` `b` `c` … 2 more |" in text
    assert "(and 6 more)" in text
    assert len(text) < LIMIT


def test_nodes_of_another_model_have_a_table_of_their_own() -> None:
    """A converted model calls them otherwise."""
    other = (NodeName(name="fused", op_type="FusedGemm", domain="com.microsoft"),)
    text = rungs(passed(outcome=Outcome.FAIL, divergences=(divergence(candidate_nodes=other),)))[0]
    assert "| operator | candidate's node |" in text
    assert "| `com.microsoft.FusedGemm` | `fused` |" in text
