"""Operator coverage as JSON under schemas/coverage-v1.json; a contract, not a dump."""

from collections.abc import Mapping, Sequence

from ci_parity.base.canonical import Json
from ci_parity.records.coverage import (
    Cell,
    CoverageReport,
    Matrix,
    MatrixTarget,
    NodeResult,
    OperatorCell,
    OperatorTable,
    Port,
    Signature,
)
from ci_parity.records.finding import Finding

COVERAGE = "ci-parity/coverage/v1"


def render_coverage(report: CoverageReport) -> Mapping[str, Json]:
    """Return a coverage report."""
    return {
        "schema": COVERAGE,
        "subject": report.subject,
        "outcome": report.outcome.value,
        "findings": [_finding(finding) for finding in report.findings],
        "matrices": [_matrix(matrix) for matrix in report.matrices],
        "operators": _operators(report.operators) if report.operators is not None else None,
        "reproduce": report.reproduce,
    }


def _finding(finding: Finding) -> Json:
    return {
        "id": finding.id, "outcome": finding.outcome.value, "target": finding.subject.target,
        "variant": finding.subject.variant, "evidence": finding.evidence,
        "remedy": finding.remedy, "advisory": finding.advisory,
    }  # fmt: skip


def _matrix(matrix: Matrix) -> Json:
    return {
        "model": matrix.model,
        "model_sha256": matrix.model_sha256,
        "targets": [_target(target) for target in matrix.targets],
        "cells": [_cell(cell) for cell in matrix.cells],
        "changes": [
            {
                "name": change.name, "target": change.target, "before": change.before.value,
                "after": change.after.value, "worse": change.worse, "words": change.words,
            }
            for change in matrix.changes
        ],
    }  # fmt: skip


def _target(target: MatrixTarget) -> Json:
    return {
        "name": target.name, "runtime": target.runtime, "provider": target.provider,
        "tests": target.tests, "score": target.score, "baseline": target.baseline,
    }  # fmt: skip


def _cell(cell: Cell) -> Json:
    return {
        "name": cell.name,
        "target": cell.target,
        "status": cell.status.value,
        "words": cell.words,
        "presence": cell.presence.value,
        "listing": cell.listing,
        "nodes": list(cell.nodes),
        "signature": _signature(cell.signature),
        "passed": list(cell.passed),
        "failed": _results(cell.failed),
        "refused": _results(cell.refused),
        "undecided": _results(cell.undecided),
    }


def _results(results: Sequence[NodeResult]) -> Json:
    return [
        {"test": one.case, "outcome": one.outcome.value, "evidence": one.evidence}
        for one in results
    ]


def _signature(signature: Signature) -> Json:
    return {
        "domain": signature.domain,
        "op_type": signature.op_type,
        "since_version": signature.since_version,
        "attributes": dict(signature.attributes),
        "defaults": list(signature.defaults),
        "inputs": [_port(port) for port in signature.inputs],
        "outputs": [_port(port) for port in signature.outputs],
        "constants": {str(place): value for place, value in signature.constants},
        "subgraph": signature.subgraph,
    }


def _port(port: Port) -> Json:
    return {
        "kind": port.kind, "dtype": port.dtype, "shape": list(port.shape), "dynamic": port.dynamic,
    }  # fmt: skip


def _operators(table: OperatorTable) -> Json:
    return {
        "standard": table.standard,
        "targets": [_target(target) for target in table.targets],
        "rows": [
            {
                "domain": row.domain, "op_type": row.op_type, "since_version": row.since_version,
                "attributes": list(row.attributes),
                "cells": [_operator_cell(cell) for cell in row.cells],
            }
            for row in table.rows
        ],
    }  # fmt: skip


def _operator_cell(cell: OperatorCell) -> Json:
    return {
        "target": cell.target,
        "status": cell.status.value,
        "presence": cell.presence.value,
        "listing": cell.listing,
        "passed": cell.passed,
        "failed": _results(cell.failed),
        "refused": _results(cell.refused),
        "attributes_tested": list(cell.attributes),
        "dtypes": [
            {
                "dtype": one.dtype, "listed": one.listed.value, "passed": one.passed,
                "failed": one.failed, "refused": one.refused,
            }
            for one in cell.dtypes
        ],
    }  # fmt: skip
