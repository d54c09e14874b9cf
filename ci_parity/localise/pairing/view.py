"""A graph as pairing sees it: steps between values, whatever carries a value on left out.

An Identity, a Cast between float types, a QuantizeLinear with its DequantizeLinear hand on a value
that something before them computed. All tensors that carry one value form a group, named by the
first of them. Constants are no values; they belong to the step that reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import operators
from ci_parity.localise.pairing.content import Constants, attributes_digest

if TYPE_CHECKING:
    from onnx import NodeProto

# FLOAT, FLOAT16, DOUBLE, BFLOAT16 in onnx.TensorProto.DataType.
FLOATS = frozenset({1, 10, 11, 16})
_CAPTURED = 1 << 20
_TAIL = operators.AFFINE | operators.ACTIVATIONS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A node that computes something; two are never equal.

    Args:
        op: its operator; of a quantized or fused one the float operator it stands for.
        activation: what is fused behind it.
        form: what its attributes, or the integers in their place, say.
        data: the values it reads, each with its position; 0 where the order does not matter.
        constants: the digests of the constants it reads, likewise.
        telling: whether its constants are found nowhere else.
        results: the values it makes, by position; empty where there is none.
    """

    op: str
    activation: str
    form: tuple[object, ...]
    data: tuple[tuple[int, str], ...]
    constants: tuple[tuple[int, bytes], ...]
    telling: bool
    results: tuple[str, ...]

    @property
    def exact(self) -> tuple[object, ...]:
        """What two steps have in common that compute the same of the same values."""
        shape = tuple(sorted(slot for slot, _ in self.data))
        return self.op, self.activation, self.form, self.constants, shape


class View:
    """The steps of a graph and the values between them."""

    def __init__(self, graph: FlatGraph) -> None:
        """Read a graph; its types say which casts change no number."""
        self.graph = graph
        self.steps: list[Step] = []
        self.maker: dict[str, tuple[Step, int]] = {}
        self.readers: dict[str, list[tuple[Step, int]]] = {}
        self.root: dict[str, str] = {name: name for name in graph.inputs}
        self.carriers: dict[str, dict[str, str]] = {name: {name: ""} for name in graph.inputs}
        self.integer: set[str] = set()
        self._accumulators: set[str] = set()
        self._scales: set[str] = set()
        self._constants = Constants(graph)
        self._signatures: dict[str, tuple[object, ...]] = {}
        for node, reads in zip(graph.nodes, graph.reads, strict=True):
            if not all(name in graph.constant for name in node.output if name):
                self._add(node, reads)

    @cached_property
    def outputs(self) -> frozenset[str]:
        """The graph's outputs."""
        return frozenset(self.graph.outputs)

    def signature(self, value: str) -> tuple[object, ...]:
        """Return by what operators, at which positions, a value is read; its role, in short."""
        found = self._signatures.get(value)
        if found is None:
            reads = sorted(
                (operators.family(step.op), slot) for step, slot in self.readers.get(value, ())
                if step.op not in operators.MEASURING
            )  # fmt: skip
            leaves = not self.outputs.isdisjoint(self.carriers[value])
            found = self._signatures[value] = (leaves, *reads)
        return found

    def ends_in(self, value: str, op: str) -> bool:
        """Whether what makes a value may be the result of fusing or folding that `op` ends."""
        step, _ = self.maker[value]
        clipped = op in operators.CLIPPING and self.clips(value)
        if clipped or op == step.activation or operators.fuses(step.op):
            return True
        return step.op in operators.LINEAR and op in operators.AFFINE

    def clips(self, value: str) -> bool:
        """Whether a value is rounded to integers of a limited range."""
        return value in self.integer or "QuantizeLinear" in self.carriers[value].values()

    def sizes(self, step: Step) -> tuple[tuple[int, ...] | None, ...]:
        """Return the shapes of a step's results as far as known; 0 for what is not fixed."""
        types = [self.graph.types.get(name) for name in step.results]
        return tuple(
            tuple(dim.dim_value for dim in known.tensor_type.shape.dim) if known else None
            for known in types
        )

    def tail(self, step: Step) -> list[tuple[str, str]]:
        """Return a step and what might be folded into it, as operators and what they make.

        What is fused already makes no value of its own: the one before it is an empty string.
        """
        value = step.results[0]
        chain = [(step.op, value)]
        if step.activation:
            chain = [(step.op, ""), (step.activation, value)]
        while after := self._only_follower(value):
            value = after.results[0]
            chain.append((after.op, value))
        return chain

    def _only_follower(self, value: str) -> Step | None:
        """Return the foldable step that alone reads a value."""
        if not self.outputs.isdisjoint(self.carriers[value]):
            return None
        readers = [
            step for step, _ in self.readers.get(value, ())
            if step.op not in operators.MEASURING
        ]  # fmt: skip
        if len(readers) != 1 or readers[0].op not in _TAIL:
            return None
        return readers[0] if len(readers[0].data) == 1 and len(readers[0].results) == 1 else None

    def _add(self, node: "NodeProto", reads: Sequence[str]) -> None:
        name = operators.own_name(node)
        kind, source = self._carries(node, name)
        if source:
            self._carry(node.output[0], source, kind)
        if name == "DynamicQuantizeLinear" and source:
            self._scales.update(node.output[1:])
        elif not source and self._scales and self._only_scales(node):
            self._scales.update(node.output)
        elif not source:
            self._add_step(node, name, reads)

    def _carries(self, node: "NodeProto", name: str) -> tuple[str, str]:
        """Return how a node hands on a value, and the tensor it takes it from; else nothing."""
        source = node.input[0] if node.input else ""
        if name == "Mul" and self._scales:
            scaled = [tensor for tensor in node.input if tensor not in self._scales]
            root = self.root.get(scaled[0], "") if len(scaled) == 1 else ""
            return ("Scale", scaled[0]) if root in self._accumulators else ("", "")
        if source not in self.root:
            return "", ""
        if name == "Cast":
            return self._cast(node, source)
        carries = (
            name in {"Identity", "QuantizeLinear", "DynamicQuantizeLinear"}
            or (name == "DequantizeLinear" and source in self.integer)
            or (name == "Dropout" and len(node.input) < 3 and not any(node.output[1:]))
        )
        return (name, source) if carries else ("", "")

    def _cast(self, node: "NodeProto", source: str) -> tuple[str, str]:
        target = next((a.i for a in node.attribute if a.name == "to"), 0)
        if self.root[source] in self._accumulators and target in FLOATS:
            return f"Cast {target}", source
        known = self.graph.types.get(source)
        floats = {target, known.tensor_type.elem_type if known is not None else 0}
        return (f"Cast {target}", source) if floats <= FLOATS else ("", "")

    def _carry(self, name: str, source: str, kind: str) -> None:
        root = self.root[source]
        self.root[name] = root
        self.carriers[root][name] = kind
        moves = kind == "Identity" and source in self.integer
        if moves or kind in {"QuantizeLinear", "DynamicQuantizeLinear"}:
            self.integer.add(name)
        if kind.startswith("Cast") and source in self.integer:
            self.integer.add(name)

    def _only_scales(self, node: "NodeProto") -> bool:
        """Whether a node computes with the scales of a quantizer and constants alone."""
        used = [name for name in node.input if name and name not in self.graph.constant]
        return bool(used) and self._scales.issuperset(used)

    def _add_step(self, node: "NodeProto", name: str, reads: Sequence[str]) -> None:
        op = operators.float_name(name)
        own = operators.slots(node, name)
        plain = set(node.input)
        inner = [tensor for tensor in reads if tensor not in plain]
        own += [(_CAPTURED + at, tensor) for at, tensor in enumerate(inner)]
        if op in operators.COMMUTATIVE:
            own = [(0, tensor) for _, tensor in own]
        held = [(slot, tensor) for slot, tensor in own if tensor in self.graph.constant]
        step = Step(
            op=op,
            activation=operators.fused_activation(node, name),
            form=(attributes_digest(node), *self._integers(held)),
            data=tuple((slot, self.root[tensor]) for slot, tensor in own if tensor in self.root),
            constants=tuple(
                sorted((slot, self._constants.digest(tensor)) for slot, tensor in held)
            ),
            telling=any(tensor in self._constants.telling for _, tensor in held),
            results=tuple(node.output),
        )
        self.steps.append(step)
        for slot, value in step.data:
            self.readers.setdefault(value, []).append((step, slot))
        integers = operators.makes_integers(name) or (
            name in operators.MOVING and bool(node.input) and node.input[0] in self.integer
        )
        for position, result in enumerate(node.output):
            if result and result not in self.graph.constant:
                self._add_result(result, step, position, integers=integers)
        if name in operators.ACCUMULATING:
            self._accumulators.update(node.output)

    def _integers(self, held: list[tuple[int, str]]) -> list[tuple[int, bytes]]:
        known = self._constants
        return [(at, known.digest(name)) for at, name in held if name in known.integer]

    def _add_result(self, name: str, step: Step, position: int, *, integers: bool) -> None:
        self.root[name] = name
        self.carriers[name] = {name: ""}
        self.maker[name] = (step, position)
        if integers:
            self.integer.add(name)
