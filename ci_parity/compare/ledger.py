"""The ledger judged by the calendar: what has run out, what soon will, and what it cannot be about.

An entry that has expired fails the run, whatever the numbers say: somebody allowed a loosening for
a time, and that time is over. Nothing but the entries is looked at here.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import date

from ci_parity.config.ledger import LedgerEntry
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

BOUNDARY = "policy"
_RENEW = "tighten what it allows and take the entry out, or renew it: who, why, and until when"


def judge_ledger(
    ledger: Sequence[LedgerEntry], today: date, outputs: Collection[str]
) -> tuple[Finding, ...]:
    """Judge every entry.

    1. Past its last day: a failure.
    2. Within fourteen days of it: a warning.
    3. About an output that there is none of: a warning, it would allow nothing.

    Args:
        ledger: the entries.
        today: the day in UTC.
        outputs: every output that the model, or a policy, knows.
    """
    return tuple(_findings(ledger, today, outputs))


def _findings(
    ledger: Sequence[LedgerEntry], today: date, outputs: Collection[str]
) -> Iterator[Finding]:
    for entry in ledger:
        if entry.expired(today):
            said = f"the entry for {entry.key} ended on {entry.until.isoformat()}: {entry.why}"
            yield _finding("ledger.expired", f"{said} ({entry.who})", _RENEW)
        elif entry.ends_soon(today):
            days = (entry.until - today).days
            when = f"in {days} day{'s' * (days != 1)}" if days else "today"
            said = f"the entry for {entry.key} ends {when}: {entry.why} ({entry.who})"
            yield _finding("ledger.expiring", said, _RENEW, advisory=True)
        unknown = _unknown_output(entry.key, outputs)
        if unknown:
            said = f"the entry for {entry.key} is about nothing: there is no output {unknown!r}"
            remedy = f"outputs: {', '.join(sorted(outputs))}"
            yield _finding("ledger.unknown", said, remedy, advisory=True)


def _unknown_output(key: str, outputs: Collection[str]) -> str:
    """Return the output that a key is about, where there is none such; a name may have dots."""
    kind, _, rest = key.partition(".")
    if kind != "outputs" or not rest or rest in outputs:
        return ""
    return rest


def _finding(kind: str, evidence: str, remedy: str, *, advisory: bool = False) -> Finding:
    return Finding(
        id=kind, outcome=Outcome.FAIL, subject=Subject(boundary=BOUNDARY), evidence=evidence,
        remedy=remedy, advisory=advisory,
    )  # fmt: skip
