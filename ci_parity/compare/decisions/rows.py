"""An output as rows of classes, read in blocks: what every decision by row is made on.

Below the decisions. Nothing is copied but the block in hand, so that an output of any size costs
the same memory; nothing is judged.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_parity.compare.decisions.findings import UnusableError
from ci_parity.compare.metrics import index_of
from ci_parity.records.values import element_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Booleans = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

_BLOCK = 1 << 20
_WIDEST_INTEGER = 4


@dataclass(frozen=True, slots=True)
class Rows:
    """An output of numbers seen as rows along one axis.

    `cube` has the shape [outer, classes, inner]; row `outer * inner_size + inner` holds the classes
    at one position of all other axes, in C order. `shape` is the output's own.
    """

    cube: Any
    shape: tuple[int, ...]
    axis: int

    @property
    def classes(self) -> int:
        """How many elements a row has."""
        return int(self.cube.shape[1])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.cube.shape[0] * self.cube.shape[2])

    @property
    def rest(self) -> tuple[int, ...]:
        """The shape of the output without the axis of the classes: one position a row."""
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    def name(self, row: int) -> str:
        """Return a row as a reader finds it: its position in all other axes."""
        index = index_of(row, self.rest)
        return f"row {index[0]}" if len(index) == 1 else f"row {list(index)}"

    def flat(self, rows: "Integers", classes: "Integers") -> "Integers":
        """Return the flat positions, in the output, of elements given by row and class."""
        inner = max(self.cube.shape[2], 1)
        flat: Integers = (rows // inner * self.classes + classes) * inner + rows % inner
        return flat

    def position(self, row: int, label: int) -> int:
        """Return the flat position, in the output, of one element."""
        inner = max(self.cube.shape[2], 1)
        return int((row // inner * self.classes + label) * inner + row % inner)

    def values(self, rows: "Integers", classes: "Integers") -> "Floats":
        """Return the elements at rows and classes, shapes that broadcast, in float64."""
        inner = max(self.cube.shape[2], 1)
        return wide(self.cube[rows // inner, classes, rows % inner])


def rows_of(array: "Array", axis: int) -> Rows:
    """See an output as rows along `axis`.

    Raises:
        UnusableError: it is no output of numbers or has no such axis.
    """
    check_numbers(array)
    if not -array.ndim <= axis < array.ndim:
        raise UnusableError(f"axis {axis} does not exist in the shape {list(array.shape)}")
    axis %= array.ndim
    shape = array.shape
    cube = array.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    return Rows(cube, shape, axis)


def check_numbers(array: "Array", *, widest: int = _WIDEST_INTEGER) -> None:
    """Refuse what has no order, and integers of more than `widest` bytes.

    Raises:
        UnusableError: the output holds neither floats nor such integers.
    """
    dtype = element_type(array)
    integer = dtype.startswith(("int", "uint"))
    if integer and array.dtype.itemsize > widest:
        raise UnusableError(f"{dtype} holds numbers that are no scores")
    if not integer and not dtype.startswith(("float", "bfloat")):
        raise UnusableError(f"{dtype} holds no scores")


def blocks(*sides: Rows, size: int = _BLOCK) -> Iterator[tuple[int, tuple["Floats", ...]]]:
    """Yield the number of a first row and the rows from it on, float64 [rows, classes], by side.

    Args:
        sides: of one shape.
        size: about how many elements a block has; never less than a row.
    """
    outer, classes, inner = sides[0].cube.shape
    if not outer * inner:
        return
    step = max(1, size // max(classes, 1))
    many = max(1, step // inner)
    for start in range(0, outer, many):
        for low in range(0, inner, step):
            pieces = (s.cube[start : start + many, :, low : low + step] for s in sides)
            yield start * inner + low, tuple(_table(piece) for piece in pieces)


def _table(piece: Any) -> "Floats":  # noqa: ANN401 - numbers of any width [outer, classes, inner]
    classes = piece.shape[1]
    return wide(piece).transpose(0, 2, 1).reshape(piece.shape[0] * piece.shape[2], classes)


def unordered(left: "Floats", right: "Floats") -> "tuple[Booleans, Booleans]":
    """Return where the baseline has a NaN, and where the candidate alone is not what it should be.

    That is a NaN where the baseline has none, or an infinity where the baseline is finite. An
    infinity of the baseline is above or below everything and can be ranked.
    """
    import numpy as np

    gone = np.isnan(left)
    lost = (np.isnan(right) & ~gone) | (np.isinf(right) & np.isfinite(left))
    return gone, lost


def wide(piece: Any) -> "Floats":  # noqa: ANN401 - numbers of any width
    """Return numbers in float64, which holds each of them exactly."""
    import numpy as np

    widened: Floats = piece.astype(np.float64)
    return widened
