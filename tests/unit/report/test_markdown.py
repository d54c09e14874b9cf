import re
from dataclasses import replace

import pytest

from ci_parity.records.divergence import NodeName
from ci_parity.records.finding import Subject
from ci_parity.records.history import EarlierVerdict
from ci_parity.records.identity import Axis, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.records.verdict import Environment, Verdict
from ci_parity.report.markdown import comment, no_verdict
from ci_parity.report.occasion import Occasion
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.samples import (
    BUMP,
    SAMPLES,
    attribution,
    changes,
    divergence,
    failed,
    finding,
    latency,
    on_cpu,
    on_gpu,
    open_divergence,
    output,
    passed,
    row,
)

COMMIT = "c0ffee" * 6 + "c0ff"
RUN_URL = "https://git.example/acme/models/actions/runs/7"
OCCASION = Occasion(commit=COMMIT, run_url=RUN_URL)
EARLIER = (
    (
        EarlierVerdict(run=1, attempt=1, page=1, sha="a" * 40, outcome=Outcome.PASS),
        f"{RUN_URL}1",
    ),
    (EarlierVerdict(run=2, attempt=1, page=2, sha="", outcome=Outcome.INCONCLUSIVE), f"{RUN_URL}2"),
)
# GitHub refuses longer bodies.
LIMIT = 65_536


def rungs(verdict: Verdict) -> tuple[str, ...]:
    """Return the whole ladder."""
    return comment(verdict, OCCASION)


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
    """Fifty, then twenty, then none but the verdict; what is left out is counted."""
    many = tuple(finding(subject=Subject(case=f"c{number}")) for number in range(200))
    ladder = rungs(passed(outcome=Outcome.FAIL, findings=many, outputs=(output(),) * 300))
    assert [rung.count("`output.values`") for rung in ladder] == [50, 50, 50, 20, 0]
    assert "… and 150 more." in ladder[1]
    assert "… and 180 more." in ladder[3]
    assert ["All comparisons" in rung for rung in ladder] == [True, *[False] * 4]
    assert ["Placement" in rung for rung in ladder] == [True, True, *[False] * 3]
    assert "… and 100 more in the JSON report." in ladder[0]
    lengths = [len(rung) for rung in ladder]
    assert lengths == sorted(set(lengths), reverse=True)
    assert lengths[-1] < 2000


def test_our_own_sentences_are_left_alone() -> None:
    """Escaping does not make the usual evidence unreadable in the source."""
    text = rungs(failed())[0]
    assert "latency FAIL (+20.0 % &#91;+15.0, +25.0&#93;, MDE 6.7 %, advisory)" in text
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
    assert "| 0.344 / 4.09 x noise |" in text


def test_every_rung_says_where_the_first_failure_begins() -> None:
    """The nodes and their reproduction go last of all, with a link to the run that has them."""
    for rung in rungs(failed()):
        seen = rung.partition("<details>")[0]
        assert "**Where it begins to fail" in seen
        assert "Gemm 'classify', Relu 'clip' go wrong only as they are optimized together" in seen
        assert f"in the [report]({RUN_URL}#artifacts): `repro-1/README.md`" in seen
    assert "(and 1 more)" in rungs(failed())[-1]


def test_a_search_for_each_boundary_has_a_line_of_its_own() -> None:
    """What came to nodes stands before what came to nothing."""
    seen = rungs(failed())[0].partition("<details>")[0]
    begins = seen.partition("**Where it begins to fail**\n\n")[2].splitlines()[:2]
    assert begins[0].startswith("- `cpu` `exported` `baseline→candidate` in `typical`: Gemm")
    assert begins[1] == (
        "- `cpu` `int8` `baseline→candidate` in `typical`: the model cannot be taken apart"
    )


def test_what_a_sentence_rests_on_is_folded() -> None:
    """It is left out where the comment is too long."""
    shown = ["| `Gemm` | `classify` |" in rung for rung in rungs(failed())]
    assert shown == [True, True, False, False]


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
    assert text.count("… and 3 more.") == 5
    assert "… and 2 more in the JSON report." in text
    assert "`a` `b` `c` … 2 more |" in text
    assert "… and 4 more." in text
    assert len(text) < LIMIT


def test_nodes_of_another_model_have_a_table_of_their_own() -> None:
    """A converted model calls them otherwise."""
    other = (NodeName(name="fused", op_type="FusedGemm", domain="com.microsoft"),)
    text = rungs(passed(outcome=Outcome.FAIL, divergences=(divergence(candidate_nodes=other),)))[0]
    assert "| operator | candidate's node |" in text
    assert "| `com.microsoft.FusedGemm` | `fused` |" in text


# What changed


def test_a_move_that_concerns_many_pairs_is_one_line() -> None:
    """Twenty variants on one new runtime are one change; digests show their first digits."""
    moved = [replace(BUMP, variant=f"v{number}") for number in range(20)]
    model = Change(
        axis=Axis.MODEL, target="cpu", variant="v0", before="sha256:" + "1" * 64, after="2" * 64
    )
    text = rungs(passed(changes=changes(*moved, model)))[0]
    bump = "| runtime | `cpu` `v0`, `cpu` `v1`, `cpu` `v2` and 17 more | `onnxruntime==1.31.1` |"
    assert f"{bump} `onnxruntime==1.32.0` |" in text
    assert f"| model | `cpu` `v0` | `sha256:{'1' * 12}` | `{'2' * 12}` |" in text


def test_many_changes_are_cut_and_counted() -> None:
    """Fifty moves, and no more than twenty where the comment is too long."""
    moved = [replace(BUMP, after=f"onnxruntime==2.{number}") for number in range(80)]
    ladder = rungs(passed(changes=changes(*moved)))
    assert "… and 30 more in the JSON report." in ladder[0]
    assert "… and 60 more in the JSON report." in ladder[-2]


# Pairs


def many_pairs(broken: int, held: int) -> Verdict:
    """Return a verdict on many pairs, of which the last ones do not hold."""
    outcomes = [Outcome.PASS] * held + [Outcome.FAIL] * broken
    rows = tuple(row(outcome, target=f"t{at}") for at, outcome in enumerate(outcomes))
    return passed(outcome=Outcome.worst(outcomes), rows=rows, latency=())


def test_boundaries_of_one_pair_share_a_line() -> None:
    """The one that broke on its own is named; all of them can be opened."""
    broken = (
        row(boundary="source→exported"),
        row(Outcome.FAIL, boundary="exported→int8", inherits="x"),
        row(Outcome.FAIL, cases=1, worst=output(outcome=Outcome.FAIL, required=0.05)),
    )
    text = rungs(passed(outcome=Outcome.FAIL, rows=broken, latency=()))[0]
    line = (
        "| ❌ | `cpu` | `exported` | baseline→candidate, 1 more | 1 of 2 | `probs` in `typical` |"
    )
    assert f"{line} 0.05 / 0.0001 |" in text.partition("<details>")[0]
    assert text.count("\n| ❌ |") == 3
    assert "All boundaries (3)" in text


def test_many_pairs_that_hold_are_folded() -> None:
    """What does not hold stays in sight, what does is counted."""
    ladder = rungs(many_pairs(broken=2, held=30))
    seen = ladder[0].partition("<details>")[0]
    assert seen.count("\n| ❌ |") == 2
    assert "\n| ✅ |" not in seen
    assert "30 of 32 hold." in seen
    assert "What holds (30)" in ladder[0]
    assert "What holds (30)" not in ladder[1]
    assert "All 30 of 30 hold." in rungs(many_pairs(broken=0, held=30))[-2]


def test_a_latency_that_binds_marks_its_pair() -> None:
    """The line of a pair that is too slow is no pass, and the verdict line says why."""
    slow = latency(outcome=Outcome.FAIL, enforced=True, ratio=1.2, ratio_low=1.1, ratio_high=1.3)
    found = (*passed().findings, finding("latency.p50"))
    text = rungs(passed(outcome=Outcome.FAIL, latency=(slow,), findings=found))[0]
    assert text.startswith("### ❌ LATENCY FAIL (+20.0 % &#91;+10.0, +30.0&#93;, MDE 6.7 %) · ")
    assert "· parity PASS (4 of 4 checks hold) · release blocked" in text
    assert "\n| ❌ | `cpu` | `exported` | all 2 hold |" in text
    assert "❌ +20.0 % &#91;+10.0, +30.0&#93; |" in text


def test_nodes_that_ran_elsewhere_are_in_sight() -> None:
    """Where all ran where it was asked to, there is nothing to say."""
    heading = "**Not where it was asked to run**"
    assert heading not in rungs(passed())[0]
    seen = rungs(passed(placements=(on_cpu(), on_gpu())))[0].partition("<details>")[0]
    assert f"{heading}\n\n- `gpu` `exported`: 23 of 26 nodes on CUDAExecutionProvider" in seen
    assert "its runtime printed 1 fallback" in seen


# Before and after


def test_earlier_verdicts_stand_in_order_with_this_one_last() -> None:
    """Each with its commit and a link to its run."""
    text = comment(failed(), replace(OCCASION, earlier=EARLIER))
    line = (
        f"Verdicts here, newest last: ✅ [`aaaaaaa`]({RUN_URL}1) · ⚠️ [run]({RUN_URL}2) · "
        f"❌ `{COMMIT[:7]}`"
    )
    assert all(f"\n\n{line}\n\n" in rung for rung in text)
    assert "Verdicts here" not in rungs(failed())[0]


def proof(bundle: str) -> LogLine:
    """Return the log's line on what was validated last."""
    entry = LogEntry(
        kind=EntryKind.VALIDATED, channel="edge", idempotency="i", bundle=bundle, commit="b" * 40,
        finished_at="2026-11-30T10:07:00Z", deployment="digits", identities=(), findings_failed=(),
        cases_run=2, cases_expected=2, tool_version="0.1.0",
    )  # fmt: skip
    return LogLine(seq=7, sha256="d" * 64, entry=entry)


@pytest.mark.parametrize("name", ["fail", "inconclusive"])
def test_what_was_validated_last_can_be_restored(name: str) -> None:
    """After anything but a pass every rung says which bundle it is, and how to get it back."""
    known = replace(OCCASION, proof=proof("e" * 64), log="branch:log")
    for rung in comment(SAMPLES[name], known):
        assert (
            f"**Last validated: bundle `sha256:{'e' * 16}`, commit `{'b' * 12}`, 2026-11-30, "
            f"record 7 of branch&#58;log.** To restore it, where another is out, run "
            f"`ci-parity rollback --to sha256:{'e' * 64}`; else deploy the files of commit "
            f"`{'b' * 12}`."
        ) in rung


def test_what_was_validated_may_be_the_same_files() -> None:
    """Then it is not the model that must be taken back."""
    known = replace(OCCASION, proof=proof(failed().bundle_digest))
    assert "take back what changed around them" in comment(failed(), known)[0]


@pytest.mark.parametrize("name", ["pass", "unchanged"])
def test_a_pass_only_names_what_was_validated_last(name: str) -> None:
    """There is nothing to restore."""
    text = comment(SAMPLES[name], replace(OCCASION, proof=proof("e" * 64)))[0]
    assert "Last validated: bundle" in text
    assert "To restore it" not in text


def test_a_run_without_a_verdict_says_so_on_its_first_line() -> None:
    """What went wrong stands there as it was written; it is no pass, and blocks."""
    message = "unknown key\n  where:  ci-parity.yml\n  remedy: rename `it`"
    full, short = no_verdict(message, replace(OCCASION, earlier=EARLIER))
    for text in (full, short):
        assert text.startswith("### ⚠️ NO VERDICT · unknown key · release blocked\n")
        assert "Verdicts here, newest last: ✅" in text
        assert f"[workflow run]({RUN_URL})" in text
    assert "```text\nunknown key\n  where: ci-parity.yml\n  remedy: rename 'it'\n```" in full


def test_the_verdict_survives_any_size() -> None:
    """A thousand of everything leaves a last text that any server takes, and a short one."""
    rows = tuple(row(Outcome.FAIL, target=f"t{at}", boundary="b" * 300) for at in range(1000))
    huge = passed(
        outcome=Outcome.FAIL, rows=rows, latency=(latency(),) * 1000, outputs=(output(),) * 1000,
        findings=tuple(finding(evidence="e" * 5000) for _ in range(1000)),
        changes=changes(*(replace(BUMP, after=f"{at}") for at in range(1000))),
        divergences=(divergence(),) * 1000, placements=(on_gpu(),) * 1000,
        reproduce=("ci-parity check",) * 1000,
        environment=Environment(host="h", systems=("s",) * 1000),
    )  # fmt: skip
    ladder = rungs(huge)
    lengths = [len(rung) for rung in ladder]
    assert lengths == sorted(set(lengths), reverse=True)
    assert lengths[0] < 300_000
    assert lengths[-1] < 4000
    assert all("release blocked" in rung.partition("\n")[0] for rung in ladder)
