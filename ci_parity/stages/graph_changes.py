"""How the graphs of changed models differ, counted by operator: for reports, which judge nothing.

A graph that cannot be read costs a report this part, never the verdict.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import CiParityError
from ci_parity.base.onnx_model import load_graph
from ci_parity.config.model import Deployment
from ci_parity.detect.model_words import domain_of, label, operator_of
from ci_parity.records.graph_change import GraphChange, OperatorMove
from ci_parity.records.identity import Axis, ChangeSet
from ci_parity.records.verdict import Verdict
from ci_parity.stages.identify import Baseline

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The model of a variant, before and after; `target` is empty where it is the same on all."""

    target: str
    variant: str
    before: Path
    after: Path


def changed_models(
    deployment: Deployment, baseline: Baseline, changes: ChangeSet
) -> tuple[Sides, ...]:
    """Return the models that differ from the baseline's, each pair of files once."""
    after = {variant.name: variant.path for variant in deployment.variants}
    pairs: dict[tuple[str, Path], str] = {}
    for change in changes.changes:
        before = baseline.models.get((change.target, change.variant))
        if change.axis is Axis.MODEL and before is not None and change.variant in after:
            pairs.setdefault((change.variant, before), change.target)
    several = Counter(variant for variant, _ in pairs)
    return tuple(
        Sides(
            target=target if several[variant] > 1 else "", variant=variant, before=before,
            after=after[variant],
        )
        for (variant, before), target in pairs.items()
    )  # fmt: skip


def two_models(before: Path, after: Path) -> tuple[Sides, ...]:
    """Return two models of a command line, nothing where they are one file."""
    same = before.resolve() == after.resolve()
    return () if same else (Sides(target="", variant="", before=before, after=after),)


def with_graphs(verdict: Verdict, models: Sequence[Sides]) -> Verdict:
    """Return a verdict that knows how the graphs of these models differ."""
    found: list[GraphChange] = []
    for sides in models:
        try:
            found.append(_change(sides))
        except (CiParityError, OSError):
            continue
    return replace(verdict, graphs=tuple(found)) if found else verdict


def _change(sides: Sides) -> GraphChange:
    models = [load_graph(path) for path in (sides.before, sides.after)]
    before, after = (_operators(model) for model in models)
    names = sorted({*before, *after})
    return GraphChange(
        target=sides.target,
        variant=sides.variant,
        nodes_before=before.total(),
        nodes_after=after.total(),
        opsets_before=_opsets(models[0]),
        opsets_after=_opsets(models[1]),
        operators=tuple(
            OperatorMove(op=name, before=before[name], after=after[name])
            for name in names
            if before[name] != after[name]
        ),
    )


def _operators(model: "ModelProto") -> Counter[str]:
    """Count the nodes of a model by operator, those of subgraphs and functions too."""
    counted: Counter[str] = Counter()
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    while bodies:
        for node in bodies.pop():
            counted[label(operator_of(node.domain, node.op_type))] += 1
            bodies += _inner(node)
    return counted


def _inner(node: "NodeProto") -> Iterator["Sequence[NodeProto]"]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g.node
        for graph in attribute.graphs:
            yield graph.node


def _opsets(model: "ModelProto") -> tuple[str, ...]:
    return tuple(sorted(f"{label(domain_of(o.domain))} {o.version}" for o in model.opset_import))
