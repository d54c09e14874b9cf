"""The scale of an output: its largest finite magnitude, channel by channel.

Read from the baseline alone, before it is compared; `allowance` takes fractions of it. Decides
which magnitudes count, not what may differ.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_parity.compare.metrics.bits import flat, largest_finite, raw, sign_bit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Floats = npt.NDArray[np.float64]

BLOCK = 1 << 15
_CHANNEL_ELEMENTS = 16
_CHANNEL_FLOOR = 1e-4
_SENTINEL = 1e4
_SENTINEL_GAP = 1e3
_SENTINEL_KINDS = 3


@dataclass(frozen=True, slots=True)
class Scales:
    """The largest finite magnitude of each channel; one value where there are no channels.

    `values` has shape [channels]; the channel of a flat position is `position // inner` modulo the
    number of channels.
    """

    values: "Floats"
    inner: int

    def at(self, start: int, count: int) -> "Floats | float":
        """Return the scale of each of `count` elements from flat position `start` on.

        float64 of shape [count], or one number where all have the same.
        """
        import numpy as np

        channels, inner = self.values.size, self.inner
        first, last = start // inner, (start + count - 1) // inner
        if channels == 1 or first == last:
            return float(self.values[first % channels])
        runs: Floats = self.values[np.arange(first, last + 1) % channels]
        if inner == 1:
            return runs
        lengths = np.full(runs.size, inner)
        lengths[:1] = (first + 1) * inner - start
        lengths[-1:] = start + count - last * inner
        return np.repeat(runs, lengths)


def scales_of(array: "Array", *, block: int = BLOCK) -> Scales:
    """Return the scales of a baseline's output, sentinels left out.

    Sentinels are magnitudes of 1e4 and more that stand a factor 1000 above everything else in their
    channel, as the -1e9 of a mask does among logits: on its scale any logit would pass for any
    other.
    """
    import numpy as np

    channels, inner = _channels(array)
    largest = _largest(array, np.full(channels, np.inf), inner, block)
    for _ in range(_SENTINEL_KINDS):
        if not (largest >= _SENTINEL).any():
            break
        rest = _largest(array, largest / 2, inner, block)
        lonely = (largest >= _SENTINEL) & (rest < largest / _SENTINEL_GAP)
        # Among zeros alone a sentinel leaves no scale: one is nearer than any sentinel.
        largest = np.where(lonely, np.where(rest > 0, rest, 1.0), largest)
    return _floored(largest, inner)


def channel_scales(array: "Array", *, block: int = BLOCK) -> Scales:
    """Return the largest finite magnitude of each channel; `block` elements are read at a time.

    Axis 1 counts as channels in outputs of rank 3 and more with at least 16 elements a slice; a
    channel far below the rest is floored at 1e-4 of the largest, where differences are noise.
    """
    import numpy as np

    channels, inner = _channels(array)
    return _floored(_largest(array, np.full(channels, np.inf), inner, block), inner)


def _channels(array: "Array") -> tuple[int, int]:
    """Return how many channels there are, and how many elements follow each other in one."""
    channels = array.shape[1] if array.ndim >= 3 else 1
    if channels < 2 or array.size < _CHANNEL_ELEMENTS * channels:
        return 1, max(array.size, 1)
    return channels, math.prod(array.shape[2:])


def _floored(largest: "Floats", inner: int) -> Scales:
    import numpy as np

    return Scales(np.maximum(largest, _CHANNEL_FLOOR * largest.max()), inner)


def _largest(array: "Array", below: "Floats", inner: int, block: int) -> "Floats":
    """Return the largest finite magnitude of each channel that is not above `below` there.

    Magnitudes are compared as integers.
    """
    import numpy as np

    elements = flat(array)
    dtype = elements.dtype if _is_plain(elements) else np.dtype(np.float64)
    limits = _bits_at_most(below, dtype)
    largest = np.zeros_like(limits)
    room = np.empty(min(block, elements.size), limits.dtype)
    with np.errstate(all="ignore"):
        for piece, channels in _pieces(elements, below.size, inner, block):
            magnitude = room[: piece.size].reshape(piece.shape)
            _read_magnitudes(piece, magnitude)
            found = _of_channels(magnitude)
            if (found > limits[channels]).any():
                magnitude[magnitude > limits[channels, None]] = 0
                found = _of_channels(magnitude)
            np.maximum(largest[channels], found, out=largest[channels])
    return largest.view(dtype).astype(np.float64)


def _is_plain(elements: "Array") -> bool:
    """Tell whether an element's own bits, without a sign, are those of its magnitude."""
    return elements.dtype.kind != "c" and sign_bit(elements.dtype) != 0


def _read_magnitudes(piece: "Array", out: "Array") -> None:
    """Set `out` to the bits of magnitudes, in the elements' own type if plain, else in float64."""
    import numpy as np

    if _is_plain(piece):
        np.bitwise_and(raw(piece), sign_bit(piece.dtype) - 1, out=out)
    else:
        wide = np.complex128 if piece.dtype.kind == "c" else np.float64
        np.copyto(out, np.abs(piece.astype(wide)).view(out.dtype))


def _of_channels(magnitude: "Array") -> "Array":
    """Reduce [repeats, channels, inner] to [channels]."""
    import numpy as np

    rows = magnitude[0] if len(magnitude) == 1 else np.maximum.reduce(magnitude, axis=0)
    found: Array = np.maximum.reduce(rows, axis=1)
    return found


def _bits_at_most(numbers: "Floats", dtype: "np.dtype[Any]") -> "Array":
    """Return the bits of the largest finite number of a type that is not above each number."""
    import numpy as np

    top = np.array([largest_finite(dtype)], raw(np.empty(0, dtype)).dtype)
    rounded = np.minimum(numbers, top.view(dtype).astype(np.float64)).astype(dtype)
    return raw(rounded) - (rounded.astype(np.float64) > numbers)


def _pieces(
    elements: "Array", channels: int, inner: int, block: int
) -> Iterator[tuple["Array", slice]]:
    """Yield pieces of shape [repeats, channels, inner] of at most `block` elements, in order.

    Each comes with the channels that it covers.
    """
    period = channels * inner
    if period <= block:
        size = block // period * period
        for start in range(0, elements.size, size):
            yield elements[start : start + size].reshape(-1, channels, inner), slice(None)
        return
    step, width = max(block // inner, 1), min(block, inner)
    for base in range(0, elements.size, period):
        for first in range(0, channels, step):
            rows = min(step, channels - first)
            row = elements[base + first * inner :][: rows * inner].reshape(1, rows, inner)
            for start in range(0, inner, width):
                yield row[:, :, start : start + width], slice(first, first + rows)
