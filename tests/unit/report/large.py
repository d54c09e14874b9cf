"""A verdict of 100,000 comparisons, of which some failed, and hostile texts that are short."""

from functools import cache

from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from tests.unit.report.hostile import PAYLOADS
from tests.unit.report.samples import VERSION, finding, output, passed, row, subject

# Texts of megabytes, in every place of a verdict at once, are tested for their length alone.
SHORT = {name: text for name, text in PAYLOADS.items() if len(text) < 10_000}
CASES, FAILED = 100_000, 25_000


@cache
def large() -> Verdict:
    """Return it; the failures come last, so that cutting off the end would lose them."""
    outputs, findings = [], []
    for number in range(CASES):
        outcome = Outcome.FAIL if number >= CASES - FAILED else Outcome.PASS
        about = subject(f"case-{number}")
        needed = 0.05 if outcome is Outcome.FAIL else 2e-05
        outputs.append(output(subject=about, outcome=outcome, required=needed))
        findings.append(finding(subject=about, outcome=outcome, required=needed))
    rows = (row(Outcome.FAIL, boundary=VERSION, cases=CASES, cases_expected=CASES),)
    return passed(
        outcome=Outcome.FAIL, summary=f"{FAILED} of {CASES} checks failed", rows=rows,
        findings=tuple(findings), outputs=tuple(outputs), latency=(),
    )  # fmt: skip
