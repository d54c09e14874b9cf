import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.compare.latency.rule import (
    SPENT,
    Decision,
    Limits,
    decide,
    detectable,
    looks,
    strictness,
)
from ci_parity.compare.latency.student import quantile
from ci_parity.records.outcome import Outcome

LIMITS = Limits(margin=0.02, budget=0.05, sessions=16)
values_of_sessions = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=16)


def decided(values: list[float], *, ended: bool = True, limits: Limits = LIMITS) -> Decision:
    """Decide from values that are at least two."""
    found = decide(values, limits, ended=ended)
    assert found is not None
    return found


@pytest.mark.parametrize("sessions", range(2, 17))
def test_the_looks_spend_one_percent_on_either_side(sessions: int) -> None:
    """However many sessions there may be, and the last look is at the last one."""
    plan = looks(sessions)
    assert plan[-1].sessions == sessions
    assert [look.sessions for look in plan] == sorted({look.sessions for look in plan})
    assert sum(look.failing for look in plan) == pytest.approx(SPENT)
    assert sum(look.passing for look in plan) == pytest.approx(SPENT)
    assert min(min(look.failing, look.passing) for look in plan) > 0


def spread(values: list[float]) -> float:
    """Return the standard deviation of a sample."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def trimmed(values: list[float]) -> tuple[float, float]:
    """Return the mean of sixteen without the ends, and its error with the ends moved inwards."""
    _, *inner, _ = sorted(values)
    moved = [inner[0], *inner, inner[-1]]
    return math.fsum(inner) / 14, spread(moved) / (14 / 16) / 4


@given(st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=15))
def test_the_interval_is_students_over_sessions(values: list[float]) -> None:
    """Centre and both ends of the logarithms, at what the look may spend."""
    found = decided(values)
    seen = values[: found.sessions]
    mean, sd = math.fsum(seen) / len(seen), spread(seen)
    (look,) = [look for look in looks(len(values)) if look.sessions == found.sessions]
    error = sd / math.sqrt(len(seen))
    degrees = len(seen) - 1
    assert found.ratio == pytest.approx(math.exp(mean))
    assert math.log(found.low) == pytest.approx(
        mean - quantile(1 - look.failing, degrees) * error, abs=1e-9
    )
    assert math.log(found.high) == pytest.approx(
        min(mean + quantile(1 - look.passing, degrees) * error, 700), abs=1e-9
    )


@given(st.lists(st.floats(-0.5, 0.5), min_size=16, max_size=16))
def test_of_sixteen_sessions_the_ends_count_as_their_neighbours(values: list[float]) -> None:
    """Where it comes to the last look; the spread that is told is that of all."""
    found = decided(values)
    if found.sessions == 16:
        mean, error = trimmed(values)
        last = looks(16)[-1]
        assert found.ratio == pytest.approx(math.exp(mean))
        assert math.log(found.low) == pytest.approx(
            mean - quantile(1 - last.failing, 13) * error, abs=1e-9
        )
        assert found.sd == pytest.approx(spread(values), abs=1e-12)


def test_one_session_that_was_held_up_does_not_leave_a_slowdown_open() -> None:
    """Nor does one that was lucky; two of a kind do."""
    slower = [0.05 + 0.02 * (-1) ** number for number in range(16)]
    quick, slow = [-0.3, *slower[:15]], [0.5, *slower[:15]]
    assert decided(quick).outcome is Outcome.FAIL
    assert decided(slow).outcome is Outcome.FAIL
    assert decided([-0.3, -0.3, *slower[:14]]).outcome is Outcome.INCONCLUSIVE


@given(values_of_sessions)
def test_the_ends_decide(values: list[float]) -> None:
    """Above the margin it fails, else below the budget it passes, else it stays open."""
    found = decided(values)
    assert found.outcome is not None
    if found.outcome is Outcome.FAIL:
        assert found.low > 1.02
    elif found.outcome is Outcome.PASS:
        assert found.high < 1.05
    else:
        assert found.low <= 1.02
        assert found.high >= 1.05
        assert found.sessions == len(values)


@given(st.lists(st.floats(-0.5, 0.5), min_size=16, max_size=16))
def test_looking_as_they_come_is_looking_at_all(values: list[float]) -> None:
    """The driver's looks, one after each session, end where the whole list does."""
    step = next(
        found
        for count in range(2, 17)
        if (found := decide(values[:count], LIMITS)) is not None and found.outcome is not None
    )
    assert step == decided(values, ended=False)


@given(values_of_sessions, st.floats(0.0, 0.3))
def test_a_slower_candidate_is_never_judged_better(values: list[float], by: float) -> None:
    """Every session slower by the same: a failure stays one, and nothing becomes a pass."""
    rank = {Outcome.PASS: 0, Outcome.INCONCLUSIVE: 1, Outcome.FAIL: 2}
    one_look = replace(LIMITS, sessions=len(values))
    before = decided(values[:4], limits=replace(one_look, sessions=len(values[:4])))
    after = decided(
        [v + by for v in values[:4]], limits=replace(one_look, sessions=len(values[:4]))
    )
    assert before.outcome is not None
    assert after.outcome is not None
    assert rank[after.outcome] >= rank[before.outcome]


@given(st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=4), st.floats(1.0, 20.0))
def test_more_noise_settles_nothing_new(values: list[float], wider: float) -> None:
    """Spread further around the same centre, what was open never becomes a failure or a pass."""
    centre = math.fsum(values) / len(values)
    before = decided(values, limits=replace(LIMITS, sessions=4))
    after = decided(
        [centre + wider * (v - centre) for v in values], limits=replace(LIMITS, sessions=4)
    )
    assert after.outcome in {before.outcome, Outcome.INCONCLUSIVE}


@given(values_of_sessions)
def test_the_order_of_sessions_matters_only_to_when_it_ends(values: list[float]) -> None:
    """At one look the interval knows no order."""
    once = replace(LIMITS, sessions=len(values[:4]))
    first, second = decided(values[:4], limits=once), decided(values[:4][::-1], limits=once)
    assert first.low == pytest.approx(second.low)
    assert first.high == pytest.approx(second.high)


def test_both_sides_are_treated_alike() -> None:
    """Where both spend the same, swapping baseline and candidate mirrors the interval."""
    once = replace(LIMITS, sessions=3)
    values = [0.01, -0.02, 0.04]
    one, other = decided(values, limits=once), decided([-v for v in values], limits=once)
    assert one.low == pytest.approx(1 / other.high)
    assert one.high == pytest.approx(1 / other.low)


def test_it_goes_on_while_nothing_is_known() -> None:
    """Before the first look, and between looks, there is an interval and no outcome."""
    assert decide([], LIMITS) is None
    assert decide([0.0], LIMITS) is None
    for count in (2, 3):
        assert decided([0.0, 0.001, 0.0][:count], ended=False).outcome is None
    assert decided([0.0, 0.001, 0.0, 0.001], ended=False).outcome is Outcome.PASS
    assert decided([0.0, 0.2, -0.2, 0.1, 0.0], ended=False).outcome is None


def test_what_is_left_is_spent_when_time_is_over() -> None:
    """Two sessions may settle what four would have been asked for."""
    quiet = [math.log(1.5), math.log(1.5005)]
    assert decided(quiet, ended=False).outcome is None
    assert decided(quiet).outcome is Outcome.FAIL


def test_more_sessions_than_there_may_be_are_not_looked_at() -> None:
    """A judgement by a policy that allows fewer ends where that one would have."""
    few = replace(LIMITS, sessions=4)
    open_then_clear = [0.0, 0.1, -0.1, 0.05, *[0.5] * 12]
    assert decided(open_then_clear, limits=few).sessions == 4


def test_wild_sessions_give_a_wide_interval_and_no_error() -> None:
    """The exponential of what two wild sessions give is no number any more."""
    found = decided([50.0, -50.0])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert math.isfinite(found.high)
    assert math.isfinite(found.mde)


@pytest.mark.parametrize(
    ("sd", "growth"), [(0.01, 0.0293), (0.02, 0.0387), (0.03, 0.0482), (0.05, 0.0674)]
)
def test_the_detectable_growth_is_detected_in_four_of_five_runs(sd: float, growth: float) -> None:
    """Sessions of that spread and that growth, simulated with the last look alone."""
    assert detectable(sd, 16, LIMITS) == pytest.approx(growth, rel=0.03)
    draw = random.Random(5)  # noqa: S311 - a sample
    (last,) = [look for look in looks(16) if look.sessions == 16]
    failed = 0
    for _ in range(400):
        growth = math.log1p(detectable(sd, 16, LIMITS))
        mean, error = trimmed([growth + draw.gauss(0, sd) for _ in range(16)])
        failed += mean - quantile(1 - last.failing, 13) * error > math.log(1.02)
    assert 0.72 < failed / 400 < 0.88


@pytest.mark.parametrize(("sd", "power"), [(0.01, 0.99), (0.02, 0.97)])
def test_false_alarms_and_misses_are_rare(sd: float, power: float) -> None:
    """Identical code never fails in 1500 runs; +5 % fails nearly always, and hardly ever passes."""
    draw = random.Random(3)  # noqa: S311 - a sample

    def outcomes(growth: float, runs: int) -> list[Outcome | None]:
        return [
            decided([math.log1p(growth) + draw.gauss(0, sd) for _ in range(16)]).outcome
            for _ in range(runs)
        ]

    assert Outcome.FAIL not in outcomes(0.0, 1500)
    slower = outcomes(0.05, 1500)
    assert slower.count(Outcome.FAIL) >= power * 1500
    assert slower.count(Outcome.PASS) <= 0.012 * 1500
    assert outcomes(0.02, 1500).count(Outcome.FAIL) <= 0.015 * 1500


@settings(max_examples=30)
@given(st.integers(1, 10_000))
def test_many_cells_are_judged_more_strictly(cells: int) -> None:
    """All of them together spend what sixteen may."""
    assert strictness(cells) * cells <= 16
    assert strictness(cells) == 1.0 or cells > 16
