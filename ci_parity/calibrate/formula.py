"""The nodes that compute the noise of one tensor: the formula of `calibrate.graph`, as operators.

Between `graph`, which chooses the tensors, and the twin's file. Only operators that every runtime
has since opset 8, and `IsNaN` and `Where` of opset 9; computes nothing here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci_parity.records.noise import Precision

if TYPE_CHECKING:
    from onnx import NodeProto

SEED = "ci_parity_noise_seed"
KINDS: Mapping[str, Precision] = {
    "double": Precision.FLOAT64, "float": Precision.FLOAT32, "float16": Precision.FLOAT16,
    "bfloat16": Precision.BFLOAT16,
}  # fmt: skip
_ELEMENT: Mapping[Precision, str] = {
    Precision.FLOAT64: "DOUBLE", Precision.FLOAT32: "FLOAT", Precision.FLOAT16: "FLOAT16",
    Precision.BFLOAT16: "BFLOAT16",
}  # fmt: skip

# Integer kernels requantize by another route than float ones: values so near to a tie, in parts of
# the quantization step, may go either way.
_NEAR_TIE = 1 / 16
# The multiples that stay where a step decides, and their end: all the integers that a type counts
# without gaps, and as many fractions as leave it other values between them.
_GRIDS: Mapping[Precision, tuple[float, float]] = {
    Precision.FLOAT64: (1 / 256, 4096.0), Precision.FLOAT32: (1 / 256, 4096.0),
    Precision.FLOAT16: (1 / 4, 2048.0), Precision.BFLOAT16: (1.0, 256.0),
}  # fmt: skip
# No noise grows beyond that of these: a mask holds the largest finite number of its type, which
# noise of its own size would make infinite.
_LARGE = 1e30
_LARGE_HALF = 16000.0
_TINY = 1e-37
_STEEP = 1e30
# Sentinels, as `compare.noise` has them.
_SENTINEL = 1e4
_SENTINEL_GAP = 1e3
_FIRST_WITH_WHERE = 9
_FIRST_WITH_AXES_INPUT = 18


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise that a tensor gets.

    `precision` is one coarser than its own, `None` for its own. `step` is the name of the
    quantization step it is rounded to next, empty where that follows from the largest magnitude,
    `None` where it is not rounded to steps. `axes` are those along which elements share the step of
    even noise, all where there are none.
    """

    precision: Precision | None = None
    step: str | None = None
    axes: tuple[int, ...] = ()


@dataclass(slots=True)
class Writer:
    """Writes the nodes of the noise, with names of its own.

    `grid` says that multiples of the grid stay.
    """

    prefix: str
    opset: int
    grid: bool
    count: int = 0
    used: set[str] = field(default_factory=set)

    def name(self) -> str:
        """Return a tensor name that nobody has."""
        self.count += 1
        return f"{self.prefix}_{self.count}"

    def constants(self) -> list["NodeProto"]:
        """Return the nodes that bring the numbers of the formula into the graph."""
        from onnx import TensorProto, helper

        values = {
            "high": _LARGE, "high_half": _LARGE_HALF, "tiny": _TINY, "steep": _STEEP, "one": 1.0,
            "half": 0.5, "zero": 0.0, "tie": 2 * _NEAR_TIE, "levels": 2 * _NEAR_TIE / 255,
            "sentinel": _SENTINEL, "gap": _SENTINEL_GAP,
        }  # fmt: skip
        values |= {f"u_{kind.value}": 4 * kind.roundoff for kind in Precision}
        values |= {f"grid_{kind.value}": 1 / step for kind, (step, _) in _GRIDS.items()}
        values |= {f"end_{kind.value}": end for kind, (_, end) in _GRIDS.items()}
        return [
            helper.make_node(
                "Constant", [], [self._constant(name)],
                value=helper.make_tensor(name, TensorProto.FLOAT, [], [value]),
            )
            for name, value in values.items()
            if name in self.used
        ]  # fmt: skip

    def _constant(self, name: str) -> str:
        """Return the tensor of one of the `constants`, which is needed then."""
        self.used.add(name)
        return f"{self.prefix}_{name}"

    def noise(self, clean: str, noisy: str, kind: Precision, how: "Noise") -> list["NodeProto"]:
        """Return the nodes that compute `noisy` from `clean`, a tensor of one element type."""
        from onnx import TensorProto

        nodes: list[NodeProto] = []
        op = _Chain(nodes=nodes, writer=self)
        c = self._constant
        element = TensorProto.DataType.Value(_ELEMENT[kind])
        x = clean if kind is Precision.FLOAT32 else op("Cast", clean, to=TensorProto.FLOAT)
        high = "high_half" if kind is Precision.FLOAT16 else "high"
        magnitude = op("Min", op("Abs", x), c(high))
        turns = op("Mul", op("Log", op("Max", magnitude, c("tiny"))), SEED)
        part = op("Sub", op("Sub", turns, op("Floor", turns)), c("half"))
        size = self._size(magnitude, kind, how, op)
        delta = op("Mul", size, part)
        match kind:
            case Precision.FLOAT32:
                op("Add", clean, delta, out=noisy)
            case Precision.FLOAT64:
                op("Add", clean, op("Cast", delta, to=element), out=noisy)
            case _:
                op("Cast", op("Add", x, delta), out=noisy, to=element)
        return nodes

    def _size(self, magnitude: str, kind: Precision, how: "Noise", op: "_Chain") -> str:
        """Return the width of the noise on each element, twice the largest deviation."""
        from onnx import TensorProto

        c = self._constant
        asked = how.precision
        if asked is not None and asked.even:
            return op("Mul", self._even_scale(magnitude, how.axes, op), c(f"u_{asked.value}"))
        if how.step is not None:
            if how.step:
                least = op("ReduceMin", op("Cast", how.step, to=TensorProto.FLOAT), keepdims=0)
                spacing = op("Mul", least, c("tie"))
            else:
                spacing = op("Mul", op("ReduceMax", magnitude, keepdims=0), c("levels"))
            return op("Mul", self._off_grid(magnitude, kind, op), spacing)
        coarser = asked if asked is not None and asked.roundoff > kind.roundoff else kind
        size = op("Mul", magnitude, c(f"u_{coarser.value}"))
        return op("Mul", size, self._off_grid(magnitude, kind, op)) if self.grid else size

    def _off_grid(self, magnitude: str, kind: Precision, op: "_Chain") -> str:
        """Return a tensor of 1 where a value is no small multiple of the grid, else 0."""
        c = self._constant
        scaled = op("Mul", magnitude, c(f"grid_{kind.value}"))
        beyond = op("Sub", magnitude, c(f"end_{kind.value}"))
        off = op("Max", op("Sub", scaled, op("Floor", scaled)), beyond)
        return self._sign(off, op)

    def _even_scale(self, magnitude: str, axes: Sequence[int], op: "_Chain") -> str:
        """Return the largest magnitude where an element is not 0, else 0.

        A sentinel sets no scale: what is quantized has none.
        """
        c = self._constant
        present = self._sign(magnitude, op)
        if self.opset >= _FIRST_WITH_WHERE:
            magnitude = op("Where", op("IsNaN", magnitude), c("zero"), magnitude)
        if axes:
            scale = self._largest(magnitude, axes, op)
        else:
            largest = self._largest(magnitude, (), op)
            usual = self._sign(op("Sub", c("sentinel"), magnitude), op)
            rest = self._largest(op("Mul", magnitude, usual), (), op)
            above = self._sign(op("Sub", largest, op("Mul", rest, c("gap"))), op)
            alone = op("Mul", above, self._sign(rest, op))
            others = op("Mul", largest, op("Sub", c("one"), alone))
            scale = op("Add", op("Mul", rest, alone), others)
        return op("Mul", scale, present)

    def _largest(self, magnitude: str, axes: Sequence[int], op: "_Chain") -> str:
        """Return the largest element, along some axes, which stay, or of all."""
        from onnx import TensorProto, helper

        if not axes:  # of no elements at all, it is -inf
            return op("Max", op("ReduceMax", magnitude, keepdims=0), self._constant("zero"))
        if self.opset < _FIRST_WITH_AXES_INPUT:
            return op("ReduceMax", magnitude, axes=list(axes), keepdims=1)
        value = helper.make_tensor("axes", TensorProto.INT64, [len(axes)], list(axes))
        return op("ReduceMax", magnitude, op("Constant", value=value), keepdims=1)

    def _sign(self, number: str, op: "_Chain") -> str:
        """Return 1 where a number is positive, 0 where it is not."""
        c = self._constant
        return op("Max", op("Min", op("Mul", number, c("steep")), c("one")), c("zero"))


@dataclass(frozen=True, slots=True)
class _Chain:
    """Appends one node after another; each call returns the name of its result."""

    nodes: "list[NodeProto]"
    writer: Writer

    def __call__(self, operator: str, *operands: str, out: str = "", **attributes: object) -> str:
        from onnx import helper

        result = out or self.writer.name()
        node = helper.make_node(operator, list(operands), [result])
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return result
