"""The words of a divergence that all reports share; each makes them harmless in its own way."""

import math
from collections.abc import Iterator, Sequence

from ci_parity.records.divergence import Conclusion, DepthPoint, Divergence, NodeName
from ci_parity.report.words import number

SHOWN_DIVERGENCES = 5
SHOWN_NODES = 12
SHOWN_TENSORS = 12
_SHOWN_POINTS = 10
_LONGEST_BAR = 16
_PLOTTED_POINTS = 3
_NAMELESS = {Conclusion.CARRIED, Conclusion.NOT_REPRODUCIBLE, Conclusion.OPEN}


def first_divergence(divergences: Sequence[Divergence]) -> Divergence | None:
    """Return the first that came to nodes, else the first; None for none."""
    named = (found for found in divergences if found.conclusion not in _NAMELESS)
    return next(named, next(iter(divergences), None))


def operator(node: NodeName) -> str:
    """Return an operator with its domain, which is empty for ONNX's own."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def other_nodes(found: Divergence) -> Sequence[NodeName]:
    """Return the candidate's nodes where its model calls them otherwise."""
    return found.candidate_nodes if found.candidate_nodes != found.nodes else ()


def facts(found: Divergence) -> Iterator[str]:
    """Yield what is known beside the nodes, a sentence each, to be made harmless."""
    used, whole = (_times(value) for value in (found.used, found.whole))
    if used or whole:
        parts = [f"these nodes alone use {used}"] if used else []
        parts += [f"the whole run used {whole}"] if whole else []
        yield f"of what the outputs are allowed, {', '.join(parts)}"
    if found.optimizers is not None:
        named = ", ".join(found.optimizers) or "graph optimizations that have no name to turn off"
        yield f"depends on {named}"
    if found.further:
        yield "more is wrong behind these nodes"
    if found.unpaired:
        count = len(found.unpaired)
        yield f"{count} tensor{'s' * (count != 1)} without a counterpart, not compared"
    if found.tried:
        yield f"found in {found.tried} run{'s' * (found.tried != 1)}"


def _times(part: float | None) -> str:
    return f"{number(part)} times" if part is not None and math.isfinite(part) else ""


def reproduction(found: Divergence) -> str:
    """Return where in the report a reproduction begins, empty where there is none."""
    return f"{found.reproduction}/README.md" if found.reproduction else ""


def plot_file(number: int, found: Divergence) -> str:
    """Return the name of a divergence's plot in the report folder, empty where it has none.

    Args:
        number: its place among the verdict's divergences, from 1.
        found: the divergence.
    """
    return f"depth-{number}.svg" if len(found.depth) >= _PLOTTED_POINTS else ""


def shown_points(depth: Sequence[DepthPoint]) -> list[DepthPoint | int]:
    """Return the first points, those about the guilty one and the last; a count for a gap."""
    last = len(depth) - 1
    centre = next((at for at, point in enumerate(depth) if point.guilty), len(depth) // 2)
    nearest = dict.fromkeys(
        at
        for step in range(len(depth))
        for at in (centre - step, centre + step, step, last - step)
        if 0 <= at <= last
    )
    shown: list[DepthPoint | int] = []
    expected = 0
    for at in sorted(list(nearest)[:_SHOWN_POINTS]):
        shown += [at - expected] if at > expected else []
        shown.append(depth[at])
        expected = at + 1
    return shown


def deviation(point: DepthPoint) -> str:
    """Return the largest difference at a tensor, in its own unit."""
    return "equal" if point.equal else number(point.max_abs)


def bar(noise: float | None) -> str:
    """Return one block for each power of ten above a tenth of a noise floor, to half a block."""
    if noise is None or not noise > 0:
        return ""
    halves = round(2 * (math.log10(noise) + 1)) if math.isfinite(noise) else 2 * _LONGEST_BAR
    halves = min(max(halves, 0), 2 * _LONGEST_BAR)
    return "█" * (halves // 2) + "▌" * (halves % 2)
