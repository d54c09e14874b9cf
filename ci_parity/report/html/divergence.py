"""Where failed boundaries begin to fail: the nodes, the way to the outputs, how to reproduce it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ci_parity.records.divergence import Divergence, NodeName
from ci_parity.records.finding import OutputComparison
from ci_parity.records.verdict import Verdict
from ci_parity.report import depth_plot
from ci_parity.report.divergence_words import (
    SHOWN_NODES,
    SHOWN_TENSORS,
    facts,
    operator,
    other_nodes,
    plot_file,
)
from ci_parity.report.html.blocks import (
    SENTENCE,
    Figure,
    Line,
    figure,
    figures,
    folded,
    rest,
    section,
    status,
    table,
    where,
    words,
)
from ci_parity.report.html.element import Child, Html, code, element, spaced, text, verbatim
from ci_parity.report.html.files import Files

_MOST = 5
_MOST_POINTS = 160
_SHOWN_OUTPUTS = 3


def divergences(verdict: Verdict, files: Files) -> Html | None:
    """Return where each failed boundary begins to fail; None where nothing was searched."""
    found = verdict.divergences
    if not found:
        return None
    blocks = [
        element("article", _parts(one, place, files), class_="divergence")
        for place, one in enumerate(found[:_MOST], 1)
    ]
    title = "Where it begins to fail"
    return section("divergence", title, blocks, rest(len(found) - _MOST, "divergences"))


def _parts(found: Divergence, place: int, files: Files) -> Iterator[Child]:
    yield element("h3", where(found.target, found.variant, found.boundary, found.case) or "The run")
    yield element("p", text(found.sentence, SENTENCE), class_="lead")
    told = [text(fact, 600) for fact in facts(found)]
    folder = files.reproduction(found)
    told += [spaced("to reproduce it with nothing but the runtime:", folder)] if folder else []
    if told:
        yield element("ul", [element("li", fact) for fact in told], class_="sentences")
    if plot_file(place, found):
        shown = _thinned(found)
        picture = verbatim(depth_plot.inline(shown, f"d{place}-"))
        yield element("div", picture, class_="scroll plotted")
        yield rest(len(found.depth) - len(shown.depth), "tensors on the way")
    yield _nodes("Nodes at fault", found.nodes)
    yield _nodes("The candidate's own names for them", other_nodes(found))
    yield _local(found.local)
    yield _depth(_thinned(found))


def _thinned(found: Divergence) -> Divergence:
    """Return a divergence with so many points that a page can show: guilty ones and every few."""
    if len(found.depth) <= _MOST_POINTS:
        return found
    step = len(found.depth) / (_MOST_POINTS // 2)
    kept = {int(at * step) for at in range(_MOST_POINTS // 2)} | {len(found.depth) - 1}
    guilty = [at for at, point in enumerate(found.depth) if point.guilty][: _MOST_POINTS // 2 - 1]
    points = tuple(found.depth[at] for at in sorted(kept | set(guilty)))
    return replace(found, depth=points)


def _nodes(caption: str, nodes: Sequence[NodeName]) -> Html | None:
    if not nodes:
        return None
    lines = [
        Line(
            cells=(code(node.name), code(operator(node)), code(node.origin), _outputs(node.outputs))
        )
        for node in nodes[:SHOWN_NODES]
    ]
    shown = table(
        caption, words("node", "operator", "in the model as", "outputs"), lines, kind="names"
    )
    return element("div", shown, rest(len(nodes) - SHOWN_NODES, "nodes"))


def _outputs(names: Sequence[str]) -> Html:
    more = len(names) - _SHOWN_OUTPUTS
    shown: list[Child] = [code(name) for name in names[:_SHOWN_OUTPUTS]]
    return spaced(*shown, f"and {more:,} more" if more > 0 else None)


def _local(local: Sequence[OutputComparison]) -> Html | None:
    if not local:
        return None
    lines = [
        Line(cells=(
            code(o.subject.output), status(o.outcome), code(f"{o.dtype}{list(o.shape)}"),
            figure(o.required), figure(o.limit, o.unit), figure(o.max_abs),
        ))
        for o in local[:SHOWN_TENSORS]
    ]  # fmt: skip
    columns = (*words("tensor", "outcome", "type"), *figures("needed", "limit", "max abs"))
    caption = "Behind these nodes alone, given the baseline's own tensors"
    shown = table(caption, columns, lines, kind="names")
    return element("div", shown, rest(len(local) - SHOWN_TENSORS, "tensors"))


def _depth(found: Divergence) -> Html | None:
    if not found.depth:
        return None
    lines = [
        Line(cells=(
            code(point.tensor), code(point.op_type),
            Figure(value=float(point.position), shown=str(point.position)),
            "at fault" if point.guilty else ("equal" if point.equal else ""),
            figure(point.max_abs), figure(point.max_noise), figure(point.rms_noise),
        ))
        for point in found.depth
    ]  # fmt: skip
    columns = (
        *words("tensor", "operator"), *figures("node"), *words("finding"),
        *figures("max abs", "largest, x noise", "RMS, x noise"),
    )  # fmt: skip
    shown = table("Tensors on the way, in the order of the graph", columns, lines, kind="names")
    return folded(f"Error by depth in numbers ({len(found.depth):,} tensors)", shown)
