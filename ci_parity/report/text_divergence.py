"""Where failed boundaries begin to fail, for a terminal: a sentence each, then what it rests on."""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import visible
from ci_parity.records.divergence import DepthPoint, Divergence, NodeName
from ci_parity.report.divergence_words import (
    SHOWN_DIVERGENCES,
    SHOWN_NODES,
    SHOWN_TENSORS,
    bar,
    deviation,
    facts,
    operator,
    other_nodes,
    reproduction,
    shown_points,
)
from ci_parity.report.words import measure, number

_INDENT = " " * 7


def divergence_lines(divergences: Sequence[Divergence]) -> Iterator[str]:
    """Yield the lines of all divergences."""
    for found in divergences[:SHOWN_DIVERGENCES]:
        parts = (found.target, found.variant, found.boundary, found.case)
        where = " / ".join(part for part in parts if part)
        yield "  " + visible(f"begins in {where}: {found.sentence}", 600)
        for line in _evidence(found):
            yield _INDENT + visible(line, 400)
        for point in shown_points(found.depth):
            yield _INDENT + _point(point)
    if len(divergences) > SHOWN_DIVERGENCES:
        more = len(divergences) - SHOWN_DIVERGENCES
        yield f"  … and {more} more divergences in the JSON report"


def _evidence(found: Divergence) -> Iterator[str]:
    folder = reproduction(found)
    if folder:
        yield f"reproduction: {folder}"
    told = "; ".join(facts(found))
    if told:
        yield told
    yield from _nodes("node", found.nodes)
    yield from _nodes("candidate's node", other_nodes(found))
    for output in found.local[:SHOWN_TENSORS]:
        shape = f"{output.dtype}{list(output.shape)}"
        needed = f"needed {number(output.required)} of {measure(output.limit, output.unit)}"
        name = visible(output.subject.output, 80)
        yield f"alone {name} {shape}: {needed}, largest difference {number(output.max_abs)}"


def _nodes(title: str, nodes: Sequence[NodeName]) -> Iterator[str]:
    for node in nodes[:SHOWN_NODES]:
        name = f"{operator(node)} {visible(node.name, 80)}"
        origin = f" (in the model {visible(node.origin, 80)})" if node.origin else ""
        yield f"{title} {name}{origin}"
    if len(nodes) > SHOWN_NODES:
        yield f"… {len(nodes) - SHOWN_NODES} more nodes"


def _point(point: DepthPoint | int) -> str:
    """Return one line of the depths; columns stand in line as long as names are short."""
    if isinstance(point, int):
        return f"depth       … {point} more"
    mark = ">" if point.guilty else " "
    place = f"{visible(point.op_type, 20):<14} {visible(point.tensor, 40):<24}"
    size = f"{number(point.max_noise)} x noise" if point.max_noise is not None else ""
    apart = "equal" if point.equal else size or f"differs by {deviation(point)}"
    return f"depth {mark}{point.position:>4} {place} {apart:>17} {bar(point.max_noise)}".rstrip()
