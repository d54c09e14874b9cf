"""An encoded picture to a tensor: decoded by Pillow, then the declared steps in their order.

Only common formats are opened, by their content; how many pixels there are is known and bounded
before one is decoded. Arithmetic is float32, as nearly all published preprocessing has it, and
float64 for a float64 tensor.
"""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ci_parity.base.errors import EvidenceError
from ci_parity.base.words import numbers
from ci_parity.preprocess.model import (
    Crop,
    Decode,
    ImagePipeline,
    ImageStep,
    Normalise,
    Pad,
    Resize,
    Scale,
    Size,
)
from ci_parity.preprocess.resampling import MAX_PIXELS, resized
from ci_parity.preprocess.steps import Array, Step, finished, library, refusing

if TYPE_CHECKING:
    from PIL.Image import Image

Shared: TypeAlias = "dict[Decode, tuple[Array, str]]"
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
LOSSY = ("JPEG", "WEBP")
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
_ORIENTATION = 0x0112
_BROKEN = (SyntaxError, TypeError, KeyError, IndexError, AttributeError, NotImplementedError,
           struct.error, zlib.error, ArithmeticError, RuntimeError)  # fmt: skip


def steps(pipeline: ImagePipeline, raw: bytes, shared: "Shared | None" = None) -> Iterator[Step]:
    """Yield every step of a picture; the last one is the tensor.

    Args:
        pipeline: what is done.
        raw: the picture's file.
        shared: keeps the first decoding for further pipelines of the same file.

    Raises:
        EvidenceError: the file is no such picture, is broken, or is too large.
        InfrastructureError: Pillow is not installed.
    """
    import numpy as np

    known = shared or {}
    pixels, words = known.get(pipeline.decode) or _decoded(pipeline.decode, raw)
    if shared is not None and not shared:
        shared[pipeline.decode] = pixels, words
    yield Step(name="decode", words=words, array=pixels)
    work = np.float64 if pipeline.dtype == "float64" else np.float32
    for step in pipeline.steps:
        if isinstance(step, Scale | Normalise):
            pixels = pixels.astype(work)
        pixels = changed(pixels, step)
        yield Step(name=type(step).__name__.lower(), words=_words(step, pixels), array=pixels)
    if pipeline.layout == "NCHW":
        pixels = pixels.transpose(2, 0, 1)
    yield Step(name="layout", words=f"axes in the order of {pipeline.layout[1:]}", array=pixels)
    yield finished(pipeline.input, pixels, batch=pipeline.batch, dtype=pipeline.dtype)


def is_lossy(raw: bytes) -> bool:
    """Say whether two right decoders may differ by a level: JPEG, and WebP, which may be lossy."""
    return raw[:3] == b"\xff\xd8\xff" or raw[:4] == b"RIFF"


def changed(pixels: Array, step: ImageStep) -> Array:
    """Return pixels [rows, columns, channels] after one step."""
    import numpy as np

    match step:
        case Resize():
            return resized(pixels, step)
        case Crop():
            return _cropped(pixels, step)
        case Pad():
            return _padded(pixels, _pad_size(step, pixels), step.side, step.fill)
        case Scale():
            factor = pixels.dtype.type(step.factor)
            return np.asarray(pixels / factor if step.divided else pixels * factor)
        case Normalise():
            mean = np.asarray(step.mean, pixels.dtype)
            return np.asarray((pixels - mean) / np.asarray(step.std, pixels.dtype))


def _decoded(decode: Decode, raw: bytes) -> tuple[Array, str]:
    image = library("PIL.Image")
    ops = library("PIL.ImageOps")
    with warnings.catch_warnings(), refusing("the picture cannot be decoded", *_BROKEN):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", image.DecompressionBombWarning)
        try:
            picture = image.open(io.BytesIO(raw), formats=FORMATS)
        except (image.DecompressionBombError, image.DecompressionBombWarning) as error:
            raise _too_large(str(error)) from error
        if picture.width * picture.height > MAX_PIXELS:
            raise _too_large(f"{picture.height} x {picture.width} pixels")
        if picture.mode not in _MODES:
            raise EvidenceError(
                f"a picture of mode {picture.mode} has no single 8-bit reading",
                where="the raw input",
                remedy="store it as 8-bit RGB or grey",
            )
        read = f"{picture.format} of {picture.height} x {picture.width}, mode {picture.mode}"
        picture.load()
        turned = ""
        if decode.exif and picture.getexif().get(_ORIENTATION, 1) != 1:
            picture, turned = ops.exif_transpose(picture), ", turned upright by EXIF"
        pixels = _converted(picture, decode)
    return (pixels[..., None] if pixels.ndim == 2 else pixels), f"{read}{turned}, {decode.channels}"


def _converted(picture: "Image", decode: Decode) -> Array:
    import numpy as np

    if decode.background is not None:
        image = library("PIL.Image")
        front = picture.convert("RGBA")
        under = image.new("RGBA", front.size, (*decode.background, 255))
        picture = image.alpha_composite(under, front)
    if decode.channels == "grey":
        return np.asarray(picture.convert("RGB").convert("L") if picture.mode != "L" else picture)
    pixels = np.asarray(picture.convert("RGB"))
    return np.ascontiguousarray(pixels[..., ::-1]) if decode.channels == "BGR" else pixels


def _too_large(what: str) -> EvidenceError:
    return EvidenceError(
        f"the picture is too large to be decoded: {what}",
        where="the raw input",
        remedy=f"store one of at most {MAX_PIXELS:,} pixels",
    )


def _cropped(pixels: Array, crop: Crop) -> Array:
    size = (max(pixels.shape[0], crop.size[0]), max(pixels.shape[1], crop.size[1]))
    if size != pixels.shape[:2]:
        pixels = _padded(pixels, size, "both", (crop.fill,), first=True)
    starts = []
    for axis in (0, 1):
        over = pixels.shape[axis] - crop.size[axis]
        starts.append(over // 2 if crop.rounding == "floor" else round(over / 2))
    top, left = starts
    return pixels[top : top + crop.size[0], left : left + crop.size[1]]


def _pad_size(pad: Pad, pixels: Array) -> Size:
    height, width = pixels.shape[:2]
    if pad.size is not None:
        return max(height, pad.size[0]), max(width, pad.size[1])
    step = pad.multiple or 1
    return -(-height // step) * step, -(-width // step) * step


def _padded(
    pixels: Array, size: Size, side: str, fill: tuple[float, ...], *, first: bool = False
) -> Array:
    """Return pixels with a border; of an odd one in the middle the end has more, or the start."""
    import numpy as np

    if size[0] * size[1] > MAX_PIXELS:
        raise _too_large(f"padding would make {size[0]} x {size[1]} pixels")
    over = [size[axis] - pixels.shape[axis] for axis in (0, 1)]
    shares = {"end": 0, "start": 1}
    before = [shares[side] * rest if side in shares else (rest + first) // 2 for rest in over]
    values = np.asarray(fill, np.float64)
    if pixels.dtype.kind == "u":
        values = np.clip(np.rint(values), 0, 255)
    made = np.empty((*size, pixels.shape[2]), pixels.dtype)
    made[...] = values.astype(pixels.dtype)
    rows = slice(before[0], before[0] + pixels.shape[0])
    made[rows, before[1] : before[1] + pixels.shape[1]] = pixels
    return made


def _words(step: ImageStep, pixels: Array) -> str:
    size = f"{pixels.shape[0]} x {pixels.shape[1]}"
    match step:
        case Resize():
            how = "" if step.antialias else ", without antialias"
            return f"{step.policy} to {size}, {step.filter}{how}"
        case Crop():
            return f"the middle, {size}"
        case Pad():
            return f"to {size}, padding at {step.side}, value {numbers(step.fill)}"
        case Scale():
            return f"{'divided' if step.divided else 'multiplied'} by {step.factor:g}"
        case Normalise():
            return f"mean {numbers(step.mean)}, std {numbers(step.std)}"
