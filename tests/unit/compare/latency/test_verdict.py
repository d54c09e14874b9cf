from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ci_parity.compare.latency.verdict import Judged, judge_latency
from ci_parity.config.load import policy
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding, LatencyComparison, Subject
from ci_parity.records.latency import BlockPair, Calibration, LatencyObservation, LatencySession
from ci_parity.records.outcome import Outcome
from tests.support.timings import MS, processes, run_of, session, side, timed

SUBJECT = Subject(target="cpu", variant="int8")
QUIET = (1.0, 1.001, 0.999, 1.0)


def rules(**latency: Any) -> Policy:
    """Return a policy with these keys of latency."""
    return policy({"latency": latency})


def judged(
    observed: LatencyObservation, asked: Policy | None = None, **parts: object
) -> tuple[LatencyComparison, Finding]:
    """Judge one case that must give numbers."""
    found = judge_latency([(SUBJECT, run_of(observed, **parts))], asked or rules())
    (timing,) = found.timings
    assert timing.outcome is found.findings[0].outcome
    return timing, found.findings[0]


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((1.2, 1.21, 1.19, 1.2), Outcome.FAIL),
        ((1.03, 1.0301, 1.0299, 1.03), Outcome.FAIL),
        (QUIET, Outcome.PASS),
        ((0.5, 0.5, 0.51, 0.5), Outcome.PASS),
        ((1.04, 1.06, 1.05, 1.05), Outcome.INCONCLUSIVE),
        ((1.0, 1.3, 1.0, 1.3), Outcome.INCONCLUSIVE),
        ((1.2, 1.3), Outcome.INCONCLUSIVE),
    ],
)
def test_the_interval_decides(ratios: Sequence[float], outcome: Outcome) -> None:
    """All of it above the margin fails, below the budget passes, else it stays open."""
    timing, finding = judged(timed(*ratios))
    assert finding.outcome is outcome
    assert timing.sessions == len(ratios)
    assert timing.session_ratios == pytest.approx(ratios, rel=1e-6)
    assert timing.max_regression == 0.05
    assert timing.margin == pytest.approx(0.02)


def test_a_wider_budget_has_a_wider_margin() -> None:
    """What is allowed and certain is no failure."""
    ratios = (1.03, 1.0301, 1.0299, 1.03)
    assert judged(timed(*ratios), rules(max_regression="10%"))[0].outcome is Outcome.PASS


def test_the_evidence_names_both_times_and_the_limits() -> None:
    """Milliseconds, the change with its interval, what is allowed and what it is above."""
    timing, finding = judged(timed(1.2, 1.2, 1.2, 1.2))
    assert (timing.baseline_p50_ms, timing.candidate_p50_ms) == (2.0, 2.4)
    assert finding.evidence == (
        "p50 2 ms to 2.4 ms: +20.0 % [+20.0 %, +20.0 %] in 4 sessions, allowed +5 %; "
        "it is above +2 % for certain"
    )
    assert finding.measured == finding.required == timing.ratio - 1
    assert finding.limit == 0.05


def test_an_open_question_says_what_would_have_shown() -> None:
    """The minimum detectable effect, in the numbers and in the words."""
    timing, finding = judged(timed(1.0, 1.3, 1.0, 1.3))
    assert timing.mde is not None
    assert f"+{100 * timing.mde:.2g} %" in finding.evidence
    assert "the interval of 4 sessions settles nothing" in timing.reason
    assert "ci-parity calibrate" in finding.remedy


def test_how_the_machine_was_stands_with_an_open_question() -> None:
    """What was seen of it before timing; a settled question needs no excuse."""
    seen = ("virtual machine", "load average 3.0 on 2 CPUs")
    timing, _ = judged(timed(1.0, 1.3, 1.0, 1.3), conditions=seen)
    assert timing.reason.endswith("(seen here: virtual machine, load average 3.0 on 2 CPUs)")
    assert judged(timed(*QUIET), conditions=seen)[0].reason == ""


@pytest.mark.parametrize(
    ("ratios", "failure", "said"),
    [
        ((), "", "fewer than two sessions"),
        ((1.0,), "", "fewer than two sessions"),
        ((1.0,), "the worker exited with status 3", "exited with status 3"),
    ],
)
def test_fewer_than_two_sessions_settle_nothing(
    ratios: Sequence[float], failure: str, said: str
) -> None:
    """One replicate has no spread; the worker's last words are the reason."""
    found = judge_latency([(SUBJECT, run_of(timed(*ratios, failure=failure)))], rules())
    assert found.timings == ()
    (finding,) = found.findings
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert said in finding.evidence
    assert (finding.measured, finding.required) == (None, None)


def test_samples_that_are_no_durations_settle_nothing() -> None:
    """A worker that reports none that took time is not faster."""
    bad = LatencySession(pairs=(BlockPair(baseline_ns=(1,) * 8, candidate_ns=(0,) * 8),))
    case = LatencyObservation(case="typical", sessions=(session(1.0), bad, session(1.0)))
    found = judge_latency([(SUBJECT, run_of(case))], rules())
    assert found.timings == ()
    assert "no durations" in found.findings[0].evidence


def test_a_failure_on_the_way_leaves_an_early_look_standing() -> None:
    """What was settled before a worker died is settled; what was not stays open."""
    assert judged(timed(1.2, 1.2, 1.2, 1.2, failure="it died"))[0].outcome is Outcome.FAIL
    timing, finding = judged(timed(1.2, 1.2, failure="it died"))
    assert timing.outcome is Outcome.INCONCLUSIVE
    assert timing.reason == "it died"
    assert "it died" in finding.evidence


def test_time_that_is_over_spends_what_is_left() -> None:
    """Few sessions settle what they can, and the reason is the time."""
    over = "240 s were over"
    assert judged(timed(1.2, 1.2, 1.2, ended=over))[0].outcome is Outcome.FAIL
    assert judged(timed(1.2, 1.2, 1.2))[0].outcome is Outcome.INCONCLUSIVE
    timing, _ = judged(timed(1.0, 1.1, 1.2, ended=over))
    assert (timing.outcome, timing.reason) == (Outcome.INCONCLUSIVE, over)


def test_a_case_that_was_settled_is_not_looked_at_again() -> None:
    """Time that is over for one case spends nothing on another."""
    ratios = (1.03035, 1.03676, 1.03035, 1.03676)
    assert judged(timed(*ratios))[0].outcome is Outcome.PASS
    assert judged(timed(*ratios, ended="over"))[0].outcome is Outcome.FAIL


@pytest.mark.parametrize("ratios", [(1.2, 1.2, 1.2, 1.2), QUIET])
def test_environments_that_differ_settle_nothing(ratios: Sequence[float]) -> None:
    """Neither a failure nor a pass, whatever the interval."""
    facts = processes(side(cpus=(0, 1)), side(cpus=(0,)))
    timing, _ = judged(timed(*ratios), processes=facts)
    assert timing.outcome is Outcome.INCONCLUSIVE
    assert "the baseline may run on CPUs 0,1, the candidate on 0" in timing.reason


@pytest.mark.parametrize(
    ("cpus", "outcome"),
    [((2, 3), Outcome.PASS), ((0, 1), Outcome.INCONCLUSIVE), ((), Outcome.INCONCLUSIVE)],
)
def test_pinning_that_did_not_happen_settles_nothing(
    cpus: tuple[int, ...], outcome: Outcome
) -> None:
    """What was asked for is looked at, not believed."""
    facts = processes(side(cpus=cpus), side(cpus=cpus))
    timing, _ = judged(timed(*QUIET), processes=facts, pinned=(2, 3))
    assert timing.outcome is outcome


def test_void_pairs_are_counted_and_do_not_count() -> None:
    """They are in the record and in no number."""
    sessions = (session(1.0, void=2),) * 4
    timing, _ = judged(LatencyObservation(case="typical", sessions=sessions))
    assert (timing.ratio, timing.pairs, timing.voided_pairs) == (1.0, 12, 8)


@pytest.mark.parametrize("enforce", [True, False])
def test_only_an_enforced_regression_decides(enforce: bool) -> None:
    """Otherwise it is a warning, with the same words."""
    timing, finding = judged(timed(1.2, 1.2, 1.2, 1.2), rules(enforce=enforce))
    assert (finding.id, finding.advisory) == ("latency.p50", not enforce)
    assert timing.enforced is enforce
    assert finding.remedy
    assert not judged(timed(*QUIET), rules(enforce=enforce))[1].remedy


# Several cells.


def cells(*ratios: Sequence[float]) -> Judged:
    """Judge many variants, each with one case."""
    runs = [
        (replace(SUBJECT, variant=f"v{number}"), run_of(timed(*one)))
        for number, one in enumerate(ratios)
    ]
    return judge_latency(runs, rules())


def test_every_case_of_every_pair_is_a_cell() -> None:
    """In their order, each with its name."""
    run = run_of(timed(*QUIET, case="typical"), timed(1.2, 1.2, 1.2, 1.2, case="largest"))
    found = judge_latency([(SUBJECT, run), (SUBJECT, run)], rules())
    names = [(t.subject.case, t.outcome) for t in found.timings]
    assert names == [("typical", Outcome.PASS), ("largest", Outcome.FAIL)] * 2


def test_beyond_sixteen_cells_a_failure_must_be_clearer() -> None:
    """One that just fails alone does not among a hundred; a clear one does."""
    border = (1.105, 1.14, 1.12, 1.13)
    assert cells(border).timings[0].outcome is Outcome.FAIL
    assert cells(border, *[QUIET] * 15).timings[0].outcome is Outcome.FAIL
    among = cells(border, (1.5, 1.501, 1.499, 1.5), *[QUIET] * 98).timings
    assert [t.outcome for t in among[:2]] == [Outcome.INCONCLUSIVE, Outcome.FAIL]
    assert {t.outcome for t in among[2:]} == {Outcome.PASS}


def test_each_failure_makes_room_for_the_next() -> None:
    """Holm: of twenty cells that nearly all fail clearly, the last is judged as one of few."""
    border = (1.105, 1.14, 1.12, 1.13)
    clear = (1.5, 1.501, 1.499, 1.5)
    alone = cells(border, *[QUIET] * 39).timings[0]
    helped = cells(border, *[clear] * 39).timings[0]
    assert alone.ratio_low < helped.ratio_low
    assert helped.outcome is Outcome.FAIL
    assert alone.outcome is Outcome.INCONCLUSIVE


# What stands beside it.


def test_measures_stand_beside_the_verdict() -> None:
    """Tails of each case; load, first inference and memory with the first case of a pair."""
    run = run_of(
        timed(*QUIET, case="typical"), timed(*QUIET, case="largest"),
        processes=processes(side(held_mib=[90.0] * 20), side(held_mib=[91.0] * 20)),
    )  # fmt: skip
    first, second = judge_latency([(SUBJECT, run)], rules()).timings
    assert [m.name for m in second.measures] == ["p95", "p99"]
    assert [m.name for m in first.measures] == [
        "p95", "p99", "load", "first", "peak_memory", "memory_growth", "device_memory",
    ]  # fmt: skip
    shown = {m.name: (m.baseline, m.candidate, m.samples) for m in first.measures}
    assert shown["load"] == (5.0, 5.0, 4)
    assert shown["peak_memory"] == (100.0, 100.0, 4)
    assert shown["p95"] == (None, None, 96)
    assert shown["device_memory"] == (None, None, 0)
    notes = {m.name: m.note for m in first.measures}
    assert "130 iterations" in notes["p95"]
    assert "not measured" in notes["device_memory"]


def test_throughput_is_rows_by_time() -> None:
    """Eight rows in 2 ms are 4000 a second."""
    block = BlockPair(baseline_ns=(2 * MS,) * 8, candidate_ns=(4 * MS,) * 8)
    case = LatencyObservation(
        case="batch of 8", sessions=(LatencySession(pairs=(block,) * 3),) * 4, rows=8
    )
    timing, _ = judged(case)
    (throughput,) = [m for m in timing.measures if m.name == "throughput"]
    assert (throughput.baseline, throughput.candidate) == (4000.0, 2000.0)
    assert throughput.unit == "rows/s"


def calibration(sd: float, **parts: Any) -> Calibration:
    """Return what is known of a machine whose sessions spread by so much."""
    usual: dict[str, Any] = {
        "host": "h", "recorded_at": "2027-01-10T12:00:00Z", "sessions": 40, "session_sd": sd,
        "trials": 5, "false_alarms": 0, "unsettled": 1, "median_ms": 1.5,
    }  # fmt: skip
    return Calibration(**(usual | parts))


@pytest.mark.parametrize(("sd", "told"), [(0.01, False), (0.02, False), (0.04, True)])
def test_a_runner_that_cannot_enforce_the_budget_is_told(sd: float, told: bool) -> None:
    """With the growth it can show and what would help; advice, no verdict."""
    known = calibration(sd, conditions=("CPU governor powersave", "load average 3.0 on 2 CPUs"))
    found = judge_latency([(SUBJECT, run_of(timed(*QUIET), calibration=known))], rules())
    doubts = [f for f in found.findings if f.id == "latency.runner"]
    assert bool(doubts) is told
    for doubt in doubts:
        assert doubt.advisory
        assert doubt.outcome is Outcome.INCONCLUSIVE
        assert "cannot enforce 5 %" in doubt.evidence
        assert "governor to performance" in doubt.remedy
        assert "nothing else run" in doubt.remedy
        assert "pin" in doubt.remedy


def test_a_wider_budget_can_be_enforced_there() -> None:
    """The same machine, asked for less."""
    run = run_of(timed(*QUIET), calibration=calibration(0.04))
    found = judge_latency([(SUBJECT, run)], rules(max_regression="15%"))
    assert [f.id for f in found.findings] == ["latency.p50"]
