"""The perturbed twin of a model: the same graph, in which every rounding goes another way by seed.

Monte Carlo arithmetic (Parker, "Monte Carlo Arithmetic", UCLA 1997) written into the graph. After
an operator that rounds, and on weights and inputs that enter a sum without such a value, x becomes

    x + |x| * 4u * (frac(seed * ln |x|) - 1/2)

with u the unit roundoff: within one unit in the last place, another one for each seed. The noise
is a function of the value, as rounding is: equal values stay equal, so ties stay ties, zeros,
infinities and NaN stay what they are. Where the graph casts, compares or rounds floats, multiples
of 1/256 below 4096 stay too (1/4 below 2048 in float16, 1 below 256 in bfloat16): integers and
simple fractions are exact in every runtime, and must not move across a step; before a
QuantizeLinear the others move by a sixteenth of its step.

u is that of a tensor's own type, or of a coarser precision that the other side computes in. TF32
and 8-bit floats round the operands of matrix operators alone. Where quantization is asked for, the
noise is evenly spaced, and stands where quantizers round: on operands and results of matrix
operators, one step of the tensor's largest magnitude, in constant weights of each output channel's.

`formula` has the nodes of the noise; nothing is run here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ci_parity.base.onnx_model import subgraphs
from ci_parity.calibrate import operators
from ci_parity.calibrate.formula import KINDS, SEED, Noise, Writer
from ci_parity.calibrate.types import element_types
from ci_parity.records.noise import Precision

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

FIRST_OPSET = 8
_OPSET_OF_NOISE = 13
# Here matrix operators round their operands to the precision asked for, nothing else is: tensor
# cores do that to float32 in TF32, quantizers to 8-bit floats.
_OF_OPERANDS = frozenset({Precision.TF32, Precision.FLOAT8})


def perturb(
    model: "ModelProto", precision: Precision | None = None,
    types: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Rewrite a model, in place, into its perturbed twin with one more input, the scalar `SEED`.

    Returns whether there is a twin: where nothing rounds, every runtime must compute the same.

    Args:
        model: with its own precision in the types of its tensors; external data need not be loaded.
        precision: a coarser one that the other side computes in, else None.
        types: what `element_types` says of it, where that is known already.

    Raises:
        ValueError: an opset before 8, or a tensor that is called `SEED`.
    """
    import onnx

    names = set(_names(model.graph))
    if SEED in names:
        raise ValueError(f"the graph has a tensor called {SEED}: the noise needs that name")
    types = element_types(model) if types is None else types
    writer = Writer(
        prefix=_unused_prefix(names), opset=_opset(model), grid=_steps(model.graph, types)
    )
    scope = _Scope(
        types=types, asked=precision, fixed=_names_of(model.graph.input),
        outputs=_names_of(model.graph.output),
    )  # fmt: skip
    _rewrite(model.graph, writer, scope)
    if not writer.count:
        return False
    nodes = [*writer.constants(), *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    seed = onnx.helper.make_tensor_value_info(SEED, onnx.TensorProto.FLOAT, [])
    model.graph.input.append(seed)
    return True


def _opset(model: "ModelProto") -> int:
    """Return the version of ONNX's own operators, which a graph without any may have to import."""
    versions = [int(o.version) for o in model.opset_import if o.domain in {"", "ai.onnx"}]
    if not versions:
        model.opset_import.add(domain="", version=_OPSET_OF_NOISE)
        return _OPSET_OF_NOISE
    if min(versions) < FIRST_OPSET:
        raise ValueError(
            f"the graph uses opset {min(versions)}, noise needs {FIRST_OPSET} or later"
        )
    return min(versions)


@dataclass(slots=True)
class _Scope:
    """What is known in one graph.

    Element types by tensor, the coarser precision asked for, the names of inputs and weights that
    do not change while it runs, the ranks of weights, the names of the model's outputs among its
    tensors, the noisy copies made, the tensors that carry noise already, those of them that need no
    more, the nodes that must stand before the next one, and the graph around this one.
    """

    types: Mapping[str, str]
    asked: Precision | None
    fixed: frozenset[str] = frozenset()
    ranks: dict[str, int] = field(default_factory=dict)
    outputs: frozenset[str] = frozenset()
    copies: dict[tuple[str, Noise], str] = field(default_factory=dict)
    carrying: set[str] = field(default_factory=set)
    rounded: set[str] = field(default_factory=set)
    ahead: "list[NodeProto]" = field(default_factory=list)
    outer: "_Scope | None" = None

    @property
    def even(self) -> bool:
        """Whether the noise is evenly spaced."""
        return self.asked is not None and self.asked.even

    def kind(self, tensor: str) -> Precision | None:
        """Return the precision of a float tensor's own type, None for any other."""
        return KINDS.get(self.types.get(tensor, ""))

    def home(self, tensor: str) -> "_Scope | None":
        """Return the scope, this one or one around it, in which a tensor is an input or weight."""
        scope: _Scope | None = self
        while scope is not None and tensor not in scope.fixed:
            scope = scope.outer
        return scope

    def carry(self, tensors: Iterable[str]) -> None:
        """Note that tensors carry noise; an output that is left out has no name."""
        self.carrying.update(tensor for tensor in tensors if tensor)


def _rewrite(graph: "GraphProto", writer: Writer, scope: _Scope) -> None:
    """Perturb one graph and the graphs inside it; names of the outer graph stay valid."""
    _add_weights(graph, scope)
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in subgraphs(node):
            carrying = scope.carrying | _arriving(node, inner, scope)
            within = _Scope(types=scope.types, asked=scope.asked, carrying=carrying, outer=scope)
            _rewrite(inner, writer, within)
            if carrying.intersection(_names(inner)):
                scope.carry(node.output)
        added = _perturb_node(node, writer, scope)
        nodes += [*scope.ahead, node, *added]
        scope.ahead.clear()
    del graph.node[:]
    graph.node.extend(nodes)


def _add_weights(graph: "GraphProto", scope: _Scope) -> None:
    """Note the initializers and constants of a graph, and the rank of each."""
    scope.ranks |= {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    constants = [node for node in graph.node if node.op_type == "Constant"]
    for node in constants:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                scope.ranks[node.output[0]] = len(attribute.t.dims)
    scope.fixed |= _names_of(graph.initializer) | {node.output[0] for node in constants}


def _arriving(node: "NodeProto", inner: "GraphProto", scope: _Scope) -> set[str]:
    """Return the inputs of an inner graph that carry noise.

    What a loop hands from one turn to the next does from the second turn on.
    """
    names = [port.name for port in inner.input]
    if scope.carrying.intersection(node.input):
        return set(names)
    if node.op_type == "Loop":
        return set(names[2:])
    if node.op_type == "Scan":
        scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
        return set(names[: len(names) - scanned])
    return set()


def _perturb_node(node: "NodeProto", writer: Writer, scope: _Scope) -> "list[NodeProto]":
    """Put noise on a node's operands, and return the nodes that put it on its results."""
    carries = bool(scope.carrying.intersection(node.input))
    for index, how in list(_operands(node, scope, carries=carries)):
        kind = scope.kind(node.input[index])
        if kind is not None:
            carries = True
            node.input[index] = _copy(node.input[index], kind, how, writer, scope)
    wanted = _rounds(node, scope, carries=carries)
    if carries and node.op_type not in operators.SHAPES:
        scope.carry(node.output)
    how = Noise(None if scope.asked in _OF_OPERANDS else scope.asked)
    added: list[NodeProto] = []
    for index, tensor in enumerate(list(node.output) if wanted else []):
        kind = scope.kind(tensor)
        if kind is not None:
            node.output[index] = writer.name()
            scope.carry([tensor])
            scope.rounded.add(tensor)
            added += writer.noise(node.output[index], tensor, kind, how)
    return added


def _operands(node: "NodeProto", scope: _Scope, *, carries: bool) -> Iterator[tuple[int, Noise]]:
    """Yield the positions of the operands to perturb, each with its noise."""
    count = min(operators.MATRIX.get(node.op_type, 0), len(node.input))
    if scope.even:
        for index in range(count):
            if node.input[index] not in scope.rounded:
                yield index, Noise(scope.asked, axes=_sharing(node, index, scope))
    elif node.op_type in operators.QUANTIZING and node.input:
        yield 0, Noise(step=node.input[1] if node.op_type == "QuantizeLinear" else "")
    elif carries and scope.asked in _OF_OPERANDS:
        noisy = (i for i in range(count) if node.input[i] in scope.carrying)
        yield from ((i, Noise(scope.asked)) for i in noisy)
    elif not carries and node.op_type in operators.SUMMING:
        how = Noise(scope.asked if count or scope.asked not in _OF_OPERANDS else None)
        fixed = (i for i, tensor in enumerate(node.input) if scope.home(tensor) is not None)
        yield from ((i, how) for i in fixed)


def _rounds(node: "NodeProto", scope: _Scope, *, carries: bool) -> bool:
    """Whether a node's results are rounded.

    In a coarser precision, outputs are that come unchanged from inputs or weights.
    """
    unrounded = not carries and not scope.outputs.isdisjoint(node.output)
    if scope.even:
        return node.op_type in operators.MATRIX or unrounded
    coarse = scope.asked is not None and scope.asked not in _OF_OPERANDS
    return not _exact(node) or (coarse and unrounded)


def _copy(tensor: str, kind: Precision, how: Noise, writer: Writer, scope: _Scope) -> str:
    """Return the noisy copy of an operand, made once where it is constant, or here."""
    # What it is rounded to next may be known only here.
    place = scope if how.step else scope.home(tensor) or scope
    key = (tensor, how)
    if key not in place.copies:
        place.copies[key] = writer.name()
        place.ahead += writer.noise(tensor, place.copies[key], kind, how)
    return place.copies[key]


def _sharing(node: "NodeProto", index: int, scope: _Scope) -> tuple[int, ...]:
    """Return the axes of a weight along which elements share a quantization step; () for all."""
    home = scope.home(node.input[index])
    rank = home.ranks.get(node.input[index], 0) if home is not None else 0
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    channels = {"Conv": 0, "ConvTranspose": 1, "MatMul": rank - 1, "Gemm": 0 if transposed else 1}
    own = channels.get(node.op_type)
    if index != 1 or rank < 2 or own is None:
        return ()
    return tuple(axis for axis in range(rank) if axis != own)


def _steps(graph: "GraphProto", types: Mapping[str, str]) -> bool:
    """Whether floats are cast to integers, compared or rounded: a step decides then."""
    for node in graph.node:
        floats = any(types.get(tensor) in KINDS for tensor in node.input)
        whole = node.op_type == "Cast" and any(
            types.get(tensor, "") not in KINDS for tensor in node.output
        )
        if floats and (whole or node.op_type in operators.STEPPING):
            return True
        if any(_steps(inner, types) for inner in subgraphs(node)):
            return True
    return False


def _names_of(parts: Iterable[Any]) -> frozenset[str]:
    return frozenset(part.name for part in parts)


def _exact(node: "NodeProto") -> bool:
    """Whether the results of a node are exact, given its operands."""
    if node.op_type in operators.EXACT:
        return True
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type in {"Resize", "Upsample"}:
        mode = attributes.get("mode")
        return mode is None or mode.s in {b"nearest", b""}
    if node.op_type in {"ScatterElements", "ScatterND", "Scatter"}:
        return "reduction" not in attributes or attributes["reduction"].s in {b"none", b""}
    return False


def _unused_prefix(names: Iterable[str]) -> str:
    """Return a prefix that no tensor of the model starts with."""
    prefix = "ci_parity_noise"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _names(graph: "GraphProto") -> Iterable[str]:
    for part in (graph.input, graph.output, graph.initializer):
        yield from (item.name for item in part)
    for node in graph.node:
        yield from node.input
        yield from node.output
        for inner in subgraphs(node):
            yield from _names(inner)
