"""Pictures: every step against NumPy by hand, or against another reading of the same rule."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ci_parity.preprocess.execute import apply, walk
from ci_parity.preprocess.model import Resize
from ci_parity.preprocess.resampling import resized, target_size
from tests.support.raw_inputs import encoded, picture, pixels, write_pipeline


def rebuilt(folder: Path, raw: bytes, steps: str = "[]", rest: str = "") -> np.ndarray:
    """Return the tensor of a picture's pipeline with these steps."""
    pipeline = write_pipeline(folder, f"image:\n  input: x\n  steps: {steps}\n{rest}")
    return np.asarray(apply(pipeline, raw)["x"])


def test_without_steps_the_tensor_is_the_pixels(tmp_path: Path) -> None:
    """Channels first, a batch of one, float32; nothing is scaled unless it is said."""
    array = pixels(5, 7)
    made = rebuilt(tmp_path, encoded(array))
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, array.transpose(2, 0, 1)[None])


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("  decode: {channels: BGR}", lambda a: a[..., ::-1].transpose(2, 0, 1)[None]),
        ("  layout: NHWC", lambda a: a[None]),
        ("  batch: false", lambda a: a.transpose(2, 0, 1)),
        ("  dtype: int8", lambda a: np.minimum(a, 127).transpose(2, 0, 1)[None]),
        ("  dtype: float64", lambda a: a.astype(np.float64).transpose(2, 0, 1)[None]),
    ],
)
def test_the_outer_form(tmp_path: Path, rest: str, expected: object) -> None:
    """Channel order, layout, batch and element type, each alone."""
    array = pixels(6, 4)
    made = rebuilt(tmp_path, encoded(array), rest=rest)
    assert callable(expected)
    np.testing.assert_array_equal(made, expected(array))


def test_grey_has_one_channel_by_the_weights_of_itu_601(tmp_path: Path) -> None:
    """0.299 red, 0.587 green, 0.114 blue, to a whole level."""
    array = pixels(9, 8)
    made = rebuilt(tmp_path, encoded(array), rest="  decode: {channels: grey}")
    luma = array.astype(np.float64) @ [0.299, 0.587, 0.114]
    assert made.shape == (1, 1, 9, 8)
    assert np.abs(made[0, 0] - luma).max() <= 1


@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (3, 2), (6, 3), (8, 1)])
def test_exif_orientation_turns_the_picture(tmp_path: Path, orientation: int, turns: int) -> None:
    """6 needs a quarter turn clockwise, 8 one against it, 3 both; ignored, none."""
    array = pixels(16, 24)
    raw = encoded(array, "PNG", orientation=orientation)
    made = rebuilt(tmp_path, raw, rest="  layout: NHWC")
    np.testing.assert_array_equal(made[0], np.rot90(array, turns))
    ignored = rebuilt(tmp_path, raw, rest="  layout: NHWC\n  decode: {exif: false}")
    np.testing.assert_array_equal(ignored[0], array)


def test_transparent_parts_show_the_background(tmp_path: Path) -> None:
    """Without a background the colour below the transparency stays."""
    array = np.zeros((2, 2, 4), np.uint8)
    array[..., 0], array[0, :, 3] = 200, 255
    raw = encoded(array)
    ground = rebuilt(tmp_path, raw, rest="  layout: NHWC\n  decode: {background: [0, 0, 90]}")
    assert ground[0, 0, 0].tolist() == [200, 0, 0]
    assert ground[0, 1, 0].tolist() == [0, 0, 90]
    dropped = rebuilt(tmp_path, raw, rest="  layout: NHWC")
    assert dropped[0, 1, 0].tolist() == [200, 0, 0]


def test_scale_and_statistics_are_float32_arithmetic(tmp_path: Path) -> None:
    """(x / 255 - mean) / std, each operation rounded to float32, as NumPy does it by hand."""
    array = pixels(8, 9)
    steps = "[{scale: {divide: 255}}, {normalise: {mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.1]}}]"
    made = rebuilt(tmp_path, encoded(array), steps, "  layout: NHWC")
    mean, std = np.array([0.4, 0.5, 0.6], np.float32), np.array([0.2, 0.3, 0.1], np.float32)
    np.testing.assert_array_equal(made[0], (array.astype(np.float32) / 255 - mean) / std)


@pytest.mark.parametrize(("side", "top", "left"), [("end", 0, 0), ("start", 3, 5), ("both", 1, 2)])
def test_padding_goes_to_its_side(tmp_path: Path, side: str, top: int, left: int) -> None:
    """Of an odd border the end gets the larger half."""
    array = pixels(5, 7)
    steps = f"[{{pad: {{size: [8, 12], side: {side}, fill: [1, 2, 3]}}}}]"
    made = rebuilt(tmp_path, encoded(array), steps, "  layout: NHWC")[0]
    expected = np.tile(np.array([1, 2, 3], np.float32), (8, 12, 1))
    expected[top : top + 5, left : left + 7] = array
    np.testing.assert_array_equal(made, expected)


def test_padding_to_a_multiple(tmp_path: Path) -> None:
    """Up to the next one; a side that is one already stays."""
    made = rebuilt(tmp_path, encoded(pixels(16, 17)), "[{pad: {multiple: 8}}]")
    assert made.shape == (1, 3, 16, 24)


@pytest.mark.parametrize(("rounding", "top", "left"), [("floor", 2, 1), ("nearest", 2, 2)])
def test_a_crop_takes_the_middle(tmp_path: Path, rounding: str, top: int, left: int) -> None:
    """Of 5 and 3 spare pixels half go; nearest takes the even neighbour of 2.5 and 1.5."""
    array = pixels(9, 7)
    made = rebuilt(tmp_path, encoded(array), f"[{{crop: {{size: 4, rounding: {rounding}}}}}]")
    np.testing.assert_array_equal(made[0], array[top : top + 4, left : left + 4].transpose(2, 0, 1))


def test_a_crop_of_a_smaller_picture_is_filled_up(tmp_path: Path) -> None:
    """The picture stands in the middle, the fill around."""
    array = pixels(3, 9)
    made = rebuilt(tmp_path, encoded(array), "[{crop: {size: 5, fill: 9}}]")[0]
    np.testing.assert_array_equal(made[:, 1:4], array[:, 2:7].transpose(2, 0, 1))
    assert (made[:, [0, 4]] == 9).all()


@pytest.mark.parametrize(
    ("words", "size", "expected"),
    [
        ("policy: exact, size: [4, 6]", (10, 20), (4, 6)),
        ("policy: shortest, size: 5", (10, 21), (5, 10)),
        ("policy: shortest, size: 5", (21, 10), (10, 5)),
        ("policy: longest, size: 7", (10, 21), (3, 7)),
        ("policy: longest, size: 7, rounding: ceil", (10, 21), (4, 7)),
        ("policy: fit, size: [10, 30]", (20, 20), (10, 10)),
        ("policy: height, size: 48, rounding: ceil, max_side: 192", (20, 61), (48, 147)),
        ("policy: height, size: 48, rounding: ceil, max_side: 192", (20, 99), (48, 192)),
        ("policy: width, size: 30, rounding: nearest", (7, 20), (10, 30)),
        ("policy: shortest, size: 736, when: smaller, multiple: 32", (800, 1001), (800, 992)),
        ("policy: shortest, size: 736, when: smaller, multiple: 32", (100, 200), (736, 1472)),
        ("policy: longest, size: 16, when: larger", (9, 12), (9, 12)),
        ("size: 16, multiple: 32, multiple_rounding: floor", (9, 12), (32, 32)),
    ],
)
def test_the_size_a_policy_leads_to(
    tmp_path: Path, words: str, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    """Worked out by hand from each policy's rule."""
    pipeline = write_pipeline(tmp_path, f"image: {{input: x, steps: [{{resize: {{{words}}}}}]}}")
    step = getattr(pipeline.kind, "steps")[0]  # noqa: B009 - a picture's pipeline has steps
    assert target_size(step, size) == expected


@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"])
def test_antialiased_resampling_is_pillows(tmp_path: Path, name: str) -> None:
    """The same filter, by its name."""
    array = pixels(30, 40)
    made = rebuilt(tmp_path, encoded(array), f"[{{resize: {{size: [11, 17], filter: {name}}}}}]")
    mode = getattr(Image.Resampling, name.upper())
    expected = np.asarray(Image.fromarray(array).resize((17, 11), mode))
    np.testing.assert_array_equal(made[0].transpose(1, 2, 0), expected)


def sampled(name: str) -> Resize:
    """Return a resize whose size the test gives itself."""
    return Resize(
        policy="exact", size=(1, 1), when="always", filter=name, antialias=False,
        rounding="floor", multiple=1, multiple_rounding="nearest", max_side=None,
    )  # fmt: skip


def sample(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return bilinear samples at half-pixel centres in float64: the rule, not its fixed point."""
    places = [
        np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        for old, new in zip(array.shape, size, strict=False)
    ]
    (y0, fy), (x0, fx) = ((np.floor(p).astype(int), p - np.floor(p)) for p in places)
    y1, x1 = np.minimum(y0 + 1, array.shape[0] - 1), np.minimum(x0 + 1, array.shape[1] - 1)
    wide = array.astype(np.float64)
    fy, fx = fy[:, None, None], fx[None, :, None]
    top = wide[y0][:, x0] * (1 - fx) + wide[y0][:, x1] * fx
    bottom = wide[y1][:, x0] * (1 - fx) + wide[y1][:, x1] * fx
    return np.asarray(top * (1 - fy) + bottom * fy)


@given(
    height=st.integers(1, 40), width=st.integers(1, 40),
    size=st.tuples(st.integers(1, 50), st.integers(1, 50)), seed=st.integers(0, 99),
)  # fmt: skip
def test_sampling_without_antialias_stays_with_its_rule(
    height: int, width: int, size: tuple[int, int], seed: int
) -> None:
    """Fixed-point bilinear samples are the exact ones to a level."""
    array = pixels(height, width, seed)
    step = sampled("bilinear")
    made = resized(array, _to(step, size))
    assert np.abs(made - sample(array, size)).max() < 1


def _to(step: Resize, size: tuple[int, int]) -> Resize:
    return Resize(**{name: getattr(step, name) for name in Resize.__slots__} | {"size": size})


@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic"])
def test_a_flat_picture_stays_flat(name: str) -> None:
    """Weights of every sample add up to one."""
    array = np.full((7, 11, 3), 137, np.uint8)
    for size in ((3, 4), (20, 31), (7, 5)):
        made = resized(array, _to(sampled(name), size))
        assert made.shape == (*size, 3)
        assert (made == 137).all()


def test_steps_are_told_one_by_one(tmp_path: Path) -> None:
    """Each has its numbers; the last one is the input's."""
    pipeline = write_pipeline(
        tmp_path,
        "image: {input: x, steps: [{resize: {size: 8}}, {scale: {divide: 255}}]}\n"
        "constants: {rate: {dtype: int64, value: 16000}}",
    )
    told = [step.summary for step in walk(pipeline, picture(20, 30))]
    assert [step.name for step in told] == [
        "decode", "resize", "scale", "layout", "tensor", "constant",
    ]  # fmt: skip
    assert told[0].words == "PNG of 20 x 30, mode RGB, RGB"
    scaled = told[2].tensor
    assert scaled is not None
    assert scaled.shape == (8, 8, 3)
    assert scaled.maximum is not None
    assert scaled.maximum <= 1
