"""Two runs of one candidate that must agree: repeats, rows of a batch, order, padding, threads.

Between runs and findings. Rows are cut out of outputs here and nowhere else, into exchange files
that are compared like any two sides, under the same policy. An output without a batch dimension
mixes rows by nature: it is left out of what concerns rows, and named.
"""

import filecmp
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.outputs import Side, compare_outputs
from ci_parity.config.model import Policy
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import ValueRecord, leaves, read_value, write_value

_SHOWN = 3
_NOT_MADE = "store a case that allows it, or leave the check out in policy.self_checks"
REMEDIES: Mapping[str, str] = {
    "repeat": "look for random operators, training mode and indices that are written twice; or ask "
    "for deterministic kernels",
    "rows": "look for statistics over the batch: batch normalisation in training mode, dynamic "
    "quantisation, reductions; where kernels for one row only round otherwise, give the output a "
    "tolerance",
    "order": "look for what depends on the place in the batch: positions, cumulative sums, states",
    "padding": "mask what is padded, or take the padding out of the contract",
    "threads": "look for reductions whose order depends on threads; or pin intra_op_num_threads",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One side of an agreement: a run by the name of its case, and which rows of it.

    `rows` is None for whole outputs; `batch` is how many rows the run was fed, 0 where rows do not
    matter. `called` says to a reader which of the two sides it is.
    """

    case: str
    called: str
    rows: tuple[int, ...] | None = None
    batch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two runs, or parts of them, that must agree.

    `check` is the kind, such as `rows`; `case` the stored case behind it and `said` what of it is
    compared. `trimmed` cuts the outputs of `second` to the shapes of `first`.
    """

    check: str
    case: str
    said: str
    first: Part
    second: Part
    trimmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run of one case, and the folder of its files."""

    run: CaseRun
    folder: Path

    @property
    def took(self) -> bool:
        """Whether there are outputs."""
        return self.run.status is RunStatus.OK


@dataclass(slots=True)
class _Tally:
    """What the agreements of one check brought so far."""

    identical: int = 0
    compared: list[tuple[Agreement, OutputComparison]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    differing: list[Agreement] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    left_out: dict[str, None] = field(default_factory=dict)


def judge_check(
    subject: Subject, agreements: Sequence[Agreement], runs: Mapping[str, Ran], policy: Policy,
    axes: Mapping[str, int], *, exact: bool = False,
) -> tuple[Finding, OutputComparison | None]:  # fmt: skip
    """Judge the agreements of one check; return its one finding, and the worst comparison.

    Args:
        subject: the pair, with the boundary of self-checks.
        agreements: at least one, all of one kind.
        runs: every run of the pair by the name of its case.
        policy: gives the tolerance, as between any two sides.
        axes: the batch dimension of each output that has one (`batch_axes`).
        exact: whether a difference in bits fails, whatever the tolerance.
    """
    tally = _Tally()
    for agreement in agreements:
        sides = [runs.get(part.case) for part in (agreement.first, agreement.second)]
        missing = [_why_not(side) for side in sides if side is None or not side.took]
        if missing:
            tally.unmeasured.append(f"{agreement.said}: {missing[0]}")
            continue
        assert sides[0] is not None
        assert sides[1] is not None
        _compare(subject, agreement, (sides[0], sides[1]), policy, axes, tally)
    return _finding(subject, agreements[0].check, tally, exact=exact)


def batch_axes(
    declared: Mapping[str, int], fed: Iterable[tuple[Part, CaseRun]]
) -> Mapping[str, int]:
    """Return the batch dimension of each output, declared or as runs of several sizes show it.

    An output whose dimensions do not follow the number of rows, or follow it twice, has none.
    """
    shapes: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for part, run in fed:
        for record in run.outputs if part.batch else ():
            shapes.setdefault(record.name, []).append((part.batch, _shape_of(record)))
    axes = dict(declared)
    for name, seen in shapes.items():
        rank = min(len(shape) for _, shape in seen)
        following = [a for a in range(rank) if all(shape[a] == rows for rows, shape in seen)]
        if name not in axes and len({rows for rows, _ in seen}) > 1 and len(following) == 1:
            axes[name] = following[0]
    return axes


def unmeasured(subject: Subject, check: str, why: str) -> Finding:
    """Return the finding of a check that should have been made and was not."""
    return Finding(
        id=f"self.{check}", outcome=Outcome.INCONCLUSIVE, subject=subject,
        evidence=f"not measured: {why}",
        remedy=_NOT_MADE,
    )  # fmt: skip


def _why_not(side: Ran | None) -> str:
    if side is None:
        return "it was not run"
    return side.run.message or f"it ended with {side.run.status.value}"


def _compare(
    subject: Subject, agreement: Agreement, sides: tuple[Ran, Ran], policy: Policy,
    axes: Mapping[str, int], tally: _Tally,
) -> None:  # fmt: skip
    """Compare two runs, or the rows of them that are meant."""
    whole = agreement.first.rows is None and not agreement.trimmed
    if whole and _same_bytes(sides[0], sides[1]):
        tally.identical += len(sides[0].run.outputs)
        return
    with tempfile.TemporaryDirectory(prefix="self-", dir=sides[0].folder) as scratch:
        try:
            first, second = _sides(agreement, sides, axes, Path(scratch), tally)
            if not first.outputs and not second.outputs:
                return
            where = replace(subject, case=agreement.case)
            compared = compare_outputs(where, first, second, policy)
        except EvidenceError as error:
            tally.unmeasured.append(f"{agreement.said}: {error.what}")
            return
    if whole:
        tally.differing.append(agreement)
    tally.compared.extend((agreement, output) for output in compared.outputs)
    tally.broken.extend(
        f"{agreement.said}: output {finding.subject.output!r}: {finding.evidence}"
        for finding in compared.findings
        if finding.outcome is not Outcome.PASS
        and not finding.advisory
        and finding.id != "output.values"
    )


def _sides(
    agreement: Agreement, sides: tuple[Ran, Ran], axes: Mapping[str, int], scratch: Path,
    tally: _Tally,
) -> tuple[Side, Side]:  # fmt: skip
    """Return what is compared: whole outputs, rows of them, or outputs cut to size."""
    parts = (agreement.first, agreement.second)
    if agreement.first.rows is None:
        second = list(sides[1].run.outputs)
        folder = sides[1].folder
        if agreement.trimmed:
            second = list(_trimmed(sides[0].run.outputs, second, folder, scratch))
            folder = scratch
        first = Side(outputs=sides[0].run.outputs, folder=sides[0].folder)
        return first, Side(outputs=tuple(second), folder=folder)
    cut = []
    for number, (part, side) in enumerate(zip(parts, sides, strict=True)):
        tally.left_out.update((r.name, None) for r in side.run.outputs if r.name not in axes)
        kept = [record for record in side.run.outputs if record.name in axes]
        records = [
            _rows(record, side.folder, axes[record.name], part, scratch, f"s{number}_o{index}")
            for index, record in enumerate(kept)
        ]
        cut.append(Side(outputs=tuple(records), folder=scratch))
    return cut[0], cut[1]


def _rows(
    record: ValueRecord, folder: Path, axis: int, part: Part, scratch: Path, stem: str
) -> ValueRecord:
    """Return some rows of an output, written anew."""
    import numpy as np

    assert part.rows is not None
    shape = _shape_of(record)
    if len(shape) <= axis or shape[axis] != part.batch:
        raise EvidenceError(
            f"output {record.name!r} has shape {list(shape)} for a batch of {part.batch}"
        )
    value = read_value(record, folder)
    if isinstance(value, list):
        return write_value(record.name, [value[row] for row in part.rows], scratch, stem)
    array: Any = value
    return write_value(record.name, np.take(array, part.rows, axis=axis), scratch, stem)


def _trimmed(
    wanted: Sequence[ValueRecord], given: Sequence[ValueRecord], folder: Path, scratch: Path
) -> Iterator[ValueRecord]:
    """Yield every output of the second side, the ends that only it has cut off."""
    shapes = {record.name: record.shape for record in wanted if record.kind == "tensor"}
    for index, record in enumerate(given):
        value: Any = read_value(record, folder)
        shape = shapes.get(record.name, ())
        if record.kind == "tensor" and len(shape) == len(record.shape):
            value = value[tuple(slice(size) for size in shape)]
        yield write_value(record.name, value, scratch, f"t_o{index}")


def _shape_of(record: ValueRecord) -> tuple[int, ...]:
    """Return the shape of a tensor, the length of a sequence; a map has neither."""
    if record.kind == "sequence":
        return (len(record.items),)
    return record.shape


def _same_bytes(first: Ran, second: Ran) -> bool:
    left, right = list(leaves(first.run.outputs)), list(leaves(second.run.outputs))
    described = [(r.name, r.kind, r.dtype, r.shape) for r in left]
    if described != [(r.name, r.kind, r.dtype, r.shape) for r in right]:
        return False
    files = [
        (first.folder / a.file, second.folder / b.file)
        for a, b in zip(left, right, strict=True)
        if a.file
    ]
    try:
        return all(
            _plain(a, first.folder)
            and _plain(b, second.folder)
            and filecmp.cmp(a, b, shallow=False)
            for a, b in files
        )
    except (OSError, ValueError):
        return False


def _plain(path: Path, folder: Path) -> bool:
    """Whether a path is a file of the folder itself; a worker chose the name."""
    return path.parent == folder and path.name != ".." and not path.is_symlink()


def _finding(
    subject: Subject, check: str, tally: _Tally, *, exact: bool
) -> tuple[Finding, OutputComparison | None]:
    worst = max(tally.compared, key=lambda item: item[1].rank, default=None)
    failed = [item for item in tally.compared if item[1].outcome is Outcome.FAIL]
    bits = tally.differing if exact else []
    if failed or tally.broken or bits:
        outcome = Outcome.FAIL
    elif tally.unmeasured or not (tally.compared or tally.identical):
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS
    about = worst[1] if worst else None
    finding = Finding(
        id=f"self.{check}",
        outcome=outcome,
        subject=replace(subject, case=about.subject.case, output=about.subject.output)
        if about is not None and outcome is Outcome.FAIL
        else subject,
        evidence="; ".join(_words(tally, worst, failed, bits)),
        measured=about.required if about else None,
        limit=about.limit if about else None,
        required=about.required if about else None,
        remedy={Outcome.PASS: "", Outcome.FAIL: REMEDIES[check]}.get(outcome, _NOT_MADE),
    )
    return finding, about


def _words(
    tally: _Tally, worst: tuple[Agreement, OutputComparison] | None,
    failed: Sequence[tuple[Agreement, OutputComparison]], bits: Sequence[Agreement],
) -> Iterator[str]:  # fmt: skip
    """Yield the sentences of a finding, the gravest first."""
    total = tally.identical + len(tally.compared)
    yield from tally.broken[:_SHOWN]
    if failed and worst is not None:
        yield f"{len(failed)} of {total} outputs differ; the worst: {_difference(*worst)}"
    elif bits:
        yield f"the bits differ in {bits[0].said}"
    elif total:
        near = tally.compared and any(output.mismatched for _, output in tally.compared)
        agree = "within tolerance" if near else "exactly"
        yield f"{total} output{'s' * (total != 1)} agree{'s' * (total == 1)} {agree}"
    elif not tally.unmeasured:
        yield "nothing was compared: no output has a batch dimension"
    if tally.unmeasured:
        more = len(tally.unmeasured) - 1
        rest = f" (and {more} more)" if more else ""
        yield f"not measured: {tally.unmeasured[0]}{rest}"
    if tally.left_out:
        yield f"left out, without a batch dimension: {', '.join(tally.left_out)}"


def _difference(agreement: Agreement, output: OutputComparison) -> str:
    said = f"{agreement.said}: output {output.subject.output!r}"
    if output.worst_index is None:
        return said
    sides = (agreement.first.called, output.worst_baseline), (
        agreement.second.called, output.worst_candidate,
    )  # fmt: skip
    values = ", ".join(f"{value} {called}" for called, value in sides)
    return (
        f"{said}: {output.mismatched} of {output.elements} elements, at "
        f"{list(output.worst_index)} {values}; {output.rule}"
    )
