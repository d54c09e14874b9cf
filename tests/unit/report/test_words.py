import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.escape import prose
from ci_parity.base.words import percent
from ci_parity.config import load
from ci_parity.config.model import Policy
from ci_parity.records.finding import Subject
from ci_parity.records.latency import BlockPair, LatencyObservation, LatencyRun, LatencySession
from ci_parity.records.observation import (
    CaseInputs,
    CaseRun,
    InputSet,
    Observation,
    RunStatus,
)
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report import json_v1, markdown, text
from ci_parity.report.occasion import Occasion
from ci_parity.report.words import (
    ICONS,
    failures,
    headline,
    latency_words,
    number,
    warnings,
)
from ci_parity.stages.assemble import judged
from ci_parity.stages.judge import judge
from ci_parity.stages.suite import PairRun
from tests.support import observations
from tests.support.observations import floats
from tests.unit.report import samples
from tests.unit.report.samples import (
    SAMPLES,
    VERSION,
    diff,
    failed,
    finding,
    latency,
    passed,
)

STATUSES = list(RunStatus)
GOOD, BAD = {"y": floats(1, 2)}, {"y": floats(2, 1)}


class Generated:
    """Draws runs out of everything that can happen to them; tensors are written once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ran = {
            name: observations.case_run(folder, name, outputs)
            for name, outputs in (("good", GOOD), ("bad", BAD), ("none", {}))
        }
        self.outputs = {name: run.outputs for name, run in ran.items()}

    def side(self, draw: st.DrawFn, cases: list[str]) -> Observation:
        """Return one system; now and then it does not load, or runs elsewhere, or forgets cases."""
        runs = []
        for case in cases:
            status = draw(st.sampled_from([RunStatus.OK] * 6 + STATUSES))
            kind = draw(st.sampled_from(["good"] * 4 + ["bad", "none"]))
            outputs = self.outputs[kind] if status is RunStatus.OK else ()
            runs.append(CaseRun(case=case, status=status, outputs=outputs, message="last words"))
        kept = draw(st.integers(0, len(runs))) if draw(st.integers(0, 9)) == 0 else len(runs)
        load = draw(st.sampled_from([RunStatus.OK] * 9 + STATUSES))
        used = draw(st.sampled_from([(observations.PROVIDER,)] * 9 + [()]))
        return observations.observation(self.folder, *runs[:kept], load=load, providers_used=used)

    def run(self, draw: st.DrawFn, cases: list[str], number: int) -> PairRun:
        """Return a pair with or without references and baseline."""
        left = self.side(draw, cases) if draw(st.integers(0, 4)) else None
        stored = self.side(draw, cases) if draw(st.booleans()) else None
        timed = None
        if draw(st.booleans()):
            blocks = st.integers(1, 100).map(lambda n: (n,) * 4)
            pair = st.builds(BlockPair, baseline_ns=blocks, candidate_ns=blocks)
            sessions = draw(st.lists(pair, max_size=3))
            case = LatencyObservation(
                case="c0", sessions=tuple(LatencySession(pairs=(pair,)) for pair in sessions)
            )
            timed = LatencyRun(cases=(case,))
        sample = observations.pair(f"target{number}")
        return PairRun(
            pair=sample, expected=tuple(cases), references=stored, baseline=left,
            candidate=self.side(draw, cases), latency=timed,
        )  # fmt: skip

    def verdict(self, draw: st.DrawFn) -> Verdict:
        """Return the verdict on some pairs over some cases."""
        cases = [f"c{number}" for number in range(draw(st.integers(0, 3)))]
        runs = [self.run(draw, cases, n) for n in range(draw(st.integers(0, 3)))]
        enforce = draw(st.booleans())
        inputs = InputSet(
            folder="", source="fixtures", cases=tuple(CaseInputs(case=c, inputs=()) for c in cases)
        )
        return judged(
            command=draw(st.sampled_from(["check", "diff"])), deployment="digits",
            judgement=judge(runs, policy(enforce=enforce)), runs=runs, inputs=inputs, changes=None,
            bundle="", reproduce=("ci-parity check",),
        )  # fmt: skip


@st.composite
def verdicts(draw: st.DrawFn, generated: Generated) -> Verdict:
    """Draw a verdict."""
    return generated.verdict(draw)


def policy(*, enforce: bool) -> Policy:
    """Return the default policy, latency binding or not."""
    timing = {"sessions": 2, "pairs": 2, "max_regression": "5%", "enforce": enforce}
    return load.policy({"timeout_s": 1, "latency": timing})


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_the_headline_never_contradicts_anything_below_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """No row, finding, table or file says pass where the line says fail, nor the other way."""
    generated = Generated(tmp_path_factory.mktemp("generated"))
    verdict = data.draw(verdicts(generated))
    line = headline(verdict)
    counted(verdict, line)
    outcomes = [row.outcome for row in verdict.rows]
    binding = [f.outcome for f in verdict.findings if not f.advisory]
    for row in verdict.rows:
        about = (row.target, row.variant, row.boundary)
        found = [f for f in verdict.findings if not f.advisory and about == place(f.subject)]
        assert row.outcome is Outcome.worst([f.outcome for f in found])
    assert verdict.outcome is Outcome.worst(binding)
    assert Outcome.worst([verdict.outcome, *outcomes]) is verdict.outcome
    if verdict.outcome is Outcome.PASS:
        assert outcomes
        assert all(row.cases == row.cases_expected > 0 for row in verdict.rows)
        assert verdict.outputs
        assert failures(verdict) == []
    else:
        assert failures(verdict) or not verdict.findings
    blocked = verdict.outcome is not Outcome.PASS and verdict.command == "check"
    assert ("release blocked" in line) is blocked
    check_reports(verdict, line)


def counted(verdict: Verdict, line: str) -> None:
    """Assert that the line's outcome and counts are those of the findings below it.

    1. Its first words are the outcome; latency stands first only where parity is not to blame.
    2. So many failed, so many were not measured, of so many checks that bind.
    3. The boundary that it names is a row that failed on its own.
    """
    binding = [f for f in verdict.findings if not f.advisory]
    checks = [f.outcome for f in binding if not f.id.startswith("latency.")]
    first, *_ = line.split(" · ")
    icon, kind, name, *_ = first.split(" ")
    assert (icon, name) == (ICONS[verdict.outcome], verdict.outcome.name)
    parity = Outcome.worst(checks)
    if kind == "LATENCY":
        assert parity is not verdict.outcome
        assert f" · parity {parity.name} (" in line
    else:
        assert kind == "PARITY"
        assert parity is verdict.outcome
    failed, unsettled = checks.count(Outcome.FAIL), checks.count(Outcome.INCONCLUSIVE)
    assert (f"{failed} of {len(checks)} checks failed" in line) is bool(failed)
    assert (f"{unsettled} of {len(checks)} checks not measured" in line) is bool(unsettled)
    held = bool(checks) and not failed and not unsettled
    assert (f"{len(checks)} of {len(checks)} checks hold" in line) is held
    own = [r for r in verdict.rows if r.outcome is Outcome.FAIL and not r.inherits]
    named = [r for r in own if f"first at {r.target}/{r.variant}/{r.boundary}" in line]
    assert bool(named) == (len(verdict.rows) > 1 and bool(own))


def place(subject: Subject) -> tuple[str, str, str]:
    """Return what a row is about."""
    return subject.target, subject.variant, subject.boundary


def check_reports(verdict: Verdict, line: str) -> None:
    """Assert that every report opens with the line and repeats the outcomes below it."""
    assert text.render(verdict).startswith(f"{line}\n")
    rungs = markdown.comment(verdict)
    assert len({rung.partition("\n")[0] for rung in rungs}) == 1
    assert prose(line, 600) in rungs[0]
    overview = rungs[0].partition("**Failures**")[0].partition("**Not measured**")[0]
    overview = overview.partition("<details>")[0]
    shown = {o: overview.count(f"\n| {icon} |") for o, icon in ICONS.items()}
    assert sum(shown.values()) == len({(row.target, row.variant) for row in verdict.rows})
    pairs = [outcome for outcome, count in shown.items() for _ in range(count)]
    assert Outcome.worst([verdict.outcome, *pairs]) is verdict.outcome
    if any(row.outcome is verdict.outcome for row in verdict.rows):
        assert shown[verdict.outcome]
    render = json_v1.render_diff if verdict.command == "diff" else json_v1.render_check
    assert render(verdict)["outcome"] == verdict.outcome.value


HEADLINES = {
    "pass": (
        "✅ PARITY PASS (4 of 4 checks hold)",
        "latency INCONCLUSIVE (+5.0 % [-2.0, +12.0], MDE 6.7 %, advisory)",
    ),
    "fail": (
        "❌ PARITY FAIL (3 of 5 checks failed, first at cpu/exported/baseline→candidate)",
        "latency FAIL (+20.0 % [+15.0, +25.0], MDE 6.7 %, advisory)",
        "1 warning",
        "release blocked",
    ),
    "inconclusive": (
        "⚠️ PARITY INCONCLUSIVE (1 of 1 checks not measured)",
        "release blocked",
    ),
    "unchanged": (
        "✅ PARITY UNCHANGED",
        "nothing that can change the results differs from the baseline",
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_headline_says_all_in_one_line(name: str) -> None:
    """The outcome, why, the latency, warnings, and what follows."""
    assert headline(SAMPLES[name]) == " · ".join(HEADLINES[name])


def test_a_diff_blocks_no_release() -> None:
    """It was asked on a command line."""
    assert "release blocked" not in headline(diff(failed()))


def test_failures_come_before_open_questions_and_the_worst_first() -> None:
    """By how many times the limit was needed; what has no number is worse than any."""
    found = [
        finding("open", outcome=Outcome.INCONCLUSIVE),
        finding("mild", required=0.002, limit=0.001),
        finding("passed", outcome=Outcome.PASS),
        finding("grave", required=0.9, limit=0.001),
        finding("crash", required=None, limit=None),
        finding("advice", advisory=True),
    ]
    verdict = passed(findings=tuple(found))
    assert [f.id for f in failures(verdict)] == ["crash", "grave", "mild", "open"]
    assert [f.id for f in warnings(verdict)] == ["advice"]


def test_what_broke_on_its_own_comes_before_what_inherits() -> None:
    """However far the later one is off; open questions stay behind both."""
    later = Subject(target="cpu", variant="int8", boundary=VERSION)
    found = [
        finding("inherited", required=0.9, limit=0.001, subject=later),
        finding("open", outcome=Outcome.INCONCLUSIVE, subject=later),
        finding("first", required=0.002, limit=0.001),
    ]
    rows = (
        samples.row(Outcome.FAIL),
        samples.row(Outcome.FAIL, variant="int8", inherits="exported: baseline→candidate"),
    )
    verdict = passed(findings=tuple(found), rows=rows)
    assert [f.id for f in failures(verdict)] == ["first", "inherited", "open"]


@pytest.mark.parametrize("kind", ["attribution", "divergence"])
def test_a_cause_is_no_warning(kind: str) -> None:
    """Nor is where it begins; both are said where the failures are."""
    advice = finding(kind, advisory=True)
    assert warnings(passed(findings=(advice,))) == []


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [(Outcome.PASS, False), (Outcome.INCONCLUSIVE, False), (Outcome.FAIL, True)],
)
def test_an_unsettled_latency_is_no_warning(outcome: Outcome, shown: bool) -> None:
    """The headline says it already."""
    advice = finding("latency.p50", outcome=outcome, advisory=True)
    assert bool(warnings(passed(findings=(advice,)))) is shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (0.0, "0"), (1.23456e-05, "1.23e-05"), (1234.5, "1.23e+03"),
        (math.inf, "inf"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value: float | None, shown: str) -> None:
    """And a hyphen where there is none."""
    assert number(value) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"), [(1.0, "+0.0 %"), (1.051, "+5.1 %"), (0.5, "-50.0 %"), (2.5, "+150.0 %")]
)
def test_ratios_are_signed_percentages(ratio: float, shown: str) -> None:
    """Growth is positive."""
    assert percent(ratio) == shown


def test_an_enforced_latency_is_not_called_advisory() -> None:
    """The words tell which of the two it is."""
    figures = "+5.0 % [-2.0, +12.0], MDE 6.7 %"
    assert latency_words(latency(enforced=True)) == f"latency INCONCLUSIVE ({figures})"
    assert latency_words(latency()) == f"latency INCONCLUSIVE ({figures}, advisory)"


def test_what_could_not_be_detected_is_said_where_it_is_known() -> None:
    """A latency from before it was computed goes without."""
    assert latency_words(latency(mde=None)).endswith("(+5.0 % [-2.0, +12.0], advisory)")


def test_the_worst_of_several_timings_stands_on_the_line() -> None:
    """What fails before what is open, what binds before what does not, the slowest of these."""
    timings = (
        latency(outcome=Outcome.PASS, ratio=1.01),
        latency(outcome=Outcome.FAIL, ratio=1.1),
        latency(outcome=Outcome.FAIL, ratio=1.3),
    )
    line = headline(passed(latency=timings))
    assert " · latency FAIL (worst of 3: +30.0 % [-2.0, +12.0], MDE 6.7 %, advisory)" in line


def test_a_latency_that_alone_decides_stands_first() -> None:
    """A reader is not told that parity failed where it holds."""
    found = (*passed().findings, finding("latency.p50"))
    slow = (latency(outcome=Outcome.FAIL, enforced=True),)
    line = headline(passed(outcome=Outcome.FAIL, findings=found, latency=slow))
    assert line.startswith(
        "❌ LATENCY FAIL (+5.0 % [-2.0, +12.0], MDE 6.7 %) · parity PASS (4 of 4 "
    )
    assert line.endswith(" · release blocked")


def test_a_latency_that_binds_and_was_not_measured_stands_first() -> None:
    """Nothing measured is no pass, and parity is not to blame."""
    found = (*passed().findings, finding("latency.p50", outcome=Outcome.INCONCLUSIVE))
    line = headline(passed(outcome=Outcome.INCONCLUSIVE, findings=found, latency=()))
    assert line.startswith("⚠️ LATENCY INCONCLUSIVE (not measured) · parity PASS (")


def test_a_verdict_on_stored_observations_says_so() -> None:
    """The note stands on the line, and what follows from the verdict still ends it."""
    line = headline(replace(failed(), note="stored observations of 2026-11-30 judged again"))
    assert "· stored observations of 2026-11-30 judged again ·" in line
    assert line.endswith("release blocked")


def test_a_long_place_does_not_hide_what_follows() -> None:
    """The name of a boundary is cut before the line's end is."""
    long = tuple(replace(one, boundary="b" * 5000) for one in failed().rows)
    for line in (headline(replace(failed(), rows=long)), text.render(replace(failed(), rows=long))):
        assert "release blocked" in line.partition("\n")[0]


def test_a_latency_that_could_not_be_taken_is_said() -> None:
    """On the line, and with its reason where the timings would be."""
    why = samples.finding(
        "latency.p50", outcome=Outcome.INCONCLUSIVE, advisory=True, measured=None,
        evidence="latency not measured: the machine was disturbed",
    )  # fmt: skip
    verdict = samples.passed(findings=(*samples.passed().findings, why), latency=())
    assert headline(verdict).endswith("· latency not measured")
    for report in (text.render(verdict), markdown.comment(verdict, Occasion())[0]):
        assert "the machine was disturbed" in report
    timed = replace(verdict, latency=(samples.latency(),))
    assert "latency not measured" not in headline(timed)
