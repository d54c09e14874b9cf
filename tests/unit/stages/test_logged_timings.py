"""What a line of the log keeps of a verdict's timings."""

import math
from dataclasses import replace
from typing import Any

import pytest

from ci_parity.records.finding import LatencyComparison, Subject
from ci_parity.release.line import FIRST_PREV, MAX_LINE_BYTES, encode_line
from ci_parity.stages.logged_timings import logged_timings
from tests.unit.release.samples import ORIGIN, entry
from tests.unit.report.samples import changes, latency, passed


def timing(case: str = "typical", **parts: Any) -> LatencyComparison:
    """Return a comparison with a spread of sessions."""
    subject = Subject(target="cpu", variant="int8", case=case)
    return replace(latency(), subject=subject, session_sd=0.004, sessions=4, ratio=1.01, **parts)


def test_a_ratio_against_the_logs_own_proof_is_kept_with_its_error() -> None:
    """In millionths of a logarithm; the time is the candidate's."""
    (kept,) = logged_timings(passed(latency=(timing(candidate_p50_ms=1.5),), changes=changes()))
    assert (kept.target, kept.variant, kept.case) == ("cpu", "int8", "typical")
    assert (kept.p50_ns, kept.sessions) == (1_500_000, 4)
    assert kept.log_ratio_ppm == round(1e6 * math.log(1.01))
    assert kept.error_ppm == 2000


@pytest.mark.parametrize("kind", ["merge-base", "none"])
def test_a_ratio_against_anything_else_does_not_add_up(kind: str) -> None:
    """The time stands for itself."""
    (kept,) = logged_timings(passed(latency=(timing(),), changes=changes(kind=kind)))
    assert kept.log_ratio_ppm is None
    assert kept.p50_ns > 0
    (bare,) = logged_timings(passed(latency=(timing(),), changes=None))
    assert bare.log_ratio_ppm is None


def test_a_line_holds_what_is_kept_however_much_was_timed() -> None:
    """Names that no log can hold are left out, and so is what has no more room."""
    assert logged_timings(passed(latency=(timing("a\nb"), timing("")))) == ()
    many = tuple(timing(f'case "{number}"') for number in range(500))
    kept = logged_timings(passed(latency=many))
    assert 30 < len(kept) < 500
    line = encode_line(entry(timings=kept), log=ORIGIN, seq=0, prev=FIRST_PREV)
    assert len(line) < MAX_LINE_BYTES / 4
