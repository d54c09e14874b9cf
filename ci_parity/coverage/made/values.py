"""Numbers for a blueprint, chosen so that a wrong meaning shows in them.

Values are distinct as far as the element type allows, and lie in no order. Where an operator adds
up or moves, floats hold small integers: sums are then exact in any order, and a test of equality
means something. Where it computes a function, they lie in its domain, away from its poles. What
steers an operator, such as indices, is valid for the sizes at hand. The same blueprint always gets
the same numbers.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ci_parity.coverage.made.blueprint import FLOATS, Blueprint, Feed
from ci_parity.coverage.made.indices import INDICES, Place
from ci_parity.records.values import numpy_dtype

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Numbers = npt.NDArray[np.float64]

# Where an operator's first input must lie, or where the function does something.
DOMAINS: Mapping[str, tuple[float, float]] = {
    "Log": (0.05, 20.0), "Sqrt": (0.0, 50.0), "Acosh": (1.0, 20.0), "Acos": (-0.99, 0.99),
    "Asin": (-0.99, 0.99), "Atanh": (-0.95, 0.95), "Tan": (-1.4, 1.4), "Reciprocal": (0.2, 9.0),
    "Exp": (-6.0, 4.0), "Sinh": (-4.0, 4.0), "Cosh": (-4.0, 4.0), "ReduceLogSum": (0.1, 9.0),
    "ReduceLogSumExp": (-5.0, 5.0), "Pow": (0.2, 4.0), "GridSample": (-4.0, 4.0),
    "NegativeLogLikelihoodLoss": (-6.0, -0.1), "STFT": (-2.0, 2.0), "DFT": (-2.0, 2.0),
}  # fmt: skip
# Operators whose floats hold integers, because they add up, compare or move.
_INTEGRAL = frozenset(
    {
        "Add", "Sub", "Mul", "Sum", "MatMul", "Gemm", "Conv", "ConvTranspose", "ReduceSum",
        "ReduceProd", "ReduceSumSquare", "ReduceL1", "CumSum", "Einsum", "AveragePool",
        "GlobalAveragePool", "ReduceMean", "Mean", "MaxPool", "GlobalMaxPool", "Max", "Min",
        "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "Equal", "Greater", "Less",
        "GreaterOrEqual", "LessOrEqual", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten",
        "Expand", "Tile", "Slice", "Split", "Pad", "Gather", "GatherElements", "GatherND", "Concat",
        "DepthToSpace", "SpaceToDepth", "Where", "ScatterElements", "Scatter", "ScatterND",
        "Compress", "ReverseSequence", "Trilu", "Identity", "Shape", "Size", "NonZero", "Unique",
        "Clip", "Relu", "Abs", "Neg", "Sign", "Hardmax", "Dropout", "CenterCropPad", "Col2Im",
    }
)  # fmt: skip
_SUMS = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "ReduceProd", "ReduceSumSquare"}
)
_FEW = 8  # sums of products of at most this stay exact in float32 over 2^18 terms
_EXACT_HALF, _EXACT_BRAIN = 1024, 128


def fill(blueprint: Blueprint) -> "list[Array | None]":
    """Return a value for each input, None for one that is left out."""
    import numpy as np

    filled: list[Array | None] = []
    for at, feed in enumerate(blueprint.inputs):
        if feed.kind == "absent":
            filled.append(None)
        elif feed.value is not None and feed.value.shape == feed.shape:
            filled.append(np.asarray(feed.value).astype(numpy_dtype(feed.dtype)))
        else:
            filled.append(_made(blueprint, at, feed))
    return filled


def _made(blueprint: Blueprint, at: int, feed: Feed) -> "Array":
    import numpy as np

    name = f"{blueprint.op_type}/{blueprint.label}/{at}/{feed.dtype}/{feed.shape}"
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    special = INDICES.get((blueprint.op_type, at))
    if special is not None:
        chosen = special(Place(blueprint=blueprint, feed=feed, rng=rng))
        if chosen is not None:
            return np.asarray(chosen).astype(numpy_dtype(feed.dtype)).reshape(feed.shape)
    if feed.dtype == "string":
        return _texts(feed, rng)
    if feed.dtype == "bool":
        return _bits(feed, rng)
    numbers = _numbers(blueprint, at, feed, rng)
    if blueprint.special and (feed.dtype in FLOATS or blueprint.special == "ties") and at == 0:
        numbers = SPECIALS[blueprint.special](numbers)
    return numbers.astype(numpy_dtype(feed.dtype)).reshape(feed.shape)


def _texts(feed: Feed, rng: "np.random.Generator") -> "Array":
    import numpy as np

    words = [f"w{number}é" if number % 3 else f"W {number}" for number in range(feed.count)]
    array = np.empty(feed.count, dtype=object)
    array[:] = [words[at] for at in rng.permutation(feed.count)]
    return array.reshape(feed.shape)


def _bits(feed: Feed, rng: "np.random.Generator") -> "Array":
    """Return truth values of both kinds in no order, true more often than not."""
    import numpy as np

    bits = np.arange(feed.count) % 5 < 3
    return np.asarray(rng.permutation(bits)).reshape(feed.shape)


def _numbers(blueprint: Blueprint, at: int, feed: Feed, rng: "np.random.Generator") -> "Numbers":
    """Return distinct numbers in no order, within what operator and element type allow."""
    import numpy as np

    own = POSITIONS.get((blueprint.op_type, at))
    if feed.dtype not in FLOATS and not feed.dtype.startswith("float"):
        low, high = _integer_range(blueprint.op_type, at, feed.dtype)
        span = np.arange(low, high + 1, dtype=np.float64)
        if _divides(blueprint.op_type, at):
            span = span[span != 0]
        return _spread(span, feed.count, rng)
    if own is not None:
        return _between(*own, feed.count, rng)
    if blueprint.op_type in _INTEGRAL:
        return _spread(_integers(blueprint.op_type, feed), feed.count, rng)
    if _divides(blueprint.op_type, at):
        return _between(0.25, 6.0, feed.count, rng) * np.where(np.arange(feed.count) % 3, 1, -1)
    if at == 0 and blueprint.op_type in DOMAINS:
        return _between(*DOMAINS[blueprint.op_type], feed.count, rng)
    return _between(-3.0, 3.0, feed.count, rng)


def _integers(op_type: str, feed: Feed) -> "Numbers":
    """Return the integers that floats of a type hold exactly, with room for what is computed."""
    import numpy as np

    if op_type in _SUMS or op_type == "Mul":
        few = _FEW if feed.dtype in {"float32", "float64"} else 2
        return np.arange(-few, few + 1, dtype=np.float64)
    most = {"float16": _EXACT_HALF // 8, "bfloat16": _EXACT_BRAIN // 4}.get(feed.dtype, 4096)
    most = most if feed.dtype in FLOATS else 4
    half = min(most, max(4, math.ceil(feed.count * 0.6)))
    return np.arange(-half, half + 1, dtype=np.float64)


def _spread(span: "Numbers", count: int, rng: "np.random.Generator") -> "Numbers":
    """Return `count` of the numbers in no order, none twice before all have occurred."""
    import numpy as np

    if count == 0:
        return np.empty(0)
    rounds = [rng.permutation(span) for _ in range(-(-count // len(span)))]
    return np.concatenate(rounds)[:count]


def _between(low: float, high: float, count: int, rng: "np.random.Generator") -> "Numbers":
    """Return distinct numbers across a range, its ends included where there are two or more."""
    import numpy as np

    if count == 1:
        return np.array([low + 0.6180339887 * (high - low)])
    return rng.permutation(np.linspace(low, high, count))


def _integer_range(op_type: str, at: int, dtype: str) -> tuple[int, int]:
    if op_type == "Pow":
        return (0, 3) if at else (1, 4)
    if op_type == "BitShift" and at:
        return 0, 5
    narrow = dtype in {"int4", "uint4", "int2", "uint2"}
    products = op_type in _SUMS or op_type in {"Mul", "CumSum", "ReduceSum", "Sum", "Add", "Sub"}
    high = 1 if narrow else 5 if products and "8" in dtype else 11 if products else 100
    return (0 if dtype.startswith("u") else -high), high


def _divides(op_type: str, at: int) -> bool:
    return at == 1 and op_type in {"Div", "Mod"}


POSITIONS: Mapping[tuple[str, int], tuple[float, float]] = {
    ("BatchNormalization", 4): (0.2, 4.0), ("QuantizeLinear", 1): (0.05, 0.2),
    ("DequantizeLinear", 1): (0.05, 0.2), ("QLinearConv", 1): (0.05, 0.2),
    ("QLinearConv", 4): (0.05, 0.2), ("QLinearConv", 6): (1.0, 3.0),
    ("QLinearMatMul", 1): (0.05, 0.2), ("QLinearMatMul", 4): (0.05, 0.2),
    ("QLinearMatMul", 6): (1.0, 3.0), ("Pow", 1): (-2.0, 2.5), ("PRelu", 1): (0.05, 0.9),
    ("GridSample", 1): (-1.1, 1.1), ("Resize", 1): (0.0, 1.0), ("Resize", 2): (1.3, 2.0),
    ("Upsample", 1): (2.0, 2.0), ("Dropout", 1): (0.5, 0.5), ("BatchNormalization", 1): (0.3, 2.0),
}  # fmt: skip
"""Where the floats of single inputs must lie."""


def _with_nan(numbers: "Numbers") -> "Numbers":
    found = numbers.copy()
    found[::3] = math.nan
    return found


def _with_infinities(numbers: "Numbers") -> "Numbers":
    found = numbers.copy()
    found[::4], found[1::4] = math.inf, -math.inf
    return found


def _with_ties(numbers: "Numbers") -> "Numbers":
    return (numbers / 3).round() if len(numbers) > 3 else numbers * 0 + 1


SPECIALS: "Mapping[str, Callable[[Numbers], Numbers]]" = {
    "nan": _with_nan, "inf": _with_infinities, "ties": _with_ties,
}  # fmt: skip
