"""Which verdicts are news: worth a comment where there is none yet."""

from dataclasses import replace

import pytest

from ci_parity.records.identity import ChangeSet
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.occasion import Occasion
from ci_parity.stages import deliver
from tests.unit.report.samples import (
    BUMP,
    changes,
    failed,
    finding,
    inconclusive,
    passed,
    unchanged,
)

SINCE: ChangeSet = changes()


@pytest.mark.parametrize(
    ("verdict", "news"),
    [
        (unchanged(), False),
        (passed(changes=SINCE), False),
        (passed(changes=changes(BUMP)), True),
        (passed(changes=changes(kind="none", reason="first run")), True),
        (passed(changes=None), True),
        (passed(changes=SINCE, findings=(finding("x", advisory=True),)), True),
        (failed(), True),
        (replace(failed(), changes=SINCE), True),
        (inconclusive(), True),
        (replace(unchanged(), outcome=Outcome.INCONCLUSIVE), True),
    ],
    ids=[
        "nothing ran", "all ran, nothing changed", "changed", "no baseline", "no changes known",
        "warning", "fail", "fail, nothing changed", "inconclusive", "expired",
    ],
)  # fmt: skip
def test_only_an_unchanged_pass_is_no_news(verdict: Verdict, *, news: bool) -> None:
    """Whatever changed, does not hold or warns is; and everything, where it is asked for."""
    assert deliver.of_verdict(verdict, Occasion()).news is news
    assert deliver.of_verdict(verdict, Occasion(), always=True).news
