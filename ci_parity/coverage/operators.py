"""What is known of single operators: which inputs steer them, and what they do to elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ci_parity.base.canonical import Json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

Form = Callable[[float], Json]
_ENDLESS = 2**31 - 1
_MAX_ITEMS = 16


def domain_of(name: str) -> str:
    """Return the one spelling of an operator set's name; that of ONNX itself is empty."""
    return "" if name == "ai.onnx" else name


def _size(value: float) -> Json:
    if value in {0, 1, -1}:
        return int(value)
    return "n" if value > 0 else "-n"


def _sign(value: float) -> Json:
    return 0 if value == 0 else "n" if value > 0 else "-n"


def _end(value: float) -> Json:
    if abs(value) >= _ENDLESS:
        return "max" if value > 0 else "min"
    return _sign(value)


def _exact(value: float) -> Json:
    return int(value) if float(value).is_integer() and abs(value) < _ENDLESS else str(value)


def _scale(value: float) -> Json:
    if value == 1 or value <= 0:
        return int(value) if float(value).is_integer() else str(value)
    whole = float(value if value > 1 else 1 / value).is_integer()
    return ("n" if whole else "n.f") if value > 1 else ("1/n" if whole else "0.f")


_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
STEERING: Mapping[str, Mapping[int, Form]] = {
    **{kind: {1: _exact} for kind in _REDUCTIONS},
    "Reshape": {1: _size}, "Expand": {1: _size}, "Tile": {1: _size}, "ConstantOfShape": {0: _size},
    "Slice": {1: _sign, 2: _end, 3: _exact, 4: _exact},
    "Squeeze": {1: _exact}, "Unsqueeze": {1: _exact},
    "Pad": {1: _sign, 3: _exact}, "Split": {1: _size}, "SplitToSequence": {1: _size},
    "TopK": {1: _size}, "Resize": {2: _scale, 3: _size}, "Upsample": {1: _scale},
    "OneHot": {1: _size}, "CumSum": {1: _exact}, "CumProd": {1: _exact}, "Trilu": {1: _sign},
    "Dropout": {2: _exact}, "MaxUnpool": {2: _size}, "CenterCropPad": {1: _size},
    "AffineGrid": {1: _size}, "Col2Im": {1: _size, 2: _size}, "DFT": {1: _size, 2: _exact},
    "STFT": {1: _size, 3: _size}, "HannWindow": {0: _size}, "HammingWindow": {0: _size},
    "BlackmanWindow": {0: _size}, "SequenceAt": {1: _sign}, "SequenceInsert": {2: _sign},
    "SequenceErase": {1: _sign}, "NonMaxSuppression": {2: _size},
    "Gather": {1: _sign},
}  # fmt: skip
"""The inputs whose values decide what an operator does, by position, and how each is told."""

ELEMENTWISE = frozenset(
    {
        "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil",
        "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
        "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal",
        "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
        "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip
"""Operators of one tensor that treat each of its elements alone, whatever their arrangement."""

BROADCASTING = frozenset(
    {
        "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Div", "Equal",
        "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul",
        "Or", "Pow", "PRelu", "Sub", "Sum", "Where", "Xor",
    }
)  # fmt: skip
"""Operators of several tensors that are stretched to a common shape."""

MOVING = frozenset(
    {
        "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile",
        "Slice", "Split", "Pad", "Gather", "GatherElements", "GatherND", "Concat", "DepthToSpace",
        "SpaceToDepth", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Max", "Min", "Abs",
        "Neg", "Relu", "Clip", "Where", "ScatterElements", "Scatter", "ScatterND", "Compress",
        "ReverseSequence", "TopK", "Trilu", "CenterCropPad", "Constant", "ConstantOfShape",
        "EyeLike", "OneHot", "Sign", "Ceil", "Floor", "Round", "MaxUnpool", "Unique", "Dropout",
        "Hardmax", "SequenceConstruct", "SequenceAt", "SplitToSequence", "ConcatFromSequence",
        "Optional", "OptionalGetElement", "SequenceInsert", "SequenceErase", "TensorScatter",
    }
)  # fmt: skip
"""Operators whose float results are elements of their inputs, or exact: nothing may round."""

CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap"})
RANDOM = frozenset(
    {
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    }
)  # fmt: skip


def form_of(op_type: str, position: int, value: "Array") -> Json:
    """Return how the value of a steering input is told.

    Long ones, as the indices of a Gather may be, are told by the words that occur.
    """
    tell = STEERING[op_type][position]
    items: Sequence[Any] = value.ravel().tolist()
    words = [tell(item) for item in items]
    if len(words) > _MAX_ITEMS:
        return {"among": sorted({str(word) for word in words})}
    return words if value.ndim else words[0]
