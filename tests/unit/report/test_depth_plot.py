import math
import unicodedata
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ci_parity.compare import noise
from ci_parity.records.divergence import DepthPoint
from ci_parity.report.depth_plot import LARGEST_LIMIT, RMS_LIMIT, render
from tests.unit.report.golden_files import assert_golden
from tests.unit.report.hostile import PAYLOADS, poisoned_divergence
from tests.unit.report.samples import depth_point, divergence

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {"svg", "title", "desc", "style", "rect", "text", "circle", "path", "polyline", "g"}
WIDTH, HEIGHT = 900, 420


def read(text: str) -> ET.Element:
    """Read a picture as XML, as strictly as a browser does."""
    return ET.fromstring(text)  # noqa: S314 - our own text, without entities


def drawn(*points: DepthPoint, **parts: Any) -> ET.Element:
    """Return the picture of a divergence with these points, read as XML."""
    return read(render(divergence(depth=points, **parts)))


def texts(picture: ET.Element) -> list[str]:
    """Return all that can be read in a picture."""
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def circles(picture: ET.Element, kind: str) -> list[tuple[float, float]]:
    """Return the centres of the circles of a kind, without that of the legend."""
    found = [c for c in picture.iter(f"{SVG}circle") if c.get("class") == kind]
    centres = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in found]
    return [centre for centre in centres if centre[1] > 100]


def test_a_picture_looks_as_accepted() -> None:
    """Shape for shape as in the golden file."""
    assert_golden("depth.svg", render(divergence()))


def test_the_limits_are_those_of_the_comparison() -> None:
    """A line at another height would tell a lie."""
    assert (RMS_LIMIT, LARGEST_LIMIT) == (noise.GROUP_LIMIT, noise.ELEMENT_LIMIT)


def test_larger_differences_stand_higher_by_the_same_step_each_power_of_ten() -> None:
    """And positions from left to right, whatever order they are given in."""
    points = [depth_point(at, 10.0**at) for at in range(5)]
    centres = circles(drawn(*reversed(points)), "maxfill")
    rises = [left[1] - right[1] for left, right in pairwise(centres)]
    steps = [right[0] - left[0] for left, right in pairwise(centres)]
    assert rises == pytest.approx([rises[0]] * 4, abs=0.2)
    assert rises[0] > 20
    assert steps == pytest.approx([steps[0]] * 4, abs=0.2)
    assert steps[0] > 100


def test_equal_tensors_and_those_without_a_floor_have_lanes_of_their_own() -> None:
    """Below every number, and apart from each other; no number stands for them."""
    picture = drawn(depth_point(0, 1e-9), depth_point(1, 0.0), depth_point(2, None))
    (tiny, equal), (unknown,) = circles(picture, "maxfill"), circles(picture, "none")
    assert tiny[1] < equal[1] < unknown[1]
    assert "has no noise floor" in texts(picture)
    assert "has no noise floor" not in texts(drawn(depth_point(0, 1.0)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_drawn_as_unknown(value: float) -> None:
    """No coordinate is one either."""
    text = render(divergence(depth=(depth_point(0, 1.0), depth_point(1, value))))
    picture = read(text)
    assert len(circles(picture, "none")) == 1
    shapes = text[text.index("</style>") :].lower()
    assert '"nan' not in shapes
    assert '"inf' not in shapes


def test_the_tensors_at_fault_are_marked_and_named() -> None:
    """A ring about each of them and nothing else, the first one's operator and name."""
    guilty = [depth_point(at, 500.0, guilty=True) for at in (2, 3)]
    picture = drawn(depth_point(0, 1.0), depth_point(1, 2.0), *guilty, depth_point(4, 90.0))
    assert circles(picture, "ring") == circles(picture, "maxfill")[2:4]
    assert "at fault: Gemm → hidden_2 and 1 more" in texts(picture)
    assert circles(drawn(depth_point(0, 1.0)), "ring") == []


def test_a_screen_reader_is_told_what_is_seen() -> None:
    """What it is of, how far it goes, what is at fault."""
    picture = read(render(divergence()))
    labels = [picture.find(f"{SVG}{kind}[@id]") for kind in ("title", "desc")]
    assert [label.attrib["id"] for label in labels if label is not None] == picture.attrib[
        "aria-labelledby"
    ].split()
    title, described = [label.text or "" for label in labels if label is not None]
    assert title == "Error by depth: cpu / exported / baseline→candidate / typical"
    assert "The largest is 4.1e+03." in described
    assert "At fault: node 9, Gemm, hidden_9" in described


@pytest.mark.parametrize(
    "noises",
    [[], [0.0], [0.0] * 10, [3.0], [0.0, 1.0, 1e12], [1e-300, 1e300], [None, None, None],
     [10.0 ** (at % 5) for at in range(48)]],
)  # fmt: skip
def test_every_series_stays_within_the_page(noises: list[float | None]) -> None:
    """One tensor, none, all equal, huge ones."""
    picture = drawn(*(depth_point(7 * at, noise) for at, noise in enumerate(noises)))
    for shape in picture.iter(f"{SVG}circle"):
        assert 0 < float(shape.attrib["cx"]) < WIDTH
        assert 0 < float(shape.attrib["cy"]) < HEIGHT
    for text in picture.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) < WIDTH
        assert 0 <= float(text.attrib["y"]) < HEIGHT
    drawn_points = circles(picture, "maxfill") + circles(picture, "none")
    assert len(drawn_points) == len(noises)


@pytest.mark.parametrize("position", range(9))
@pytest.mark.parametrize("name", ["n" * 10_000, "名" * 10_000])
def test_long_names_are_shortened_to_fit(name: str, position: int) -> None:
    """Wherever the tensor stands, its label lies on the page."""
    points = [
        depth_point(at, 9.0, guilty=at == position, tensor=name, op_type=name) for at in range(9)
    ]
    picture = drawn(*points, target=name, sentence=name)
    for text in picture.iter(f"{SVG}text"):
        wide = sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in text.text or "")
        cell = 7.6 if text.get("class") == "at" else 9 if text.get("class") == "title" else 6.8
        start = float(text.attrib["x"])
        ends = {"start": start + cell * wide, "end": start - cell * wide}
        assert 0 < ends.get(text.get("text-anchor", "start"), 1) < WIDTH
    assert len(render(divergence(depth=points))) < 60_000


@pytest.mark.parametrize("payload", [*PAYLOADS.values(), "\ud800\ufffe\uffff\x00"])
def test_no_text_acts_in_a_picture(payload: str) -> None:
    """It is XML of few elements; nothing in it runs, loads or links, whatever a model is called."""
    text = render(poisoned_divergence(payload))
    assert len(text.encode()) < 60_000
    picture = read(text)
    plain = read(render(poisoned_divergence("x")))
    kinds = [[shape.tag for shape in side.iter()] for side in (picture, plain)]
    assert kinds[0] == kinds[1]
    assert {tag.removeprefix(SVG) for tag in kinds[0]} <= ALLOWED
    for shape in picture.iter():
        assert not {name for name in shape.attrib if name.startswith("on") or "href" in name}
    seen = "".join(picture.itertext()).replace("\n", "")
    assert not {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"} & {unicodedata.category(c) for c in seen}
    assert "url(" not in text[: text.index("</style>")]


def test_both_colour_schemes_have_every_colour() -> None:
    """What is coloured in the light is coloured in the dark."""
    style = read(render(divergence())).findtext(f"{SVG}style") or ""
    light, _, dark = style.partition("@media (prefers-color-scheme:dark)")
    for kind in ("page", "lane", "grid", "axis", "title", "guilt", "at", "ring", "max", "rms"):
        assert f".{kind}{{" in light
        assert f".{kind}{{" in dark
