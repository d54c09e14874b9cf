"""One node test that has run becomes a result: our comparator under the test's own tolerances.

A runtime that says it lacks what a test asks for has `refused` it; one that ends with any other
error on a valid test, or brings wrong outputs, fails. Outputs must agree in number, name, order,
kind, element type and shape; what is not a float must be equal. What did not reach the runtime is
`skipped`, never a pass.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import Side, compare_outputs
from ci_parity.config.load import policy
from ci_parity.config.model import Policy, Tolerance
from ci_parity.coverage.refusals import says_it_lacks
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import leaves
from ci_parity.run.crew import Done

# Two steps of bfloat16: what the standard's own runner allows those outputs at least
# (onnx.backend.test.runner.Runner.assert_similar_outputs).
_BFLOAT16_RTOL = 2.0**-6
_MAX_EVIDENCE = 2000
# The comparator's names of its sides, and what they are here.
_SIDES = re.compile(r"(?:\bthe )?\b(baseline|candidate)\b")
# Where it says a tolerance is from: here it is the test's own.
_POLICY = " (policy)"
_NAMES = {"baseline": "the test", "candidate": "the runtime"}
_ENDED: Mapping[RunStatus, NodeOutcome] = {
    RunStatus.CRASH: NodeOutcome.CRASHED,
    RunStatus.PROTOCOL: NodeOutcome.CRASHED,
    RunStatus.TIMEOUT: NodeOutcome.TIMED_OUT,
    RunStatus.NOT_RUN: NodeOutcome.SKIPPED,
}


def judge(case: NodeCase, done: Done, provider: str) -> NodeResult:
    """Judge what came of a case; its outputs may be deleted afterwards.

    Args:
        case: what must have come; of a probe nothing but an end without an error.
        done: what came, and where.
        provider: the one that was asked for; another one's outputs say nothing of it.
    """
    if done.run.status is RunStatus.ERROR:
        return _error(case, done.run.message)
    if done.run.status is not RunStatus.OK:
        return _result(case, _ENDED[done.run.status], done.run.message)
    if provider not in done.providers:
        used = ", ".join(done.providers) or "nothing"
        return _result(case, NodeOutcome.SKIPPED, f"it ran on {used}, not on {provider}")
    if case.probe is not None:
        return _result(case, NodeOutcome.PASS, "")
    if case.disputed:
        return _result(case, NodeOutcome.DISPUTED, case.disputed)
    outcome, evidence = _compared(case, done)
    if done.crashed:
        evidence = "; ".join((*filter(None, [evidence]), _recovered(done.crashed)))
    return _result(case, outcome, evidence)


def _error(case: NodeCase, words: str) -> NodeResult:
    if says_it_lacks(words):
        return _result(case, NodeOutcome.REFUSED, words)
    return _result(case, NodeOutcome.FAIL, f"it ended with an error: {words}")


def _compared(case: NodeCase, done: Done) -> tuple[NodeOutcome, str]:
    """Compare the outputs; return the outcome and, where it is no pass, the worst in words."""
    subject = Subject(case=case.id)
    wanted = Side(outputs=case.outputs, folder=case.folder)
    given = Side(outputs=done.run.outputs, folder=done.folder)
    try:
        compared = compare_outputs(subject, wanted, given, _policy(case))
    except (EvidenceError, OSError) as error:
        words = error.what if isinstance(error, EvidenceError) else str(error)
        return NodeOutcome.CRASHED, f"its outputs cannot be read: {words}"
    wrong = [finding for finding in compared.findings if finding.outcome is not Outcome.PASS]
    if not wrong and not compared.findings:
        return NodeOutcome.SKIPPED, "nothing was compared"
    if not wrong:
        return NodeOutcome.PASS, ""
    return NodeOutcome.FAIL, "; ".join(map(_words, wrong))


def _words(finding: Finding) -> str:
    """Return a finding as one clause: which output, what is wrong, measured and limit."""
    where = f"{finding.subject.output}: " if finding.subject.output else ""
    limits = ""
    if finding.measured is not None and finding.limit:
        limits = f"; needed {finding.measured:.3g}, allowed {finding.limit:.3g}"
    evidence = _SIDES.sub(lambda found: _NAMES[found[1]], finding.evidence)
    return where + evidence.replace(_POLICY, "") + limits


def _policy(case: NodeCase) -> Policy:
    """Return a policy of the case's tolerances alone."""
    own = Tolerance(rtol=case.rtol, atol=case.atol)
    wide = replace(own, rtol=max(case.rtol, _BFLOAT16_RTOL))
    bfloat16 = {
        record.name: wide
        for record in case.outputs
        if any(leaf.dtype == "bfloat16" for leaf in leaves((record,)))
    }
    return replace(_plain_policy(), tolerance=own, outputs=bfloat16)


@cache
def _plain_policy() -> Policy:
    return policy({})


def _recovered(words: str) -> str:
    return f"a worker that had run other tests before died on it ({words}), a fresh one did not"


def _result(case: NodeCase, outcome: NodeOutcome, evidence: str) -> NodeResult:
    # Runtimes name the file they were given: where it lies here is nothing to others.
    words = evidence.replace(str(case.folder), case.id)
    return NodeResult(case=case.id, outcome=outcome, evidence=words[:_MAX_EVIDENCE])
