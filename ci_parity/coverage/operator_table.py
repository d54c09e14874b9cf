"""All operators of the ONNX standard against targets: what is listed, tested, and fails.

Pure. A row for each operator in its newest version; each cell by the order of `matrix`, over every
test of the operator whatever its version, and split by the element type of the first input.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ci_parity.coverage.matrix import TESTED, Tests, column_of, parted, status_of
from ci_parity.coverage.presence import presence_of
from ci_parity.records.coverage import (
    AskedTarget,
    CellStatus,
    DtypeCount,
    Listed,
    NodeOutcome,
    NodeResult,
    OperatorCell,
    OperatorRow,
    OperatorTable,
    Port,
    Presence,
    Signature,
)

if TYPE_CHECKING:
    from onnx.defs import OpSchema

DOMAINS = ("", "ai.onnx.ml")
_SPELT_OUT = {"float": "float32", "double": "float64"}
_NAMED = 8


def operator_table(tests: Tests, targets: Sequence[AskedTarget]) -> OperatorTable:
    """Return every operator of the standard on every target."""
    import onnx

    rows = tuple(_row(schema, tests, targets) for schema in _schemas())
    columns = tuple(column_of(target, _score(target.name, rows)) for target in targets)
    return OperatorTable(standard=f"onnx {onnx.__version__}", targets=columns, rows=rows)


def _schemas() -> "list[OpSchema]":
    """Return the newest version of every operator that is not deprecated."""
    import onnx

    found = [s for s in onnx.defs.get_all_schemas() if s.domain in DOMAINS and not s.deprecated]
    return sorted(found, key=lambda schema: (schema.domain, schema.name))


def _row(schema: "OpSchema", tests: Tests, targets: Sequence[AskedTarget]) -> OperatorRow:
    operator = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
    of_this = [(case.id, signature) for case, signature in tests.by_operator.get(operator, ())]
    return OperatorRow(
        domain=schema.domain,
        op_type=schema.name,
        since_version=schema.since_version,
        attributes=tuple(sorted(schema.attributes)),
        cells=tuple(_cell(schema, of_this, target) for target in targets),
    )


def _cell(
    schema: "OpSchema", tests: Sequence[tuple[str, Signature]], target: AskedTarget
) -> OperatorCell:
    ran = [(target.results[name], s) for name, s in tests if name in target.results]
    results = list({result.case: result for result, _ in ran}.values())
    listed = {dtype: _listed(schema, dtype, target) for dtype in _dtypes(schema)}
    presence = _any(one.presence for one in listed.values())
    passed, failed, refused, _ = parted(results)
    set_by = {
        name
        for result, signature in ran
        if result.outcome is NodeOutcome.PASS
        for name, _ in signature.attributes
    }
    return OperatorCell(
        target=target.name,
        status=status_of(results, presence),
        presence=presence,
        listing=next((o.words for o in listed.values() if o.presence is presence), ""),
        passed=len(passed),
        failed=failed,
        refused=refused,
        dtypes=_counts(listed, ran),
        attributes=tuple(sorted(set_by & set(schema.attributes))),
    )


def _counts(
    listed: dict[str, Listed], ran: Sequence[tuple[NodeResult, Signature]]
) -> tuple[DtypeCount, ...]:
    """Return each element type that the operator takes, or that a test has given it."""
    by_type: dict[str, list[NodeResult]] = {dtype: [] for dtype in listed}
    for result, signature in ran:
        by_type.setdefault(_dtype(signature), []).append(result)
    found = []
    for dtype, results in by_type.items():
        passed, failed, refused, _ = parted(results)
        found.append(
            DtypeCount(
                dtype=dtype,
                passed=len(passed),
                failed=len(failed),
                refused=len(refused),
                listed=listed[dtype].presence if dtype in listed else Presence.UNKNOWN,
            )
        )
    return tuple(found)


def _dtype(signature: Signature) -> str:
    """Return the element type that a test is of: the first input's, else the first output's."""
    ports = (*signature.inputs, *signature.outputs)
    return next((port.dtype for port in ports if port.dtype), "")


def _dtypes(schema: "OpSchema") -> tuple[str, ...]:
    """Return the element types that the first input takes; of the first output without one."""
    first = (schema.inputs or schema.outputs)[:1]
    names: list[str] = []
    for port in first:
        for text in sorted(port.types):
            inner = text[text.rfind("(") + 1 :].rstrip(")")
            names.append(_SPELT_OUT.get(inner, inner) if "map(" not in text else "")
    return tuple(dict.fromkeys(name for name in names if name)) or ("",)


def _listed(schema: "OpSchema", dtype: str, target: AskedTarget) -> Listed:
    """Return what a target lists of an operator on one element type of its first port."""
    port = Port(kind=_kind(schema), dtype=dtype, shape=("?",))
    asked = Signature(
        domain=schema.domain, op_type=schema.name, since_version=schema.since_version,
        attributes=(), defaults=(), inputs=(port,) if schema.inputs else (),
        outputs=() if schema.inputs else (port,),
    )  # fmt: skip
    return presence_of(asked, target.listing, target.provider)


def _kind(schema: "OpSchema") -> str:
    """Return the kind of the first port, where all of its types are of one; else any will do."""
    types = (schema.inputs or schema.outputs)[0].types if schema.inputs or schema.outputs else ()
    kinds = {text.partition("(")[0] for text in types}
    return {"tensor": "tensor", "seq": "sequence"}.get(kinds.pop(), "") if len(kinds) == 1 else ""


def _any(found: Iterable[Presence]) -> Presence:
    """Return the best that is listed."""
    seen = set(found)
    for presence in (Presence.PRESENT, Presence.UNKNOWN):
        if presence in seen:
            return presence
    return Presence.ABSENT


def _score(target: str, rows: Sequence[OperatorRow]) -> str:
    """Say in a line how many operators are tested on a target, and which fail."""
    cells = [(row, cell) for row in rows for cell in row.cells if cell.target == target]
    tested = sum(cell.status in TESTED for _, cell in cells)
    failing = [row.op_type for row, cell in cells if cell.status is CellStatus.FAILING]
    lacking = sum(cell.status is CellStatus.UNSUPPORTED for _, cell in cells)
    more = len(failing) - _NAMED
    named = ", ".join(failing[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    return (
        f"{tested:,} of {len(cells):,} operators tested, "
        + (f"{len(failing):,} failing: {named}" if failing else "none failing")
        + (f"; {lacking:,} unsupported" if lacking else "")
    )
