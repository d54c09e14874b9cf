"""What is made of two models of one shape: held, failed, or open."""

from pathlib import Path

import pytest

from ci_parity.compare.canary import judge_canary
from ci_parity.records.canary import Canary, Freshness
from ci_parity.records.finding import Subject
from ci_parity.records.outcome import Outcome
from tests.support.observations import observation

SUBJECT = Subject(target="gpu", variant="exported")


@pytest.mark.parametrize(
    ("freshness", "outcome"),
    [
        (Freshness.APART, Outcome.PASS),
        (Freshness.STALE, Outcome.FAIL),
        (Freshness.UNKNOWN, Outcome.INCONCLUSIVE),
    ],
)
def test_a_stale_cache_fails_and_an_unknown_one_is_open(
    freshness: Freshness, outcome: Outcome
) -> None:
    """With the words, and binding: what was measured may be another model's."""
    side = observation(Path("side"), canary=Canary(freshness=freshness, words="so it was"))
    (found,) = judge_canary(SUBJECT, side, None)
    assert (found.id, found.outcome, found.advisory) == ("provider.stale", outcome, False)
    assert "on the candidate's runtime: so it was" in found.evidence
    assert bool(found.remedy) is (outcome is not Outcome.PASS)


def test_the_baseline_is_named_only_where_it_is_not_fine() -> None:
    """A runtime that was not asked, such as the CPU, yields nothing."""
    fine, bad = (
        observation(Path("side"), canary=Canary(freshness=freshness, words="w"))
        for freshness in (Freshness.APART, Freshness.STALE)
    )
    assert [one.outcome for one in judge_canary(SUBJECT, fine, fine)] == [Outcome.PASS]
    outcomes = [one.outcome for one in judge_canary(SUBJECT, fine, bad)]
    assert outcomes == [Outcome.PASS, Outcome.FAIL]
    assert list(judge_canary(SUBJECT, observation(Path("side")), None)) == []
