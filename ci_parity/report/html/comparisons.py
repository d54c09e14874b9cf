"""Every comparison with all of its figures, a table for each boundary, the worst first."""

from collections.abc import Sequence

from ci_parity.base.words import plural
from ci_parity.records.finding import OutputComparison
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report.html.blocks import (
    Cell,
    Figure,
    Line,
    figure,
    figures,
    folded,
    rest,
    section,
    status,
    table,
    times,
    where,
    words,
)
from ci_parity.report.html.element import Child, Html, code, element, spaced, text, together
from ci_parity.report.html.plots import quantiles, used_bar
from ci_parity.report.html.ranked import Group, Shown, used

_MORE = (
    ("mean abs", "mean_abs"), ("RMS", "rms_abs"), ("p50 abs", "p50_abs"), ("p99 abs", "p99_abs"),
    ("p99.9 abs", "p999_abs"), ("of scale", "rel_to_scale"), ("bias", "bias"),
    ("cosine", "cosine"), ("not finite", "nonfinite"), ("part of largest", "excess"),
    ("part of RMS", "rms_excess"),
)  # fmt: skip
_COLUMNS = (
    *words("output", "case", "outcome"),
    *figures("used", "needed", "limit", "differ", "max abs", "max rel", "max ULP", "SQNR, dB"),
    *figures(*(name for name, _ in _MORE), extra=True),
    *words("worst element", "type", "rule"),
)
_OPEN_GROUPS = 2


def comparisons(verdict: Verdict, groups: Sequence[Group]) -> Html | None:
    """Return the comparisons by boundary, None where there are none."""
    with_lines = [group for group in groups if group.lines or group.left_out]
    if not with_lines:
        return None
    shown = [group for group in with_lines if group.lines]
    broken = [group for group in shown if group.outcome is not Outcome.PASS][:_OPEN_GROUPS]
    opened = {group.anchor for group in broken or shown[:1]}
    blocks = [_group(group, opened=group.anchor in opened) for group in shown]
    switch = element(
        "label", element("input", type="checkbox", id="all-figures"),
        "All figures", class_="switch",
    )  # fmt: skip
    unseen = sum(group.left_out for group in with_lines if not group.lines)
    count = len(verdict.outputs)
    lead = (
        f"{plural(count, 'output')} compared element by element. "
        "“Needed” is the limit that would just have passed."
    )
    head = element("div", element("p", lead, class_="quiet"), switch, class_="bar")
    return section(
        "comparisons", "Comparisons", head, blocks,
        rest(unseen, "comparisons of other boundaries, which used less of their limits, are"),
    )  # fmt: skip


def _group(group: Group, *, opened: bool) -> Html:
    count = len(group.lines) + group.left_out
    worst = max(
        (p for line in group.lines if (p := used(line.comparison)) is not None), default=None
    )
    head = spaced(
        status(group.outcome), where(*group.key) or "baseline against candidate",
        element("span", plural(count, "output"), class_="count"),
        element("span", f"at most {times(worst)} the limit", class_="count") if worst is not None
        else None,
    )  # fmt: skip
    lines = [line.comparison for line in group.lines]
    names = [" in ".join(p for p in (o.subject.output, o.subject.case) if p) for o in lines]
    picture = quantiles(lines, names)
    caption = element("figcaption", "How large the errors are, in the units of each output")
    parts: list[Child] = [
        element("figure", caption, picture) if picture else None,
        table("All outputs of this boundary", _COLUMNS, map(_line, group.lines), kind="wide many"),
        rest(group.left_out, "comparisons, which used less of their limits,"),
    ]
    return folded(element("h3", head), parts, opened=opened, id=group.anchor, class_="boundary")


def _line(shown: Shown) -> Line:
    o = shown.comparison
    part = used(o)
    more: list[Cell] = [figure(_number(getattr(o, name))) for _, name in _MORE]
    bar = together([element("span", times(part)), used_bar(part)]) if part is not None else ""
    return Line(
        anchor=shown.anchor,
        cells=(
            code(o.subject.output), code(o.subject.case), status(o.outcome),
            Figure(value=part, shown=bar), figure(o.required), figure(o.limit, o.unit),
            Figure(value=float(o.mismatched), shown=f"{o.mismatched:,} of {o.elements:,}"),
            figure(o.max_abs), figure(o.max_rel), figure(o.max_ulp), figure(o.sqnr_db), *more,
            _worst(o), code(f"{o.dtype}{list(o.shape)}"), text(o.rule, 200),
        ),
    )  # fmt: skip


def _number(value: float | None) -> float | None:
    return float(value) if value is not None else None


def _worst(o: OutputComparison) -> Html | None:
    if o.worst_index is None:
        return None
    at = element("span", f"at {list(o.worst_index)}", class_="note")
    return spaced(code(o.worst_baseline, 40), "→", code(o.worst_candidate, 40), at)
