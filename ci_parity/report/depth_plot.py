"""Error by depth as a picture: how far tensors on the way are off, in noise floors.

A self-contained SVG in the reader's own colour scheme, without script, link or font. It is written
by hand: a plotting library would enlarge the image by tens of megabytes for this one picture. Names
come from models: they are shortened, made visible and quoted.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ci_parity.base.escape import visible
from ci_parity.records.divergence import DepthPoint, Divergence
from ci_parity.report.divergence_words import deviation
from ci_parity.report.fitting import cells, fitting
from ci_parity.report.words import number

RMS_LIMIT, LARGEST_LIMIT = 4.0, 64.0
"""What an output may differ by, in noise floors; those of `compare.noise`."""

_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 806, 116, 312
_ZERO, _UNKNOWN, _TICKS = 332, 352, 377
_MARGIN, _INSET, _INLINE_TOP = 24, 14, 62
_MOST_TICKS = 8
_LOWEST = -3
# The longest texts, in cells of a letter's width, and the width of a cell of bold text.
_HEADING_CELLS, _SENTENCE_CELLS, _OPERATOR_CELLS, _TENSOR_CELLS = 88, 124, 20, 48
_BOLD_CELL = 7.6
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# XML has no way to write these, not even as references.
_NO_XML = str.maketrans({"\ufffe": "\ufffd", "\uffff": "\ufffd"})
_STYLE = """\
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;fill:#59636e}
.page{fill:#fff;stroke:#d1d9e0}.lane{fill:#f6f8fa}.grid{stroke:#e3e8ed}.axis{stroke:#818b98}
.title{font-size:15px;font-weight:600;fill:#1f2328}.guilt{fill:#cf222e;fill-opacity:.1}
.at{font-weight:600;fill:#cf222e}.ring{fill:none;stroke:#cf222e;stroke-width:2}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.limit{stroke-dasharray:5 4;stroke-opacity:.8}
.max{stroke:#bc4c00}.maxfill{fill:#bc4c00}.rms{stroke:#0969da}.rmsfill{fill:#0969da}
.none{fill:#fff;stroke:#818b98;stroke-width:1.5}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}.page{fill:#0d1117;stroke:#3d444d}.lane{fill:#151b23}.grid{stroke:#262c36}
.axis{stroke:#656c76}.title{fill:#f0f6fc}.guilt{fill:#f85149;fill-opacity:.16}.at{fill:#ff7b72}
.ring{stroke:#ff7b72}.max{stroke:#f0883e}.maxfill{fill:#f0883e}.rms{stroke:#58a6ff}
.rmsfill{fill:#58a6ff}.none{fill:#0d1117;stroke:#9198a1}
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """Where positions and noise floors are drawn.

    `first` and `last` are positions, `low` and `high` powers of ten; what is less stands at the
    lowest. Nought has a lane of its own below the powers, what has no noise floor another one.
    """

    first: int
    last: int
    low: int
    high: int

    def x(self, position: int) -> float:
        if self.first == self.last:
            return (_LEFT + _RIGHT) / 2
        left, right = _LEFT + _INSET, _RIGHT - _INSET
        return left + (right - left) * (position - self.first) / (self.last - self.first)

    def y(self, noise: float | None) -> float:
        noise = _finite(noise)
        if noise is None:
            return _UNKNOWN
        if noise <= 0:
            return _ZERO
        above = max(math.log10(noise) - self.low, 0.0)
        return _BOTTOM - (_BOTTOM - _TOP) * above / (self.high - self.low)


def render(divergence: Divergence) -> str:
    """Return the picture of a divergence's depths as the text of an SVG file."""
    page = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    heading = (
        f"<style>{_STYLE}</style>",
        f'<rect class="page" x=".5" y=".5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="8"/>',
        _text(_MARGIN, 32, fitting(_heading(divergence), _HEADING_CELLS), "title"),
        _text(_MARGIN, 53, fitting(divergence.sentence, _SENTENCE_CELLS, end=0)),
    )
    return _drawn(divergence, page, "", heading)


def inline(divergence: Divergence, prefix: str) -> str:
    """Return the picture as a part of a page, which has its heading and the style of its classes.

    Args:
        divergence: with depths.
        prefix: what its identifiers begin with, which no others on the page do.
    """
    box = f'viewBox="0 {_INLINE_TOP} {_WIDTH} {_HEIGHT - _INLINE_TOP}" class="depth"'
    return _drawn(divergence, box, prefix, ())


def _drawn(divergence: Divergence, page: str, prefix: str, heading: Sequence[str]) -> str:
    points = sorted(divergence.depth, key=lambda point: point.position)
    axes = _axes(points)
    described = f'role="img" aria-labelledby="{prefix}title {prefix}description"'
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {page} {described}>',
        *_words(divergence, points, prefix),
        *heading,
        *_legend(points),
        *_horizontal(axes),
        *_vertical(axes),
        *_guilty(axes, points),
        *_series(axes, points),
        "</svg>",
    )
    return "\n".join(parts) + "\n"


def _axes(points: Sequence[DepthPoint]) -> _Axes:
    noises = (_finite(v) for point in points for v in (point.max_noise, point.rms_noise))
    powers = [math.log10(v) for v in (1.0, LARGEST_LIMIT, *noises) if v is not None and v > 0]
    positions = [point.position for point in points] or [0]
    return _Axes(
        first=min(positions), last=max(positions), high=math.ceil(max(powers)),
        low=max(min(math.floor(min(powers)), -1), _LOWEST),
    )  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _heading(found: Divergence) -> str:
    parts = (found.target, found.variant, found.boundary, found.case)
    where = " / ".join(part for part in parts if part)
    return f"Error by depth: {where}" if where else "Error by depth"


def _words(found: Divergence, points: Sequence[DepthPoint], prefix: str) -> Iterator[str]:
    """Yield what a screen reader says."""
    largest = [noise for point in points if (noise := _finite(point.max_noise)) is not None]
    said = [f"{len(points)} tensors in the order of the graph, differences in noise floors."]
    said += [f"The largest is {number(max(largest))}."] if largest else []
    said += [f"At fault: {_told(point)}." for point in points if point.guilty][:4]
    said.append(visible(found.sentence, 600))
    yield f'<title id="{prefix}title">{_quoted(visible(_heading(found), 300))}</title>'
    yield f'<desc id="{prefix}description">{_quoted(" ".join(said))}</desc>'


def _told(point: DepthPoint) -> str:
    """Return all that is known of a point, for those who point at it."""
    figures = f"difference {deviation(point)}"
    if _finite(point.max_noise) is not None:
        figures = f"largest {number(point.max_noise)}, RMS {number(point.rms_noise)} x noise"
    name = f"{visible(point.op_type, 40)}, {visible(point.tensor, 120)}"
    return f"node {point.position}, {name}: {figures}"


def _legend(points: Sequence[DepthPoint]) -> Iterator[str]:
    y = 78
    yield f'<circle class="maxfill" cx="{_LEFT + 4}" cy="{y - 4}" r="4"/>'
    yield _text(_LEFT + 14, y, "largest difference")
    yield _square(_LEFT + 146, y - 4, 4)
    yield _text(_LEFT + 157, y, "root mean square (RMS)")
    yield f'<path class="axis limit" d="M{_LEFT + 314} {y - 4}h24"/>'
    yield _text(_LEFT + 345, y, "what an output may differ by")
    if any(_finite(point.max_noise) is None for point in points):
        yield f'<circle class="none" cx="{_LEFT + 552}" cy="{y - 4}" r="4"/>'
        yield _text(_LEFT + 562, y, "has no noise floor")


def _horizontal(axes: _Axes) -> Iterator[str]:
    """Yield the powers of ten, the lanes below them and the limits."""
    yield f'<rect class="lane" x="{_LEFT}" y="{_ZERO - 12}" width="{_RIGHT - _LEFT}" height="44"/>'
    step = -(-(axes.high - axes.low) // _MOST_TICKS)
    for power in range(axes.low, axes.high + 1, step):
        y = axes.y(10.0**power)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        yield _text(_LEFT - 10, y + 4, _power(power), anchor="end")
    yield _text(_LEFT - 10, _ZERO + 4, "equal", anchor="end")
    yield _text(_LEFT - 10, _UNKNOWN + 4, "no floor", anchor="end")
    yield f'<g transform="translate(20 {(_TOP + _BOTTOM) // 2}) rotate(-90)">'
    yield _text(0, 0, "x noise floor", anchor="middle") + "</g>"
    free = 0.0
    for limit, kind, name in ((LARGEST_LIMIT, "max", "largest"), (RMS_LIMIT, "rms", "RMS")):
        y = axes.y(limit)
        yield f'<path class="limit {kind}" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        yield _text(_RIGHT + 10, max(y + 4, free), f"{number(limit)} {name}", f"{kind}fill")
        free = y + 18


def _power(power: int) -> str:
    if power == _LOWEST:
        return "≤ 0.001"
    return f"{10.0**power:g}" if power <= 3 else f"10{str(power).translate(_SUPERSCRIPTS)}"


def _vertical(axes: _Axes) -> Iterator[str]:
    for position in _round_steps(axes.first, axes.last):
        x = axes.x(position)
        yield f'<path class="axis" d="M{x:.1f} {_UNKNOWN + 12}v5"/>'
        yield _text(x, _TICKS + 4, str(position), anchor="middle")
    yield f'<path class="axis" d="M{_LEFT} {_UNKNOWN + 12}H{_RIGHT}"/>'
    middle = (_LEFT + _RIGHT) / 2
    yield _text(middle, _TICKS + 25, "node, in the order of the search", anchor="middle")


def _round_steps(first: int, last: int) -> Sequence[int]:
    """Return at most a dozen round numbers between two."""
    span = max(last - first, 1)
    size = 10 ** max(math.floor(math.log10(span)) - 1, 0)
    step = next(k * size for k in (1, 2, 5, 10, 20) if span / (k * size) <= 10)
    return range(-(-first // step) * step, last + 1, step) or [first]


def _guilty(axes: _Axes, points: Sequence[DepthPoint]) -> Iterator[str]:
    """Yield a band over the tensors at fault, a ring about each, and the first one's name."""
    guilty = [point for point in points if point.guilty]
    if not guilty:
        return
    left, right = axes.x(guilty[0].position), axes.x(guilty[-1].position)
    height = _UNKNOWN + 12 - _TOP + 8
    yield (
        f'<rect class="guilt" x="{left - 8:.1f}" y="{_TOP - 8}" width="{right - left + 16:.1f}" '
        f'height="{height}" rx="3"/>'
    )
    for point in guilty:
        x, y = axes.x(point.position), axes.y(point.max_noise)
        yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>'
    more = f" and {len(guilty) - 1} more" if len(guilty) > 1 else ""
    operator = fitting(guilty[0].op_type, _OPERATOR_CELLS)
    label = f"at fault: {operator} → {fitting(guilty[0].tensor, _TENSOR_CELLS)}{more}"
    width = _BOLD_CELL * cells(label)
    if left < (_LEFT + _RIGHT) / 2:
        yield _text(min(left - 8, _WIDTH - _MARGIN - width), _TOP - 14, label, "at")
    else:
        yield _text(max(right + 8, _MARGIN + width), _TOP - 14, label, "at", anchor="end")


def _series(axes: _Axes, points: Sequence[DepthPoint]) -> Iterator[str]:
    def largest(point: DepthPoint) -> float | None:
        return point.max_noise

    def rms(point: DepthPoint) -> float | None:
        return point.rms_noise

    yield from _line(axes, points, rms, "rms")
    yield from _line(axes, points, largest, "max")
    for point in points:
        x = axes.x(point.position)
        marks = [f"<title>{_quoted(_told(point))}</title>"]
        if _finite(point.rms_noise) is not None:
            marks.append(_square(x, axes.y(point.rms_noise), 3.5))
        kind, size = ("none", 4) if _finite(point.max_noise) is None else ("maxfill", 3.5)
        y = axes.y(point.max_noise)
        marks.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>')
        yield f"<g>{''.join(marks)}</g>"


def _line(
    axes: _Axes, points: Sequence[DepthPoint], value: Callable[[DepthPoint], float | None],
    kind: str,
) -> Iterator[str]:  # fmt: skip
    known = [point for point in points if _finite(value(point)) is not None]
    path = " ".join(f"{axes.x(p.position):.1f},{axes.y(value(p)):.1f}" for p in known)
    if len(known) > 1:
        yield f'<polyline class="line {kind}" points="{path}"/>'


def _square(x: float, y: float, half: float) -> str:
    return (
        f'<rect class="rmsfill" x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half:g}" '
        f'height="{2 * half:g}"/>'
    )


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    of = f' class="{kind}"' if kind else ""
    of += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of}>{_quoted(text)}</text>'


def _quoted(text: str) -> str:
    return escape(text.translate(_NO_XML))
