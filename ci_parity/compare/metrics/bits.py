"""Floating-point elements as the integers their bits are.

Sign-magnitude bits are in the order of the numbers they stand for, so that integers answer what
would otherwise need a conversion: the largest magnitude, and how many numbers lie between two.
Used by `scales` and `totals`. Sees one block at a time, allocates nothing of an array's size.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

# Where the sign is not the highest bit of the byte that holds an element: narrower floats fill a
# part of it, and the scale type float8e8m0 has no sign.
_SIGN_BITS = {
    "float4_e2m1fn": 1 << 3, "float6_e2m3fn": 1 << 5, "float6_e3m2fn": 1 << 5, "float8_e8m0fnu": 0,
}  # fmt: skip


def flat(array: "Array") -> "Array":
    """Return the elements in C order, shape [size], in the machine's byte order; a view if it can.

    A view of mapped memory is a plain array, whose slices are cheaper.
    """
    import numpy as np

    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return np.asarray(native).reshape(-1)


def raw(block: "Array") -> "Array":
    """Return the bits of contiguous elements as unsigned integers of their width; a view."""
    return block.view(f"u{block.dtype.itemsize}")


def sign_bit(dtype: "np.dtype[Any]") -> int:
    """Return the value of the bit that holds the sign; 0 where there is none."""
    return _SIGN_BITS.get(dtype.name, 1 << (8 * dtype.itemsize - 1))


def largest_finite(dtype: "np.dtype[Any]") -> int:
    """Return the bits of the largest number; those of infinities and NaN are above, or the sign's.

    The types without infinities have NaN above their largest number or, where the name ends in
    "uz", in place of -0 (OCP 8-bit floating point; ml_dtypes).
    """
    import ml_dtypes
    import numpy as np

    largest = ml_dtypes.finfo(dtype).max  # type: ignore[no-untyped-call]
    return int(raw(np.array([largest], dtype))[0])


def widen(block: "Array", out: "Array") -> None:
    """Convert a block to a type that holds all its numbers, that of `out`."""
    import numpy as np

    if block.dtype.itemsize == 1:
        np.take(_table(block.dtype, out.dtype), raw(block), out=out, mode="clip")
    else:
        np.copyto(out, block)


@lru_cache
def _table(dtype: "np.dtype[Any]", wide: "np.dtype[Any]") -> "Array":
    """Return the 256 numbers of a type of one byte in a wider one."""
    import numpy as np

    return np.arange(256, dtype=np.uint8).view(dtype).astype(wide)


def steps_between(
    left: "Array", right: "Array", sign: int, out: tuple["Array", "Array"], *, crossing: bool
) -> "Array":
    """Return how many representable numbers apart two blocks of bits are; `out` is overwritten.

    `crossing` says that signs may differ. Those bits are mapped to integers in numeric order, so
    that -0 and +0 coincide; bits above the sign are left out.
    """
    import numpy as np

    if sign and not crossing:
        # Of one sign: the difference has the width of a magnitude, and room for its own sign.
        signed = np.subtract(left, right, out=out[0]).view(f"i{left.itemsize}")
        np.abs(signed, out=signed)
        return out[0]
    if crossing:
        left, right = (
            _in_order(bits, sign, room) for bits, room in zip((left, right), out, strict=True)
        )
    lower = np.minimum(left, right)
    return np.subtract(np.maximum(left, right, out=out[0]), lower, out=out[0])


def _in_order(bits: "Array", sign: int, out: "Array") -> "Array":
    """Map sign and magnitude to `sign` + magnitude or `sign` - magnitude, without branches."""
    import numpy as np

    negative = np.right_shift(bits, sign.bit_length() - 1)
    np.bitwise_and(negative, 1, out=negative)
    np.negative(negative, out=negative)
    np.bitwise_and(bits, sign - 1, out=out)
    # Two's complement: all bits turned, and one more.
    np.bitwise_xor(out, negative, out=out)
    np.subtract(out, negative, out=out)
    return np.add(out, sign, out=out)
