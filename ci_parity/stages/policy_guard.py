"""Step 1c: what the candidate loosened since the baseline, and by what it is judged because of it.

A looser policy, a dropped case, edited inputs or references, and a removed target or variant are
each listed. Where no entry of the ledger allows it, what the baseline was judged by counts as well:
`stages.guarded` runs and judges that, and the worse of both binds. What was tightened or added is
no finding. Where the baseline's config or fixtures cannot be read, nobody knows, and the run is
`inconclusive`. Nothing is run here.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from ci_parity.compare.ledger import BOUNDARY, judge_ledger
from ci_parity.config.ledger import LedgerEntry, entry_for, keys_of
from ci_parity.config.model import Deployment
from ci_parity.config.policy_order import PolicyChange, loosened
from ci_parity.config.strictest import guarded
from ci_parity.detect.policy_files import policy_text
from ci_parity.fixtures.signature import Signature
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import Identity, PairName
from ci_parity.records.outcome import Outcome
from ci_parity.stages.fixture_changes import Edit, FixtureChanges, OpenSet, compare_fixtures
from ci_parity.stages.identify import Baseline, BaseRules
from ci_parity.stages.judge import Checked
from ci_parity.stages.trial import Rules

_ALLOW = "add an entry for {key!r} to policy.ledger: who allows it, why, and until when"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What must be run and judged beside the candidate's own rules, and what was found already.

    `rules` are the baseline's wherever the candidate's are looser, else the candidate's. `judged`
    and `planned` say that they differ from the candidate's own, and that contract or self-checks
    do. `lost` are cases of the baseline's set that the candidate no longer feeds, `edited` those
    with other references now. `removed` are the pairs that are gone, in `base`.
    """

    rules: Rules
    findings: tuple[Finding, ...] = ()
    judged: bool = False
    planned: bool = False
    lost: OpenSet | None = None
    edited: OpenSet | None = None
    removed: tuple[PairName, ...] = ()
    base: BaseRules | None = None

    @property
    def must_run(self) -> bool:
        """Whether something must run for it, even where nothing else must."""
        return bool(self.removed)


def plan_guard(
    deployment: Deployment, cases: OpenSet, baseline: Baseline, identities: Sequence[Identity],
    today: date,
) -> Guard:  # fmt: skip
    """Compare the candidate's config and fixture set with the baseline's.

    1. The ledger, by the calendar.
    2. The policy, key by key.
    3. The fixture set, case by case.
    4. The pairs that are gone.

    Raises:
        EvidenceError: a value of a fixture set, or a file of a policy, cannot be read.
    """
    ledger, base = deployment.policy.ledger, baseline.rules
    named = base.deployment.policy.outputs if base is not None else ()
    found = list(by_the_calendar(deployment, cases.signature, today, named).findings)
    own = Rules(policy=deployment.policy, contract=deployment.contract)
    if base is None:
        found += _unreadable(baseline.rules_unreadable, ledger, today)
        return Guard(rules=own, findings=tuple(found))
    changes = _policy_changes(base.deployment, deployment)
    counting = [c for c in changes if entry_for(ledger, keys_of(c.path), today) is None]
    found += [_loosened(change, ledger, today) for change in changes]
    policy, contract = guarded(deployment, base.deployment, counting)
    fixtures = compare_fixtures(base.cases, cases)
    lost, edited = _counting_cases(fixtures, ledger, today)
    found += _fixture_findings(fixtures, ledger, today)
    gone = _removed(baseline, identities)
    found += [_gone(deployment, pair, ledger, today) for pair in gone]
    return Guard(
        rules=Rules(policy=policy, contract=contract),
        findings=tuple(found),
        judged=bool(counting),
        planned=any(change.path[0] in {"contract", "self_checks"} for change in counting),
        lost=_subset(base.cases, lost),
        edited=_subset(base.cases, edited),
        removed=tuple(pair for pair in gone if entry_for(ledger, _pair_keys(pair), today) is None),
        base=base,
    )


def by_the_calendar(
    deployment: Deployment, signature: Signature, today: date, named: Collection[str] = ()
) -> Checked:
    """Judge the ledger; `named` are outputs that the baseline's policy names."""
    known = {port.name for port in signature.outputs}
    known |= {*deployment.policy.outputs, *named}
    return Checked(findings=judge_ledger(deployment.policy.ledger, today, known))


def _policy_changes(base: Deployment, own: Deployment) -> tuple[PolicyChange, ...]:
    return loosened(json.loads(policy_text(base)), json.loads(policy_text(own)))


def _removed(baseline: Baseline, identities: Sequence[Identity]) -> list[PairName]:
    kept = {(identity.target, identity.variant) for identity in identities}
    return [
        PairName(target=identity.target, variant=identity.variant)
        for identity in baseline.identities
        if (identity.target, identity.variant) not in kept
    ]


def _subset(cases: OpenSet, names: Collection[str]) -> OpenSet | None:
    """Return some cases of a set, None for none."""
    if not names:
        return None
    kept = tuple(case for case in cases.fixtures.cases if case.name in names)
    return replace(cases, fixtures=replace(cases.fixtures, cases=kept))


# What an entry of the ledger can be called.


def _case_keys(case: str) -> tuple[str, ...]:
    return "fixtures", f"case:{case}"


def _reference_keys(edit: Edit) -> tuple[str, ...]:
    case = edit.case
    return (*_case_keys(case), f"reference:{case}", f"reference:{case}/{edit.name}")


def _pair_keys(pair: PairName) -> tuple[str, ...]:
    target = f"target:{pair.target}"
    return target, f"{target}/{pair.variant}", f"variant:{pair.variant}"


def _counting_cases(
    fixtures: FixtureChanges, ledger: Sequence[LedgerEntry], today: date
) -> tuple[set[str], set[str]]:
    """Return the cases to run as the baseline has them, and those to judge by its references."""
    gone = {*fixtures.dropped, *(edit.case for edit in fixtures.inputs)}
    lost = {case for case in gone if entry_for(ledger, _case_keys(case), today) is None}
    edited = {
        edit.case
        for edit in fixtures.references
        if entry_for(ledger, _reference_keys(edit), today) is None
    }
    return lost, edited


# What is said.


def _said(evidence: str, instead: str, key: str, entry: LedgerEntry | None) -> tuple[str, str]:
    """Return evidence and remedy of a loosening that an entry allows, or none does."""
    if entry is not None:
        return f"{evidence}; allowed by {entry}", ""
    return f"{evidence}; {instead}", _ALLOW.format(key=key)


def _warning(
    kind: str, subject: Subject, said: tuple[str, str], measured: float | None = None
) -> Finding:
    return Finding(
        id=kind, outcome=Outcome.FAIL, subject=subject, evidence=said[0], remedy=said[1],
        measured=measured, advisory=True,
    )  # fmt: skip


def _loosened(change: PolicyChange, ledger: Sequence[LedgerEntry], today: date) -> Finding:
    evidence = f"{change.key}: {change.before} → {change.after}, {change.order.value}"
    said = _said(
        evidence, "the baseline's value counts as well", change.key,
        entry_for(ledger, keys_of(change.path), today),
    )  # fmt: skip
    return _warning("policy.loosened", Subject(boundary=BOUNDARY), said)


def _fixture_findings(
    fixtures: FixtureChanges, ledger: Sequence[LedgerEntry], today: date
) -> Iterator[Finding]:
    instead = "it runs with the baseline's inputs and references as well"
    for case in fixtures.dropped:
        entry = entry_for(ledger, _case_keys(case), today)
        said = _said("the fixture set no longer has this case", instead, f"case:{case}", entry)
        yield _warning("fixtures.case_dropped", Subject(case=case), said)
    for edit in fixtures.inputs:
        entry = entry_for(ledger, _case_keys(edit.case), today)
        said = _said(f"input {edit.name!r}: {edit.said}", instead, f"case:{edit.case}", entry)
        yield _warning("fixtures.inputs_edited", Subject(case=edit.case), said)
    for edit in fixtures.references:
        key = f"reference:{edit.case}/{edit.name}"
        entry = entry_for(ledger, _reference_keys(edit), today)
        evidence = f"the reference of output {edit.name!r} was edited: {edit.said}"
        said = _said(evidence, "the baseline's counts as well", key, entry)
        where = Subject(case=edit.case, output=edit.name)
        yield _warning("fixtures.reference_edited", where, said, measured=edit.largest)


def _gone(
    deployment: Deployment, pair: PairName, ledger: Sequence[LedgerEntry], today: date
) -> Finding:
    target = all(known.name != pair.target for known in deployment.targets)
    variant = all(known.name != pair.variant for known in deployment.variants)
    key = f"target:{pair.target}" if target else f"variant:{pair.variant}"
    if target:
        evidence = f"target {pair.target} is gone"
    elif variant:
        evidence = f"variant {pair.variant} is gone"
    else:
        key = f"target:{pair.target}/{pair.variant}"
        evidence = f"variant {pair.variant} no longer runs on target {pair.target}"
    said = _said(
        evidence, "it runs as the baseline's config says", key,
        entry_for(ledger, _pair_keys(pair), today),
    )  # fmt: skip
    kind = "target.removed" if target else "variant.removed"
    return _warning(kind, Subject(target=pair.target, variant=pair.variant), said)


def _unreadable(reason: str, ledger: Sequence[LedgerEntry], today: date) -> Iterator[Finding]:
    if not reason:
        return
    entry = entry_for(ledger, ("base",), today)
    evidence = f"what the baseline was judged by cannot be read: {reason}"
    said = _said(evidence, "nobody knows what was loosened", "base", entry)
    finding = _warning("policy.unreadable", Subject(boundary=BOUNDARY), said)
    yield finding if entry else replace(finding, outcome=Outcome.INCONCLUSIVE, advisory=False)
