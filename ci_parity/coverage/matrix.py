"""Signatures of a model against what each target lists and what tests showed: one cell for each.

Pure. How a cell's status is reached, the first that applies:

1. A test that covers the signature gave something else, crashed or hung: `tested-fail`. One such
   test outweighs any number that passed.
2. One gave what it must: `tested-pass`.
3. One was refused, or the runtime lists no kernel, or refuses the node alone: `unsupported`.
4. The runtime lists a kernel, or loads the node alone: `present`, which is no proof of anything.
5. Nothing is known: `untested`.

A runtime is asked for a node alone where its listing says nothing. A crash or a hang on that is as
one in a test: `tested-fail`.

Tests that could not be run, and those whose expected outputs are disputed, are no evidence; nor are
those of which the target itself was the only oracle, nor a refusal for want of a fixed value that
the model computes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ci_parity.base.words import plural
from ci_parity.coverage.matching import covers, nearest
from ci_parity.coverage.naming import names_of, operator_of
from ci_parity.coverage.presence import presence_of, versions_of
from ci_parity.coverage.refusals import wants_it_fixed
from ci_parity.records.coverage import (
    AskedTarget,
    Cell,
    CellChange,
    CellStatus,
    Listed,
    Matrix,
    MatrixTarget,
    NodeCase,
    NodeOutcome,
    NodeResult,
    Presence,
    Signature,
    UsedSignature,
)

BROKEN = (NodeOutcome.FAIL, NodeOutcome.CRASHED, NodeOutcome.TIMED_OUT)
NO_EVIDENCE = (NodeOutcome.DISPUTED, NodeOutcome.SKIPPED)
TESTED = (CellStatus.PASSING, CellStatus.FAILING)
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """Node tests by the operator that each is of; `not_made` says why one could not be made."""

    __test__ = False

    by_operator: Mapping[str, Sequence[tuple[NodeCase, Signature]]]
    not_made: Mapping[Signature, str]

    @classmethod
    def of(
        cls, cases: Iterable[NodeCase], not_made: Iterable[tuple[Signature, str]] = ()
    ) -> "Tests":
        """Sort tests by operator."""
        found: dict[str, list[tuple[NodeCase, Signature]]] = {}
        for case in cases:
            for signature in case.signatures:
                found.setdefault(operator_of(signature), []).append((case, signature))
        return cls(by_operator=found, not_made=dict(not_made))


def matrix_of(
    model: str, model_sha256: str, used: Sequence[UsedSignature], tests: Tests,
    targets: Sequence[AskedTarget],
) -> Matrix:  # fmt: skip
    """Return every signature of a model on every target.

    Args:
        model: what the model is called.
        model_sha256: its digest.
        used: what it asks for.
        tests: the node tests there are.
        targets: what each lists, and the results of its tests.
    """
    names = names_of(one.signature for one in used)
    cells = tuple(
        cell_of(one, names[one.signature], tests, target) for target in targets for one in used
    )
    columns = tuple(
        column_of(target, score([cell for cell in cells if cell.target == target.name]))
        for target in targets
    )
    return Matrix(model=model, model_sha256=model_sha256, targets=columns, cells=cells)


def column_of(target: AskedTarget, line: str) -> MatrixTarget:
    """Return the head of a target's column."""
    ran = sum(result.outcome not in NO_EVIDENCE for result in target.results.values())
    return MatrixTarget(
        name=target.name, runtime=target.runtime, provider=target.provider, tests=ran, score=line,
        baseline=target.baseline,
    )  # fmt: skip


def cell_of(used: UsedSignature, name: str, tests: Tests, target: AskedTarget) -> Cell:
    """Return what is known of a signature on a target."""
    signature = used.signature
    probed = next((one for one in target.probed if one.signature == signature), None)
    listed = presence_of(signature, target.listing, target.provider)
    if probed is not None and listed.presence is Presence.UNKNOWN:
        listed = probed.listed
    versions = versions_of(signature, target.listing, target.provider)
    same = tests.by_operator.get(operator_of(signature), ())
    found = [
        _evidence(case, tested, target)
        for case, tested in same
        if case.id in target.results and covers(tested, signature, versions)
    ]
    if probed is not None and probed.broken is not None:
        found.append(probed.broken)
    status = status_of(found, listed.presence)
    passed, failed, refused, undecided = parted(found)
    told = Cell(
        signature=signature, name=name, nodes=used.nodes, target=target.name, status=status,
        presence=listed.presence, listing=listed.words, passed=passed, failed=failed,
        refused=refused, undecided=undecided,
        words=_words(status, found, listed),
    )  # fmt: skip
    if status in TESTED or refused:
        return told
    return _untested(told, tests, target, same)


def _evidence(case: NodeCase, tested: Signature, target: AskedTarget) -> NodeResult:
    """Return what a test showed; nothing where it says nothing of the model.

    That is so where the target alone said what it must give, and where it must know a value when it
    loads the test: in the model a compiler may find out what the test feeds.
    """
    result = target.results[case.id]
    if (
        result.outcome is NodeOutcome.REFUSED
        and _is_fed(tested)
        and wants_it_fixed(result.evidence)
    ):
        words = f"it wants fixed what the model computes: {result.evidence}"
        return replace(result, outcome=NodeOutcome.SKIPPED, evidence=words)
    if result.outcome is NodeOutcome.PASS and case.oracle.startswith(f"{target.runtime} alone"):
        words = "no other oracle can say what it must give"
        return replace(result, outcome=NodeOutcome.SKIPPED, evidence=words)
    return result


def _is_fed(signature: Signature) -> bool:
    """Whether what steers a node is not fixed."""
    return any("fed" in json.loads(text) for _, text in signature.constants if text[0] == "{")


def parted(
    found: Sequence[NodeResult],
) -> tuple[tuple[str, ...], tuple[NodeResult, ...], tuple[NodeResult, ...], tuple[NodeResult, ...]]:
    """Return the tests that passed, then results that are broken, refused and no evidence."""
    return (
        tuple(result.case for result in found if result.outcome is NodeOutcome.PASS),
        tuple(result for result in found if result.outcome in BROKEN),
        tuple(result for result in found if result.outcome is NodeOutcome.REFUSED),
        tuple(result for result in found if result.outcome in NO_EVIDENCE),
    )


def status_of(found: Iterable[NodeResult], presence: Presence) -> CellStatus:
    """Return the status that results and a listing come to, by the order above."""
    outcomes = {result.outcome for result in found}
    if not outcomes.isdisjoint(BROKEN):
        return CellStatus.FAILING
    if NodeOutcome.PASS in outcomes:
        return CellStatus.PASSING
    if NodeOutcome.REFUSED in outcomes or presence is Presence.ABSENT:
        return CellStatus.UNSUPPORTED
    return CellStatus.PRESENT if presence is Presence.PRESENT else CellStatus.UNTESTED


def score(cells: Sequence[Cell]) -> str:
    """Say in a line how much of what a model asks for is tested on a target, and how it ended."""
    counts = {status: [c.name for c in cells if c.status is status] for status in CellStatus}
    tested = sum(len(counts[status]) for status in TESTED)
    parts = [f"{tested:,} of {len(cells):,} signatures tested"]
    parts.append(_some(counts[CellStatus.FAILING], "failing") or "none failing")
    for status, word in (
        (CellStatus.UNSUPPORTED, "unsupported"), (CellStatus.PRESENT, "present but untested"),
        (CellStatus.UNTESTED, "unknown"),
    ):  # fmt: skip
        if counts[status]:
            parts.append(_some(counts[status], word))
    return ", ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])


def _some(names: Sequence[str], word: str) -> str:
    """Return a count with the first names, such as `1 failing: Reshape allowzero=1`."""
    if not names:
        return ""
    more = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return f"{len(names):,} {word}: {shown}"


def changes_of(before: Sequence[Cell], after: Sequence[Cell]) -> tuple[CellChange, ...]:
    """Return the cells whose status is another one than before, what got worse first."""
    old = {(cell.signature, cell.target): cell for cell in before}
    found = []
    for cell in after:
        was = old.get((cell.signature, cell.target))
        if was is not None and was.status is not cell.status:
            found.append(
                CellChange(
                    name=cell.name,
                    target=cell.target,
                    before=was.status,
                    after=cell.status,
                    words=cell.words,
                )
            )
    return tuple(sorted(found, key=lambda change: (not change.worse, change.target, change.name)))


def _words(status: CellStatus, found: Sequence[NodeResult], listed: Listed) -> str:
    """Say why a cell that tests reached has its status."""
    passed, failed, refused, undecided = parted(found)
    ran = len(passed) + len(failed) + len(refused)
    parts = []
    if failed:
        parts.append(f"{len(failed):,} of {plural(ran, 'test')} failed: {_said(failed[0])}")
    elif passed:
        parts.append(f"{plural(len(passed), 'test')} passed")
    if refused:
        parts.append(f"{len(refused):,} of {plural(ran, 'test')} refused: {_said(refused[0])}")
    disputed = [result for result in undecided if result.outcome is NodeOutcome.DISPUTED]
    if disputed:
        parts.append(f"oracles disagree on {_said(disputed[0])}")
    if listed.presence is Presence.ABSENT and status in TESTED:
        parts.append(f"yet {listed.words}")
    return "; ".join(parts)


def _untested(
    cell: Cell, tests: Tests, target: AskedTarget, same: Sequence[tuple[NodeCase, Signature]]
) -> Cell:
    """Return a cell that no test reached, with why, and with the nearest that one did."""
    parts = [cell.words] if cell.words else []
    if cell.status is not CellStatus.UNTESTED or target.probed:
        parts.append(cell.listing)
    own = {result.case for result in cell.undecided}
    ran = [
        (case.id, tested)
        for case, tested in same
        if case.id in target.results and case.id not in own
    ]
    why = tests.not_made.get(cell.signature, "")
    if ran or not own:
        versions = versions_of(cell.signature, target.listing, target.provider)
        parts.append(nearest(cell.signature, ran, versions))
    if why:
        parts.append(f"none could be made: {why}")
    if cell.undecided and not cell.words:
        parts.append(f"no evidence: {_said(cell.undecided[0])}")
    return replace(cell, words="; ".join(parts))


def _said(result: NodeResult) -> str:
    return f"{result.case}: {result.evidence}" if result.evidence else result.case
