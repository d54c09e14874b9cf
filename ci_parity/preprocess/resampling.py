"""Sizes that a resize policy leads to, and pixels of that size.

With antialias Pillow resamples. Without, pixels are sampled as OpenCV's `resize` does for 8-bit
pictures, in its fixed-point arithmetic (modules/imgproc/src/resize.cpp): Pillow has no such mode,
and a whole OpenCV for three small filters would be ten times the size of everything else.
"""

import math
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.preprocess.model import Resize, Size
from ci_parity.preprocess.steps import Array, library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_PIXELS = 64 * 2**20
_ONE = 1 << 11
_CUBIC = -0.75
_ROUNDED: "Mapping[str, Callable[[float], int]]" = {
    "floor": math.floor, "nearest": round, "ceil": math.ceil,
}  # fmt: skip


def resized(pixels: Array, resize: Resize) -> Array:
    """Return 8-bit pixels [rows, columns, channels] in the size of the policy.

    Raises:
        EvidenceError: the result would have more than 64 Mi pixels.
    """
    height, width = target_size(resize, (pixels.shape[0], pixels.shape[1]))
    if height * width > MAX_PIXELS:
        raise EvidenceError(
            f"resizing would make {height} x {width} pixels, more than {MAX_PIXELS:,}",
            where="the raw input",
            remedy="replace the picture, or bound it with max_side",
        )
    if (height, width) == pixels.shape[:2]:
        return pixels
    if resize.antialias:
        return _by_pillow(pixels, (height, width), resize.filter)
    return _SAMPLERS[resize.filter](pixels, (height, width))


def target_size(resize: Resize, size: Size) -> Size:
    """Return the size that a picture of `size` gets."""
    found = _followed(resize, size) if _applies(resize, size) else size
    if resize.multiple > 1:
        rounded = _ROUNDED[resize.multiple_rounding]
        step = resize.multiple
        found = (
            max(1, rounded(found[0] / step)) * step,
            max(1, rounded(found[1] / step)) * step,
        )
    return found


def _applies(resize: Resize, size: Size) -> bool:
    if resize.when == "always":
        return True
    (height, width), (high, wide) = size, resize.size
    ratio = {
        "shortest": high / min(size), "longest": high / max(size),
        "height": high / height, "width": wide / width,
    }.get(resize.policy, min(high / height, wide / width))  # fmt: skip
    return ratio > 1 if resize.when == "smaller" else ratio < 1


def _followed(resize: Resize, size: Size) -> Size:
    height, width = size
    high, wide = resize.size
    policy = resize.policy
    if policy == "exact":
        return resize.size
    if policy == "fit":
        ratio = min(high / height, wide / width)
        rounded = _ROUNDED[resize.rounding]
        return max(1, rounded(height * ratio)), max(1, rounded(width * ratio))
    if policy in ("shortest", "longest"):
        policy = "height" if (height <= width) == (policy == "shortest") else "width"
    if policy == "height":
        return high, _side(resize, high * width / height)
    return _side(resize, wide * height / width), wide


def _side(resize: Resize, length: float) -> int:
    side = max(1, _ROUNDED[resize.rounding](length))
    return side if resize.max_side is None else min(side, resize.max_side)


def _by_pillow(pixels: Array, size: Size, name: str) -> Array:
    import numpy as np

    image = library("PIL.Image")
    mode = getattr(image.Resampling, name.upper())
    grey = pixels.shape[2] == 1
    picture = image.fromarray(pixels[..., 0] if grey else pixels)
    made = np.asarray(picture.resize((size[1], size[0]), mode))
    return made[..., None] if grey else made


def _nearest(pixels: Array, size: Size) -> Array:
    rows, columns = (_floors(pixels.shape[axis], size[axis]) for axis in (0, 1))
    return pixels[rows][:, columns]


def _floors(old: int, new: int) -> Array:
    import numpy as np

    floors: Array = np.floor(np.arange(new) * (old / new)).astype(np.intp)
    return np.minimum(floors, old - 1)


def _bilinear(pixels: Array, size: Size) -> Array:
    import numpy as np

    height, width = pixels.shape[:2]
    if (height, width) == (2 * size[0], 2 * size[1]):
        blocks = pixels.reshape(size[0], 2, size[1], 2, -1).astype(np.int32)
        means: Array = (blocks.sum(axis=(1, 3)) + 2) >> 2
        return means.astype(np.uint8)
    rows, by_row = _taps(height, size[0], _linear_weights)
    columns, by_column = _taps(width, size[1], _linear_weights, clamp=True)
    # 255 * 2048 * 2048 / 16 stays below 2^31.
    across = _weighted(pixels, columns, by_column).astype(np.int32)
    one, two = (across[rows[:, tap]] >> 4 for tap in (0, 1))
    top, bottom = (by_row[:, tap, None, None].astype(np.int32) for tap in (0, 1))
    mixed = (((top * one) >> 16) + ((bottom * two) >> 16) + 2) >> 2
    return np.asarray(np.clip(mixed, 0, 255).astype(np.uint8))


def _bicubic(pixels: Array, size: Size) -> Array:
    import numpy as np

    rows, by_row = _taps(pixels.shape[0], size[0], _cubic_weights)
    columns, by_column = _taps(pixels.shape[1], size[1], _cubic_weights)
    across = _weighted(pixels, columns, by_column)
    # Of both signs the weights add up to more than one: 64 bits.
    mixed = sum(by_row[:, tap, None, None] * across[rows[:, tap]] for tap in range(4))
    half = 1 << 21
    return np.clip((mixed + half) >> 22, 0, 255).astype(np.uint8)


def _weighted(pixels: Array, columns: Array, weights: Array) -> Array:
    """Mix columns by their weights into whole numbers 2048 times as large."""
    import numpy as np

    return np.asarray(
        sum(
            weights[None, :, tap, None].astype(np.int32) * pixels[:, columns[:, tap]]
            for tap in range(weights.shape[1])
        )
    )


def _taps(
    old: int, new: int, weigh: "Callable[[Array], Array]", *, clamp: bool = False
) -> tuple[Array, Array]:
    """Return which old samples each new one mixes, and by which whole weights, 2048 being one.

    With `clamp` a sample beyond the border is the border's own, not a mix of it with itself.
    """
    import numpy as np

    place = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(place).astype(np.intp)
    part = (place - first).astype(np.float32)
    if clamp:
        outside = (first < 0) | (first >= old - 1)
        part[outside] = 0
        first = np.clip(first, 0, old - 1)
    weights = weigh(part)
    before = weights.shape[1] // 2 - 1
    taps = first[:, None] + np.arange(-before, weights.shape[1] - before)[None]
    return np.clip(taps, 0, old - 1), np.rint(weights * _ONE).astype(np.int64)


def _linear_weights(part: Array) -> Array:
    import numpy as np

    return np.stack([1 - part, part], axis=1)


def _cubic_weights(part: Array) -> Array:
    """Return Keys' weights with the parameter of OpenCV, -0.75; Pillow's is -0.5."""
    import numpy as np

    a, x = np.float32(_CUBIC), part
    far = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    other = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1
    return np.stack([far, near, other, 1 - far - near - other], axis=1)


_SAMPLERS: "Mapping[str, Callable[[Array, Size], Array]]" = {
    "nearest": _nearest, "bilinear": _bilinear, "bicubic": _bicubic,
}  # fmt: skip
