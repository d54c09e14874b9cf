"""Where a failed boundary begins to fail, for the comment: one line to see, the evidence folded."""

from collections.abc import Iterator, Sequence

from ci_parity.base.escape import code, prose
from ci_parity.records.divergence import DepthPoint, Divergence, NodeName
from ci_parity.records.finding import OutputComparison
from ci_parity.report.divergence_words import (
    SHOWN_DIVERGENCES,
    SHOWN_NODES,
    SHOWN_TENSORS,
    bar,
    deviation,
    facts,
    first_divergence,
    operator,
    other_nodes,
    plot_file,
    reproduction,
    shown_points,
)
from ci_parity.report.markup import folded, linked, more, table
from ci_parity.report.words import measure, number

_LONG = 600
_SHOWN_FIRST = 3
_SHOWN_OUTPUTS = 3


def beginnings(divergences: Sequence[Divergence], run_url: str, shown: int = _SHOWN_FIRST) -> str:
    """Return where failures begin, the one that came to nodes first, and their reproductions.

    Args:
        divergences: all that were searched for.
        run_url: the page of the run that holds the report, empty where there is none.
        shown: how many get a line.
    """
    first = first_divergence(divergences)
    if first is None:
        return ""
    at = next(place for place, found in enumerate(divergences) if found is first)
    ranked = [first, *divergences[:at], *divergences[at + 1 :]]
    lines = [_sentence(found, run_url) for found in ranked[:shown]]
    rest = len(ranked) - len(lines)
    if len(lines) == 1:
        return f"**Where it begins to fail:** {lines[0]}" + (f" (and {rest} more)" if rest else "")
    listed = "\n".join(f"- {line}" for line in lines)
    return f"**Where it begins to fail**\n\n{listed}{more(rest)}"


def evidence(divergences: Sequence[Divergence]) -> str:
    """Return the nodes, figures and depths of all divergences, folded."""
    shown = divergences[:SHOWN_DIVERGENCES]
    blocks: list[str] = []
    for place, found in enumerate(shown, 1):
        blocks += [_sentence(found)] if len(divergences) > 1 else []
        blocks += [block for block in _blocks(found, plot_file(place, found)) if block]
    rest = len(divergences) - len(shown)
    blocks += [f"… and {rest} more in the JSON report."] if rest > 0 else []
    return folded(f"Divergences ({len(divergences)})", "\n\n".join(blocks)) if blocks else ""


def _sentence(found: Divergence, run_url: str = "") -> str:
    place = " ".join(code(part) for part in (found.target, found.variant, found.boundary) if part)
    case = f"in {code(found.case)}" if found.case else ""
    where = " ".join(part for part in (place, case) if part)
    line = f"{where}: {prose(found.sentence, _LONG)}" if where else prose(found.sentence, _LONG)
    folder = reproduction(found)
    report = linked("report", f"{run_url}#artifacts" if run_url else "")
    return line + (f"; to reproduce it, in the {report}: {code(folder)}" if folder else "")


def _blocks(found: Divergence, plot: str) -> Iterator[str]:
    told = [prose(fact, _LONG) for fact in facts(found)]
    told += [f"plot, in the report: {code(plot)}"] if plot else []
    yield "\n".join(f"- {fact}" for fact in told)
    yield _nodes("node", found.nodes)
    yield _nodes("candidate's node", other_nodes(found))
    yield _local(found.local)
    yield _depth(found.depth)


def _nodes(title: str, nodes: Sequence[NodeName]) -> str:
    if not nodes:
        return ""
    rows = [
        (code(operator(node)), code(node.name), code(node.origin), _outputs(node.outputs))
        for node in nodes[:SHOWN_NODES]
    ]
    heads = ("operator", title, "in the model as", "outputs")
    return table(heads, rows) + more(len(nodes) - SHOWN_NODES)


def _outputs(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN_OUTPUTS
    shown = [code(name) for name in names[:_SHOWN_OUTPUTS]]
    return " ".join([*shown, f"… {rest} more"] if rest > 0 else shown)


def _local(local: Sequence[OutputComparison]) -> str:
    if not local:
        return ""
    rows = [
        (code(o.subject.output), code(f"{o.dtype}{list(o.shape)}"), number(o.required),
         prose(measure(o.limit, o.unit)), number(o.max_abs))
        for o in local[:SHOWN_TENSORS]
    ]  # fmt: skip
    heads = ("behind these nodes alone", "type", "needed", "limit", "largest difference")
    return table(heads, rows) + more(len(local) - SHOWN_TENSORS)


def _depth(depth: Sequence[DepthPoint]) -> str:
    if not depth:
        return ""
    rows = [
        _point(point) if isinstance(point, DepthPoint) else ("", f"… {point} more", *[""] * 5)
        for point in shown_points(depth)
    ]
    heads = (
        "node", "tensor on the way", "operator", "difference", "largest, x noise", "RMS, x noise",
        "",
    )  # fmt: skip
    legend = "→ at fault; one block for each power of ten above a tenth of the noise floor."
    return f"{table(heads, rows)}\n\n{legend}"


def _point(point: DepthPoint) -> tuple[str, ...]:
    return (
        f"{'→ ' if point.guilty else ''}{point.position}", code(point.tensor, 80),
        code(point.op_type, 40), deviation(point), number(point.max_noise),
        number(point.rms_noise), bar(point.max_noise),
    )  # fmt: skip
