"""What operators have in common across exporters, optimizers and quantizers.

Names are those of https://onnx.ai/onnx/operators and, with the domain in front, of
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto

MICROSOFT = "com.microsoft"
COMMUTATIVE = frozenset(
    {"Add", "Mul", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal",
     "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
)  # fmt: skip
# Optimizers fold what follows these into their weights.
LINEAR = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
ACTIVATIONS = frozenset(
    {"Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Relu", "Selu",
     "Sigmoid", "Softplus", "Tanh"}
)  # fmt: skip
# With constants for their other operands, these may be folded into what they follow.
AFFINE = frozenset({"Add", "BatchNormalization", "Div", "Mul", "Sub"})
# A quantized tensor need not pass these: its range is chosen so that rounding clips.
CLIPPING = frozenset({"Clip", "Relu"})
# Integers of a quantized tensor go through these unchanged.
MOVING = frozenset(
    {"Concat", "Flatten", "Gather", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "Split",
     "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip
# What optimizers make of several others, or put in the place of another that moves elements.
FUSING = frozenset(
    {"Attention", "Gelu", "HardSwish", "LayerNormalization", "Mish", "RMSNormalization",
     "RotaryEmbedding", "SimplifiedLayerNormalization", "Split", "Swish", "Transpose"}
)  # fmt: skip
MEASURING = frozenset({"Shape", "Size"})
ACCUMULATING = frozenset({"ConvInteger", "MatMulInteger"})

# The float operator each stands for, and the inputs that correspond.
_UNARY = {0: 0}
_BINARY = {0: 0, 3: 1}
_QUANTIZED: Mapping[str, tuple[str, Mapping[int, int]]] = {
    "ConvInteger": ("Conv", {0: 0, 1: 1}),
    "MatMulInteger": ("MatMul", {0: 0, 1: 1}),
    "QLinearConv": ("Conv", {0: 0, 3: 1, 8: 2}),
    "QLinearMatMul": ("MatMul", _BINARY),
    f"{MICROSOFT}.QGemm": ("Gemm", {0: 0, 3: 1, 6: 2}),
    f"{MICROSOFT}.QLinearAdd": ("Add", _BINARY),
    f"{MICROSOFT}.QLinearAveragePool": ("AveragePool", _UNARY),
    f"{MICROSOFT}.QLinearGlobalAveragePool": ("GlobalAveragePool", _UNARY),
    f"{MICROSOFT}.QLinearLeakyRelu": ("LeakyRelu", _UNARY),
    f"{MICROSOFT}.QLinearMul": ("Mul", _BINARY),
    f"{MICROSOFT}.QLinearReduceMean": ("ReduceMean", _UNARY),
    f"{MICROSOFT}.QLinearSigmoid": ("Sigmoid", _UNARY),
    f"{MICROSOFT}.QLinearSoftmax": ("Softmax", _UNARY),
}
_INTEGER_INSIDE: Mapping[str, tuple[str, Mapping[int, int]]] = {
    f"{MICROSOFT}.DynamicQuantizeLSTM": ("LSTM", {at: at for at in range(8)}),
    f"{MICROSOFT}.DynamicQuantizeMatMul": ("MatMul", {0: 0, 1: 1, 4: 2}),
    f"{MICROSOFT}.MatMulIntegerToFloat": ("MatMul", {0: 0, 1: 1, 6: 2}),
    f"{MICROSOFT}.MatMulNBits": ("MatMul", {0: 0, 1: 1}),
}
_CONCAT = f"{MICROSOFT}.QLinearConcat"
_RENAMED = {"Upsample": "Resize", f"{MICROSOFT}.Gelu": "Gelu", f"{MICROSOFT}.FusedConv": "Conv",
            f"{MICROSOFT}.FusedGemm": "Gemm", f"{MICROSOFT}.QLinearConcat": "Concat"}  # fmt: skip
_FUSED = frozenset({f"{MICROSOFT}.FusedConv", f"{MICROSOFT}.FusedGemm"})


def own_name(node: "NodeProto") -> str:
    """Return a node's operator, with its domain in front where that is not ONNX's own."""
    plain = node.domain in {"", "ai.onnx"}
    return str(node.op_type) if plain else f"{node.domain}.{node.op_type}"


def float_name(name: str) -> str:
    """Return the operator that a quantized or fused one stands for, else the operator itself."""
    known = _QUANTIZED.get(name) or _INTEGER_INSIDE.get(name)
    return known[0] if known else _RENAMED.get(name, name)


def family(name: str) -> str:
    """Return what is the same for operators that replace each other."""
    return "MatMul" if name == "Gemm" else name


def fuses(name: str) -> bool:
    """Whether an optimizer may have put an operator in the place of others."""
    return name in FUSING or name.startswith(f"{MICROSOFT}.")


def makes_integers(name: str) -> bool:
    """Whether the result holds a real number's quantized integers, or sums of them."""
    return name in _QUANTIZED or name == _CONCAT


def slots(node: "NodeProto", name: str) -> list[tuple[int, str]]:
    """Return the inputs that the float operator has too, each with its position there."""
    inputs = list(enumerate(node.input))
    if name == _CONCAT:
        inputs = [(at // 3, tensor) for at, tensor in inputs if at % 3 == 2]
    elif known := _QUANTIZED.get(name) or _INTEGER_INSIDE.get(name):
        inputs = [(known[1][at], tensor) for at, tensor in inputs if at in known[1]]
    return [(at, tensor) for at, tensor in inputs if tensor]


def fused_activation(node: "NodeProto", name: str) -> str:
    """Return the activation that a fused operator ends with, or an empty string."""
    if name not in _FUSED:
        return ""
    texts = (a.s for a in node.attribute if a.name == "activation")
    return next(texts, b"").decode(errors="replace")
