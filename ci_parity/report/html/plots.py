"""Small pictures in the page's own colours: every number in them stands in a table as well."""

import math
from collections.abc import Callable, Iterator, Sequence

from ci_parity.base.words import percent
from ci_parity.records.finding import LatencyComparison, OutputComparison
from ci_parity.records.outcome import Outcome
from ci_parity.report.fitting import cells, fitting
from ci_parity.report.html.element import Child, Html, element
from ci_parity.report.words import number

Scale = Callable[[float], float]
_WIDTH = 760
_LABEL = 212
_EDGE = 32
_ROW = 26
_MOST_ROWS = 16
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def used_bar(part: float | None) -> Html:
    """Return how much of its limit was used, from a hundredth to ten thousand times."""
    if part is None:
        return Html("")
    at = 2.0 + 96 * min(max(math.log10(part) if part > 0 else -2.0, -2.0), 4.0) / 6 + 32
    filled = element(
        "rect", x=2, y=3, width=max(at - 2, 1.5), height=6, rx=1.5,
        class_="over" if part > 1 else "within",
    )  # fmt: skip
    lane = element("rect", x=2, y=3, width=96, height=6, rx=1.5, class_="lane")
    limit = element("path", d="M34 0v12", class_="limit")
    return element(
        "svg", lane, filled, limit, class_="used", viewBox="0 0 100 12", aria_hidden="true"
    )


def histogram(parts: Sequence[float]) -> Html:
    """Return how many comparisons used how much of their limit, in steps of half a power of ten."""
    low, high, step = -3.0, 5.0, 0.5
    count = int((high - low) / step)
    bins = [0] * count
    for part in parts:
        power = min(max(math.log10(part) if part > 0 else low, low), high - step / 2)
        bins[int((power - low) / step)] += 1
    tallest, height, top = max(bins), 90.0, 24
    wide = (_WIDTH - 2 * _EDGE) / count
    shapes: list[Child] = []
    for place, many in enumerate(bins):
        x, tall = _EDGE + place * wide, height * many / tallest if tallest else 0.0
        over = low + place * step >= 0
        if many:
            tall = max(tall, 2)
            shapes += [
                element("rect", x=x + 1.5, y=top + height - tall, width=wide - 3, height=tall,
                        rx=2, class_="over" if over else "within"),
                label(x + wide / 2, top + height - tall - 5, f"{many:,}", "middle"),
            ]  # fmt: skip
    ground = top + height
    shapes.append(element("path", d=f"M{_EDGE} {ground + 0.5}H{_WIDTH - _EDGE}", class_="axis"))
    for power in range(int(low), int(high) + 1):
        x = _EDGE + (power - low) / step * wide
        words = "limit" if power == 0 else f"{'≤ ' if power == low else ''}{_power(power)}"
        shapes.append(element("path", d=f"M{x:.1f} {ground}v5", class_="axis"))
        shapes.append(label(x, ground + 18, words, "middle", "strong" if power == 0 else ""))
    shapes.append(
        element("path", d=f"M{_EDGE - low / step * wide:.1f} {top - 14}V{ground}", class_="limit")
    )
    within = sum(1 for part in parts if part <= 1)
    told = f"{within:,} of {len(parts):,} comparisons used no more than their limit."
    return _picture(ground + 26, f"How much of its limit each comparison used. {told}", shapes)


def quantiles(lines: Sequence[OutputComparison], names: Sequence[str]) -> Html | None:
    """Return the absolute errors of outputs: median to largest on a scale of powers of ten."""
    drawn = [
        (output, name) for output, name in zip(lines, names, strict=True)
        if output.max_abs is not None and math.isfinite(output.max_abs) and output.max_abs > 0
    ][:_MOST_ROWS]  # fmt: skip
    if not drawn:
        return None
    values = [v for output, _ in drawn for v in _errors(output)]
    low = math.floor(math.log10(max(min(values), max(values) * 1e-9)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    left, right, top = _LABEL, _WIDTH - 96, 40

    def x(value: float) -> float:
        return left + (right - left) * (max(math.log10(value), low) - low) / (high - low)

    ground = top + len(drawn) * _ROW
    shapes: list[Child] = list(_error_legend(left))
    step = -(-(high - low) // 8)
    for power in range(low, high + 1, step):
        shapes.append(element("path", d=f"M{x(10.0**power):.1f} {top}V{ground}", class_="grid"))
        shapes.append(label(x(10.0**power), ground + 18, _power(power), "middle"))
    for place, (output, name) in enumerate(drawn):
        shapes.append(_error_row(output, name, top + place * _ROW + _ROW / 2, x, right))
    return _picture(
        ground + 28, f"Absolute errors of the {len(drawn)} outputs that used most of their limit.",
        shapes,
    )  # fmt: skip


def _errors(output: OutputComparison) -> list[float]:
    found = (output.p50_abs, output.p99_abs, output.p999_abs, output.max_abs)
    return [v for v in found if v is not None and math.isfinite(v) and v > 0]


def _error_legend(left: float) -> Iterator[Html]:
    y = 14
    yield element("rect", x=left, y=y - 4, width=34, height=8, rx=2, class_="half")
    yield label(left + 42, y + 4, "median to 99 %")
    yield element("path", d=f"M{left + 150} {y}h34", class_="whisker")
    yield label(left + 192, y + 4, "to 99.9 %")
    yield element("circle", cx=left + 275, cy=y, r=4, class_="dot")
    yield label(left + 285, y + 4, "largest")


def _error_row(
    output: OutputComparison, name: str, y: float, x: Scale, right: float
) -> Html:  # fmt: skip
    kind = output.outcome.value
    p50, p99, p999, largest = (
        x(v) if v is not None and math.isfinite(v) and v > 0 else None
        for v in (output.p50_abs, output.p99_abs, output.p999_abs, output.max_abs)
    )
    shapes: list[Child] = [
        element("title", f"{name}: {_told(output)}"),
        label(_LABEL - 12, y + 4, fitting(name, 30), "end"),
        element("path", d=f"M{_LABEL} {y}H{right}", class_="grid"),
    ]
    start = p50 if p50 is not None else _LABEL
    end = p999 or p99
    if end is not None:
        shapes.append(element("path", d=f"M{start:.1f} {y}H{end:.1f}", class_="whisker"))
    if p99 is not None:
        shapes.append(
            element(
                "rect", x=start, y=y - 4, width=max(p99 - start, 2), height=8, rx=2, class_="half"
            )
        )
    shapes.append(element("circle", cx=largest, cy=y, r=4, class_=f"dot {kind}"))
    shapes.append(label(right + 12, y + 4, number(output.max_abs)))
    return element("g", shapes)


def _told(output: OutputComparison) -> str:
    named = (
        ("median", output.p50_abs), ("99 %", output.p99_abs), ("99.9 %", output.p999_abs),
        ("largest", output.max_abs),
    )  # fmt: skip
    return ", ".join(f"{name} {number(value)}" for name, value in named if value is not None)


def intervals(timings: Sequence[LatencyComparison], names: Sequence[str]) -> Html:
    """Return the change of each timing with its interval, its sessions and what is allowed."""
    shown = list(zip(timings, names, strict=True))[:_MOST_ROWS]
    ends = [100 * (v - 1) for t, _ in shown for v in (t.ratio_low, t.ratio_high, *t.session_ratios)]
    ends += [100 * t.max_regression for t, _ in shown]
    finite = [v for v in ends if math.isfinite(v)]
    low, high = min([*finite, 0.0]), max([*finite, 1.0])
    low, high = max(low, -100.0), min(high, 900.0)
    pad = 0.06 * (high - low)
    low, high = low - pad, high + pad
    left, right, top = _LABEL, _WIDTH - 150, 34
    ground = top + len(shown) * (_ROW + 4)

    def x(change: float) -> float:
        return left + (right - left) * (min(max(change, low), high) - low) / (high - low)

    shapes: list[Child] = []
    for tick in _ticks(low, high):
        shapes.append(element("path", d=f"M{x(tick):.1f} {top}V{ground}", class_="grid"))
        shapes.append(label(x(tick), ground + 18, f"{tick:+g} %" if tick else "0", "middle"))
    shapes.append(element("path", d=f"M{x(0):.1f} {top - 6}V{ground}", class_="axis"))
    for place, (timing, name) in enumerate(shown):
        shapes.append(_interval(timing, name, top + place * (_ROW + 4), x, right))
    margins = any(timing.margin > timing.max_regression for timing, _ in shown)
    shapes += _interval_legend(left, margins=margins)
    return _picture(
        ground + 28, "Change of latency, candidate against baseline, with what is allowed.", shapes
    )


def _interval(timing: LatencyComparison, name: str, top: float, x: Scale, right: float) -> Html:
    y = top + _ROW / 2 + 2
    allowed = x(100 * timing.max_regression)
    ends = [x(100 * (v - 1)) for v in (timing.ratio_low, timing.ratio, timing.ratio_high)]
    words = f"{percent(timing.ratio)}  [{percent(timing.ratio_low)}, {percent(timing.ratio_high)}]"
    shapes: list[Child] = [
        element("title", f"{name}: {words}, allowed {100 * timing.max_regression:+g} %"),
        element(
            "rect",
            x=_LABEL,
            y=top + 4,
            width=max(allowed - _LABEL, 0),
            height=_ROW - 4,
            class_="allowed",
        ),
        element("path", d=f"M{allowed:.1f} {top + 4}v{_ROW - 4}", class_="limit"),
        label(_LABEL - 12, y + 4, fitting(name, 30), "end"),
    ]
    if timing.margin > timing.max_regression:
        at = x(100 * timing.margin)
        shapes.append(element("path", d=f"M{at:.1f} {top + 4}v{_ROW - 4}", class_="margin"))
    for ratio in timing.session_ratios[:64]:
        at = x(100 * (ratio - 1))
        shapes.append(element("path", d=f"M{at:.1f} {y - 8}v4", class_="session"))
    kind = timing.outcome.value
    shapes += [
        _whiskers(ends[0], ends[2], y, f"interval {kind}"),
        element("circle", cx=ends[1], cy=y, r=4, class_=f"dot {kind}"),
        label(right + 12, y + 4, f"{percent(timing.ratio)}, {_outcome(timing)}"),
    ]  # fmt: skip
    return element("g", shapes)


def _whiskers(start: float, end: float, y: float, kind: str) -> Html:
    ends = f"M{start:.1f} {y - 4}v8 M{end:.1f} {y - 4}v8"
    return element("path", d=f"M{start:.1f} {y}H{end:.1f} {ends}", class_=kind)


def _outcome(timing: LatencyComparison) -> str:
    words = {Outcome.PASS: "pass", Outcome.FAIL: "fail", Outcome.INCONCLUSIVE: "inconclusive"}
    return words[timing.outcome]


def _interval_legend(left: float, *, margins: bool) -> Iterator[Html]:
    y = 14
    yield element("rect", x=left, y=y - 7, width=26, height=14, class_="allowed")
    yield element("path", d=f"M{left + 26} {y - 7}v14", class_="limit")
    yield label(left + 36, y + 4, "allowed")
    yield _whiskers(left + 106, left + 136, y, "interval")
    yield element("circle", cx=left + 121, cy=y, r=4, class_="dot")
    yield label(left + 146, y + 4, "change and its interval")
    yield element("path", d=f"M{left + 306} {y - 2}v4", class_="session")
    yield label(left + 314, y + 4, "a session")
    if margins:
        yield element("path", d=f"M{left + 390} {y - 7}v14", class_="margin")
        yield label(left + 398, y + 4, "too slow beyond")


def shares(parts: Sequence[tuple[str, int]]) -> Html:
    """Return how many nodes each provider has, as parts of one bar."""
    total = sum(count for _, count in parts) or 1
    shapes: list[Child] = []
    at = 0.0
    for place, (name, count) in enumerate(parts):
        wide = _WIDTH * count / total
        kind = f"share p{min(place, 4)}"
        shapes.append(
            element("rect", x=at, y=0, width=max(wide - 2, 1), height=26, rx=3, class_=kind)
        )
        words = f"{count:,} {name}"
        words = words if cells(words) * 7.5 < wide - 12 else f"{count:,}"
        if wide > 40:
            shapes.append(label(at + 8, 18, words, "start", "inside"))
        at += wide
    told = ", ".join(f"{count:,} on {name}" for name, count in parts)
    return _picture(26, f"Nodes by provider: {told}", shapes)


def label(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> Html:
    """Return a text at a place; `anchor` is what of it stands there."""
    return element(
        "text", words, x=x, y=y, text_anchor=anchor if anchor != "start" else None,
        class_=kind or None,
    )  # fmt: skip


def _picture(height: float, told: str, shapes: Sequence[Child]) -> Html:
    drawn = element(
        "svg", shapes, viewBox=f"0 0 {_WIDTH} {height:g}", role="img", aria_label=told,
        class_="plot",
    )  # fmt: skip
    return element("div", drawn, class_="scroll")


def _ticks(low: float, high: float) -> list[float]:
    span = high - low
    size = 10.0 ** math.floor(math.log10(span / 8))
    step = next(k * size for k in (1, 2, 5, 10) if span / (k * size) <= 9)
    return [round(k * step, 6) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _power(power: int) -> str:
    return f"{10.0**power:,g}" if -3 <= power <= 3 else f"10{str(power).translate(_SUPERSCRIPTS)}"
