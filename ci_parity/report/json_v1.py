"""Machine-readable reports, version 1, each under its own published schema.

These are contracts, not dumps: a key that is here stays here with its meaning until version 2.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.records.attribution import Attribution
from ci_parity.records.codec import to_json
from ci_parity.records.divergence import Conclusion, DepthPoint, Divergence, NodeName
from ci_parity.records.executed import ExecutedGraph
from ci_parity.records.finding import Finding, LatencyComparison, OutputComparison
from ci_parity.records.identity import ChangeSet
from ci_parity.records.placement import SystemPlacement
from ci_parity.records.verdict import Verdict
from ci_parity.report.divergence_words import first_divergence

DIFF = "ci-parity/diff/v1"
CHECK = "ci-parity/check/v1"
DETECT = "ci-parity/detect/v1"
PLAN = "ci-parity/plan/v1"
_KINDS = {
    Conclusion.HERE: "local",
    Conclusion.AMPLIFIED: "inherited",
    Conclusion.FUSED: "fusion-dependent",
    Conclusion.BRACKET: "bracket",
}


def render_diff(verdict: Verdict) -> Mapping[str, Json]:
    """Return a `diff` as JSON under schemas/diff-v1.json."""
    return {
        "schema": DIFF,
        **_common(verdict),
        "divergence": _first_divergence(verdict.divergences),
        "latency": _latency(verdict.latency[0]) if verdict.latency else None,
    }


def render_check(verdict: Verdict) -> Mapping[str, Json]:
    """Return a `check` as JSON under schemas/check-v1.json."""
    return {
        "schema": CHECK,
        **_common(verdict),
        "deployment": verdict.deployment,
        "ran": verdict.ran,
        "bundle_digest": verdict.bundle_digest,
        "changes": to_json(verdict.changes),
        "rows": [
            {
                "target": row.target, "variant": row.variant, "boundary": row.boundary,
                "outcome": row.outcome.value, "cases": row.cases,
                "cases_expected": row.cases_expected, "inherits": row.inherits,
            }
            for row in verdict.rows
        ],
        "latency": [_latency(timing) for timing in verdict.latency],
    }  # fmt: skip


def render_detect(deployment: str, changes: ChangeSet) -> Mapping[str, Json]:
    """Return a change set as JSON under schemas/detect-v1.json."""
    return {"schema": DETECT, "deployment": deployment, "changes": to_json(changes)}


@cache
def schema(name: str) -> Mapping[str, Any]:
    """Return the published schema of a report: `diff-v1`, `check-v1`, `detect-v1`, `plan-v1`."""
    file = resources.files("ci_parity.report").joinpath("schemas", f"{name}.json")
    loaded = parse_strict(file.read_bytes(), where=name)
    assert isinstance(loaded, Mapping)
    return loaded


def _common(verdict: Verdict) -> dict[str, Json]:
    return {
        "outcome": verdict.outcome.value,
        "summary": verdict.summary,
        "findings": [_finding(finding) for finding in verdict.findings],
        "outputs": [_output(output) for output in verdict.outputs],
        "attributions": [_attribution(found) for found in verdict.attributions],
        "divergences": [_divergence(found) for found in verdict.divergences],
        "placements": [_placement(system) for system in verdict.placements],
        "inputs": {"source": verdict.inputs_source, "count": verdict.inputs_count},
        "environment": to_json(verdict.environment),
        "reproduce": list(verdict.reproduce),
        "tool_version": verdict.tool_version,
    }


def _finding(finding: Finding) -> Json:
    return {
        "id": finding.id,
        "outcome": finding.outcome.value,
        "advisory": finding.advisory,
        "subject": to_json(finding.subject),
        "measured": _number(finding.measured),
        "limit": _number(finding.limit),
        "required": _number(finding.required),
        "unit": finding.unit,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
    }


def _output(output: OutputComparison) -> Json:
    return {
        "name": output.subject.output,
        "case": output.subject.case,
        "target": output.subject.target,
        "variant": output.subject.variant,
        "boundary": output.subject.boundary,
        "outcome": output.outcome.value,
        "dtype": output.dtype,
        "shape": list(output.shape),
        "elements": output.elements,
        "mismatched": output.mismatched,
        "max_abs": _number(output.max_abs),
        "max_rel": _number(output.max_rel),
        "max_ulp": _number(output.max_ulp),
        "rel_to_scale": _number(output.rel_to_scale),
        "mean_abs": _number(output.mean_abs),
        "rms_abs": _number(output.rms_abs),
        "p50_abs": _number(output.p50_abs),
        "p99_abs": _number(output.p99_abs),
        "p999_abs": _number(output.p999_abs),
        "bias": _number(output.bias),
        "sqnr_db": _number(output.sqnr_db),
        "cosine": _number(output.cosine),
        "nonfinite": output.nonfinite,
        "limit": _number(output.limit),
        "required": _number(output.required),
        "unit": output.unit,
        "rule": output.rule,
        "worst_index": list(output.worst_index) if output.worst_index is not None else None,
        "worst_baseline": output.worst_baseline,
        "worst_candidate": output.worst_candidate,
    }


def _attribution(found: Attribution) -> Json:
    return {
        "target": found.target,
        "variant": found.variant,
        "boundary": found.boundary,
        "conclusion": found.conclusion.value,
        "causes": [axis.value for axis in found.causes],
        "sentence": found.sentence,
        "cases": list(found.cases),
        "used": _number(found.used),
        "swaps": [
            {
                "axis": swap.axis.value, "before": swap.before, "after": swap.after,
                "alone": swap.alone.value, "without": swap.without.value,
                "used": _number(swap.used), "note": swap.note,
            }
            for swap in found.swaps
        ],
    }  # fmt: skip


def _first_divergence(divergences: Sequence[Divergence]) -> Json:
    """Return the first divergence that came to nodes, in short; None where none did."""
    found = first_divergence(divergences)
    if found is None or found.conclusion not in _KINDS:
        return None
    return {
        "nodes": [node.name for node in found.nodes],
        "kind": _KINDS[found.conclusion],
        "repro": found.reproduction,
    }


def _divergence(found: Divergence) -> Json:
    return {
        "target": found.target,
        "variant": found.variant,
        "boundary": found.boundary,
        "case": found.case,
        "conclusion": found.conclusion.value,
        "sentence": found.sentence,
        "nodes": [_node(node) for node in found.nodes],
        "candidate_nodes": [_node(node) for node in found.candidate_nodes],
        "used": _number(found.used),
        "whole": _number(found.whole),
        "local": [_output(output) for output in found.local],
        "optimizers": list(found.optimizers) if found.optimizers is not None else None,
        "further": found.further,
        "unpaired": list(found.unpaired),
        "depth": [_depth_point(point) for point in found.depth],
        "tried": found.tried,
        "reproduction": found.reproduction,
    }


def _node(node: NodeName) -> Json:
    return {
        "name": node.name,
        "op_type": node.op_type,
        "domain": node.domain,
        "outputs": list(node.outputs),
        "origin": node.origin,
    }


def _depth_point(point: DepthPoint) -> Json:
    return {
        "tensor": point.tensor,
        "position": point.position,
        "op_type": point.op_type,
        "equal": point.equal,
        "max_abs": _number(point.max_abs),
        "max_noise": _number(point.max_noise),
        "rms_noise": _number(point.rms_noise),
        "guilty": point.guilty,
    }


def _placement(system: SystemPlacement) -> Json:
    placed = system.placement
    return {
        "target": system.target,
        "variant": system.variant,
        "requested": system.requested,
        "providers": list(system.providers),
        "method": placed.method.value,
        "why_not": placed.why_not,
        "nodes": placed.count if placed.known else None,
        "nodes_requested": placed.on(system.requested) if placed.known else None,
        "memcpy": placed.memcpy,
        "operators": [
            {"provider": one.provider, "op_type": one.op_type, "count": one.count,
             "names": list(one.names)}
            for one in placed.operators
        ],
        "executed": _executed(placed.executed),
        "warnings": [
            {"kind": one.kind.value, "text": one.text, "count": one.count}
            for one in system.warnings
        ],
    }  # fmt: skip


def _executed(graph: ExecutedGraph | None) -> Json:
    if graph is None:
        return None
    return {
        "kernels": graph.count,
        "nodes": graph.original_count,
        "own_names": graph.own_names,
        "why_not": graph.why_not,
        "operators": [
            {"op_type": one.op_type, "takes": one.takes, "gives": one.gives, "count": one.count}
            for one in graph.operators
        ],
        "original": [{"op_type": one.op_type, "count": one.count} for one in graph.original],
    }


def _latency(timing: LatencyComparison) -> Json:
    return {
        "target": timing.subject.target,
        "variant": timing.subject.variant,
        "case": timing.subject.case,
        "outcome": timing.outcome.value,
        "enforced": timing.enforced,
        "baseline_p50_ms": timing.baseline_p50_ms,
        "candidate_p50_ms": timing.candidate_p50_ms,
        "ratio": timing.ratio,
        "ratio_low": timing.ratio_low,
        "ratio_high": timing.ratio_high,
        "max_regression": timing.max_regression,
        "sessions": timing.sessions,
        "pairs": timing.pairs,
        "margin": timing.margin,
        "mde": _number(timing.mde),
        "session_sd": _number(timing.session_sd),
        "session_ratios": list(timing.session_ratios),
        "voided_pairs": timing.voided_pairs,
        "reason": timing.reason,
        "measures": [to_json(measure) for measure in timing.measures],
    }


def _number(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None
