"""The decision over session values: fail, pass, or go on, after each look.

A session's value is the logarithm of candidate / baseline. At a look the interval is Student's t
over the sessions so far; it fails when the lower end is above ln(1 + margin), passes when the upper
end is below ln(1 + budget). What the looks may spend adds up to 1 % on either side, so a true
growth of the margin fails in at most 1 % of runs, and one of the budget passes in at most 1 %,
whatever the spread (Bonferroni over the looks). A pass spends early, a failure late: no change is
cheap, and a slowdown near the margin has the most sessions.

Of sixteen sessions the least and the greatest value count for the spread as their neighbours do,
and for the mean not at all (Tukey and McLaughlin, 1963): one session that something held up does
not leave a slowdown open. It is both ends, whatever their values, and so favours neither side.

`decide` is the whole rule. The driver asks it after each session, a judgement asks it again with
what was stored, `benchmarks/latency_rule.py` asks it of simulated sessions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ci_parity.compare.latency.student import quantile
from ci_parity.records.outcome import Outcome

SPENT = 0.01
# Of logarithms whose exponential is still a number; two wild sessions have a wide interval.
_LARGEST = 700.0
POWER = 0.8
# One value at either end of so many sessions; fewer have none to spare.
_TRIMMED, _MANY = 1, 16
CELLS = 16
"""Up to so many cells of one run no correction is needed: at no change they stay below 1 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """After how many sessions, and what a failure and a pass may spend there."""

    sessions: int
    failing: float
    passing: float


_LOOKS = (
    Look(sessions=4, failing=0.0005, passing=0.003),
    Look(sessions=6, failing=0.0003, passing=0.001),
    Look(sessions=8, failing=0.0005, passing=0.001),
    Look(sessions=12, failing=0.0007, passing=0.001),
    Look(sessions=16, failing=0.008, passing=0.004),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is judged by: fractions of growth, and how many sessions there may be at most.

    `strictness` is the part of 1 % that a failure may spend, below 1 where many cells are judged.
    """

    margin: float
    budget: float
    sessions: int
    strictness: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a look says; `outcome` is None where further sessions are to be taken.

    `ratio` is candidate / baseline, `low` and `high` its interval, `sd` that of the logarithms of
    `sessions` sessions; `mde` is the growth that would fail with a probability of 80 % at that
    spread, were this the last look.
    """

    outcome: Outcome | None
    sessions: int
    ratio: float
    low: float
    high: float
    sd: float
    mde: float


def looks(sessions: int) -> tuple[Look, ...]:
    """Return the looks of at most `sessions` sessions; the last one spends all that is left."""
    earlier = [look for look in _LOOKS if look.sessions < sessions]
    last = Look(
        sessions=sessions,
        failing=SPENT - sum(look.failing for look in earlier),
        passing=SPENT - sum(look.passing for look in earlier),
    )
    return (*earlier, last)


def decide(values: Sequence[float], limits: Limits, *, ended: bool = False) -> Decision | None:
    """Decide from the sessions so far; None where there are not two of them.

    The first look that fails or passes stands. `ended` says that there will be no more sessions for
    a reason that is none of the values: then what is left is spent on those that there are.

    Args:
        values: ln(candidate / baseline) of each session, in the order they were taken.
        limits: what is judged by.
        ended: whether the measurement is over before its last look.
    """
    count = min(len(values), limits.sessions)
    if count < 2:
        return None
    plan = looks(count) if ended else looks(limits.sessions)
    for look in plan:
        if look.sessions > count:
            return _at(look, values[:count], limits)
        decision = _at(look, values[: look.sessions], limits)
        outcome = _outcome(decision, limits)
        if outcome is not None:
            return replace(decision, outcome=outcome)
    return replace(decision, outcome=Outcome.INCONCLUSIVE)


def _outcome(decision: Decision, limits: Limits) -> Outcome | None:
    if decision.low > 1 + limits.margin:
        return Outcome.FAIL
    return Outcome.PASS if decision.high < 1 + limits.budget else None


def _at(look: Look, values: Sequence[float], limits: Limits) -> Decision:
    """Return the interval of some sessions, at what a look may spend."""
    sd = _spread(values)
    centre, error, degrees = _estimate(values, sd)
    below = quantile(1 - look.failing * limits.strictness, degrees) * error
    above = quantile(1 - look.passing, degrees) * error
    return Decision(
        outcome=None, sessions=len(values), ratio=_ratio(centre), low=_ratio(centre - below),
        high=_ratio(centre + above), sd=sd,
        mde=detectable(sd, len(values), limits, spent=look.failing),
    )  # fmt: skip


def _spread(values: Sequence[float]) -> float:
    centre = fmean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def _estimate(values: Sequence[float], sd: float) -> tuple[float, float, int]:
    """Return the mean that counts, its standard error, and the degrees of freedom of that."""
    count, cut = len(values), _cut(len(values))
    if not cut:
        return fmean(values), sd / math.sqrt(count), count - 1
    ranked = sorted(values)
    kept = ranked[cut:-cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = _spread(winsorised) / (len(kept) / count) / math.sqrt(count)
    return fmean(kept), error, len(kept) - 1


def _cut(sessions: int) -> int:
    return _TRIMMED if sessions >= _MANY else 0


def detectable(
    sd: float, sessions: int, limits: Limits, *, spent: float | None = None
) -> float:  # fmt: skip
    """Return the growth that fails with a probability of 80 % after so many sessions.

    Args:
        sd: of the logarithms of session ratios.
        sessions: how many there are.
        limits: what is judged by.
        spent: of a failure, by default that of the last look of so many sessions.
    """
    spent = looks(sessions)[-1].failing if spent is None else spent
    degrees = sessions - 1 - 2 * _cut(sessions)
    needed = quantile(1 - spent * limits.strictness, degrees) + quantile(POWER, degrees)
    return _ratio(math.log1p(limits.margin) + needed * sd / math.sqrt(sessions)) - 1


def _ratio(logarithm: float) -> float:
    return math.exp(min(logarithm, _LARGEST))


def strictness(cells: int) -> float:
    """Return what part of 1 % each of several cells may spend on a failure (Holm's first step)."""
    return min(1.0, CELLS / max(cells, 1))
