"""What a runtime made of a graph, in the words that all reports share."""

from collections import Counter

from ci_parity.base.words import plural
from ci_parity.records.executed import ExecutedGraph

_SHOWN = 5


def executed_line(graph: ExecutedGraph) -> str:
    """Return what ran, such as `9 kernels of 14 nodes in the file; float32 (9); no cast`."""
    if graph.why_not:
        return f"what ran is not known: {graph.why_not}"
    words = f"{plural(graph.count, 'kernel')} of {graph.original_count} nodes "
    words += f"in the file; {_listed(graph.types)}"
    if graph.compiled:
        words += f"; {graph.compiled} compiled by a provider, which tells no types"
    casts = Counter({f"{takes}→{gives}": count for (takes, gives), count in graph.casts.items()})
    return f"{words}; {'casts ' + _listed(casts) if casts else 'no cast'}"


def rewrites(graph: ExecutedGraph) -> list[tuple[str, int, int]]:
    """Return operator, nodes in the file and kernels, of every operator where these differ.

    Nothing where the runtime has names of its own.
    """
    if graph.own_names or graph.why_not:
        return []
    old, new = graph.in_file(), graph.by_operator()
    names = sorted({*old, *new}, key=lambda name: (-abs(new[name] - old[name]), name))
    return [(name, old[name], new[name]) for name in names if old[name] != new[name]]


def rewritten_line(graph: ExecutedGraph) -> str:
    """Return what the runtime took out and put in, such as `Relu 12 → 0, FusedConv 0 → 12`."""
    found = rewrites(graph)
    shown = ", ".join(f"{name} {old} → {new}" for name, old, new in found[:_SHOWN])
    more = len(found) - _SHOWN
    return shown + (f" and {more} more operators" if more > 0 else "")


def _listed(counts: "Counter[str]") -> str:
    shown = ", ".join(f"{name or '?'} ({count})" for name, count in counts.most_common(_SHOWN))
    more = len(counts) - _SHOWN
    return (shown or "no types") + (f" and {more} more" if more > 0 else "")
