"""Texts out of tensors: class scores by step, token numbers or strings, as padded symbols.

Below the text decision. Decoding is greedy: a beam search or a language model is the product's.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.compare.decisions.rows import Rows, blocks, rows_of, unordered
from ci_parity.config.decisions import Text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Integers = npt.NDArray[np.int64]

PAD = -1
_MAX_CHARACTERS = 200_000_000
_CHUNK = 1 << 20


@dataclass(slots=True)
class Decoded:
    """The texts of both sides as symbols [rows, length], padded with -1 at the end.

    `rest` is the shape of the rows. `steps` holds, for class scores alone, the best class of each
    step [rows, steps] of both sides. `nan_before` counts rows with a NaN in the baseline, `lost`
    those in which the candidate alone is not finite.
    """

    texts: "tuple[Integers, Integers]"
    rest: tuple[int, ...]
    steps: "tuple[Integers, Integers] | None" = None
    nan_before: int = 0
    lost: int = 0


def decode(baseline: "Array", candidate: "Array", policy: Text) -> Decoded:
    """Return the texts of both sides.

    Raises:
        UnusableError: an output is not of the kind that `decode` asks for, or the sides do not have
            the same rows.
    """
    if policy.decode == "ctc":
        return _decode_ctc(baseline, candidate, policy)
    read = _decode_ids if policy.decode == "ids" else _decode_strings
    left, right = (read(side, policy) for side in (baseline, candidate))
    if left[1] != right[1]:
        raise UnusableError(f"the rows are {list(right[1])}, the baseline's {list(left[1])}")
    return Decoded((left[0], right[0]), left[1])


def _decode_ctc(baseline: "Array", candidate: "Array", policy: Text) -> Decoded:
    """Decode greedily: the best class of each step, repeats once, blanks not at all.

    Graves, Fernández, Gomez and Schmidhuber (2006), best path decoding.
    """
    import numpy as np

    sides = rows_of(baseline, policy.axis), rows_of(candidate, policy.axis)
    if baseline.shape != candidate.shape:
        raise UnusableError(
            f"the shape is {list(candidate.shape)}, the baseline's {list(baseline.shape)}"
        )
    time = _time_axis(baseline, sides[0], policy)
    if sides[0].classes <= policy.blank and sides[0].count:
        raise UnusableError(f"class {policy.blank} is the blank, of {sides[0].classes} classes")
    best = np.zeros((2, sides[0].count), dtype=np.int64)
    odd = np.zeros((2, sides[0].count), dtype=bool)
    for start, pair in blocks(*sides):
        span = slice(start, start + len(pair[0]))
        for number, (table, flags) in enumerate(zip(pair, unordered(*pair), strict=True)):
            best[number, span] = table.argmax(axis=1)
            odd[number, span] = flags.any(axis=1)
    rest = sides[0].rest
    steps = [_by_row(side, rest, time) for side in best]
    gone = [np.asarray(_by_row(side, rest, time).any(axis=1)) for side in odd]
    for side in steps:
        side[gone[0] | gone[1]] = policy.blank
    return Decoded(
        (collapsed(steps[0], policy.blank), collapsed(steps[1], policy.blank)),
        rest[:time] + rest[time + 1 :], (steps[0], steps[1]), int(np.count_nonzero(gone[0])),
        int(np.count_nonzero(gone[1] & ~gone[0])),
    )  # fmt: skip


def _time_axis(array: "Array", rows: Rows, policy: Text) -> int:
    """Return the axis of the steps among the axes that are left without the classes."""
    if not -array.ndim <= policy.time_axis < array.ndim:
        raise UnusableError(f"axis {policy.time_axis} does not exist in {list(array.shape)}")
    time = policy.time_axis % array.ndim
    if time == rows.axis:
        raise UnusableError(f"axis {policy.axis} is both that of the classes and of the steps")
    return time - (time > rows.axis)


def _by_row(flat: "npt.NDArray[np.generic]", rest: tuple[int, ...], time: int) -> "Integers":
    """Return a value for each step as [rows, steps]."""
    import numpy as np

    moved: Any = np.moveaxis(flat.reshape(rest), time, -1)
    table: Integers = moved.reshape(math.prod(moved.shape[:-1]), rest[time]).copy()
    return table


def collapsed(steps: "Integers", blank: int, *, chunk: int = _CHUNK) -> "Integers":
    """Return the texts of best classes: repeats once, blanks left out, padded with -1.

    Args:
        steps: the best class of each step, [rows, steps].
        blank: the class that stands for no symbol.
        chunk: about how many steps are in hand at a time.
    """
    import numpy as np

    texts = np.full_like(steps, PAD)
    step = max(1, chunk // max(steps.shape[1], 1))
    for start in range(0, len(steps), step):
        piece = steps[start : start + step]
        kept = piece != blank
        kept[:, 1:] &= piece[:, 1:] != piece[:, :-1]
        row, _ = np.nonzero(kept)
        column = (np.cumsum(kept, axis=1) - 1)[kept]
        texts[start + row, column] = piece[kept]
    return texts


def _decode_ids(array: "Array", policy: Text) -> "tuple[Integers, tuple[int, ...]]":
    import numpy as np

    if array.dtype.kind not in "iu" or not array.ndim:
        raise UnusableError("the output holds no token numbers")
    if array.size and (array.max() > np.iinfo(np.int64).max or array.min() < 0):
        raise UnusableError("a token number is negative or beyond 2^63")
    texts = array.reshape(math.prod(array.shape[:-1]), array.shape[-1]).astype(np.int64)
    if policy.end is not None:
        texts[np.logical_or.accumulate(texts == policy.end, axis=1)] = PAD
    return texts, array.shape[:-1]


def _decode_strings(array: "Array", _: Text) -> "tuple[Integers, tuple[int, ...]]":
    import numpy as np

    if array.dtype.kind not in "OUS":
        raise UnusableError("the output holds no strings")
    texts = [str(item) for item in array.reshape(-1).tolist()]
    longest = max(map(len, texts), default=0)
    if longest * len(texts) > _MAX_CHARACTERS:
        raise UnusableError("the strings are too long to be compared")
    table = np.full((len(texts), longest), PAD, dtype=np.int64)
    for row, text in enumerate(texts):
        table[row, : len(text)] = [ord(character) for character in text]
    return table, array.shape
