"""What the nodes of a model ask of a runtime: their signatures.

The first arrow of operator coverage: model and observed shapes in, `UsedSignature` records out.
Nodes of subgraphs and of functions count like any other. What neither the model nor a run tells
stays unknown; nothing is guessed, nothing is run here.

Sizes are told in words. `0` and `1` are sizes of their own, because runtimes have paths of their
own for them; all others are `n`. A size that the model leaves open is `n` until a run shows it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.coverage.attributes import attribute_texts, size_word, tensor_text
from ci_parity.coverage.inference import Whole, whole_of
from ci_parity.coverage.operators import STEERING, domain_of, form_of
from ci_parity.coverage.scope import UNKNOWN, Dims, Known, Observed, Scope, merged
from ci_parity.records.coverage import Port, Signature, UsedSignature
from ci_parity.records.values import Value, element_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

    Array = npt.NDArray[np.generic]

ABSENT = Port(kind="absent", dtype="", shape=())
UNKNOWN_RANK = ("?",)
_MAX_CASES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One node with its signature and what a test of it is made from.

    Args:
        signature: what it asks.
        node: as the model has it.
        name: of the node, with those of the nodes around it.
        opsets: what the model imports.
        ir_version: of the model.
        shapes: the real sizes of its inputs, None where no run and no model tells a size or a rank.
        open_dims: for each input, the sizes that the model does not fix.
        values: its inputs' values, by position, where they are fixed and small or were observed.
        fixed: the positions of inputs that the model fixes.
        captured: what its subgraphs take from the graphs around it, by name.
    """

    signature: Signature
    node: "NodeProto"
    name: str
    opsets: tuple[tuple[str, int], ...]
    ir_version: int
    shapes: tuple[Dims | None, ...]
    open_dims: tuple[tuple[bool, ...], ...]
    values: "Mapping[int, Array]"
    fixed: frozenset[int]
    captured: "Mapping[str, Captured]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A tensor that a subgraph takes from around it; its value where that is fixed and small."""

    known: Known
    fixed: bool
    value: "Array | None" = None


def signatures_of(
    model: "ModelProto", observed: Iterable[Mapping[str, Observed]] = ()
) -> tuple[UsedSignature, ...]:
    """Return the signatures that a trusted model asks for; see `sightings_of`."""
    return used(sightings_of(whole_of(model), observed))


def used(sightings: Iterable[Sighting]) -> tuple[UsedSignature, ...]:
    """Return each signature once, in the order of the graph, with the nodes that ask for it."""
    names: dict[Signature, dict[str, None]] = {}
    shapes: dict[Signature, tuple[tuple[int, ...] | None, ...]] = {}
    for sighting in sightings:
        names.setdefault(sighting.signature, {})[sighting.name] = None
        sizes = tuple(whole_shape(dims) for dims in sighting.shapes)
        shapes.setdefault(sighting.signature, sizes)
    return tuple(
        UsedSignature(signature=signature, nodes=tuple(found), shapes=shapes[signature])
        for signature, found in names.items()
    )


def sightings_of(
    whole: Whole, observed: Iterable[Mapping[str, Observed]] = (),
    names: Mapping[str, str] | None = None,
) -> tuple[Sighting, ...]:  # fmt: skip
    """Return every node of a model, once for each signature that it has in the runs observed.

    Args:
        whole: the model.
        observed: what its tensors were, by name, one mapping for each run.
        names: where a node of the main graph comes from, by its name, where that is another model.
    """
    reader = _Reader(whole, merged(observed)[:_MAX_CASES], names or {})
    scope = Scope()
    for weight in whole.weights:
        scope.fixed.add(weight)
    return tuple(reader.graph(whole.model.graph, scope, ""))


def case_signatures(
    model: "ModelProto", inputs: Mapping[str, Value], outputs: Mapping[str, Value] | None = None
) -> tuple[Signature, ...]:
    """Return what a node test says something about: the signature of its one node.

    A pass of several nodes is no evidence for each of them: then there is none. Constants beside
    the node do not count.

    Args:
        model: of the test; nothing is inferred, its ports say their types.
        inputs: by name.
        outputs: by name, where they are known.
    """
    sighting = case_sighting(model, inputs, outputs)
    return () if sighting is None else (sighting.signature,)


def case_sighting(
    model: "ModelProto", inputs: Mapping[str, Value], outputs: Mapping[str, Value] | None = None
) -> Sighting | None:
    """Return the one node of a node test; arguments and what counts are `case_signatures`'."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    if len(nodes) > 1 or not model.graph.node:
        return None
    wanted = nodes[0] if nodes else model.graph.node[-1]
    seen = {
        name: observed_value(value) for name, value in {**dict(outputs or {}), **inputs}.items()
    }
    weights = frozenset(tensor.name for tensor in model.graph.initializer)
    run = {name: one for name, one in seen.items() if one is not None}
    found = sightings_of(Whole(model=model, weights=weights), [run])
    return next((sighting for sighting in found if sighting.node == wanted), None)


def observed_value(value: Value) -> Observed | None:
    """Return what a value shows of the tensor it is; nothing of what is no tensor but its kind."""
    import numpy as np

    if isinstance(value, list):
        inner = [item for item in value if isinstance(item, np.ndarray)]
        return Observed(kind="sequence", dtype=element_type(inner[0]) if inner else "")
    if value is None or isinstance(value, dict):
        return None
    array = np.asarray(value)
    small = array if array.size <= 4096 and array.dtype.kind in "iuf" else None
    return Observed(dtype=element_type(array), shape=tuple(array.shape), value=small)


class _Reader:
    """Reads the nodes of one model, graph by graph."""

    def __init__(
        self, whole: Whole, runs: Sequence[Mapping[str, Observed]], names: Mapping[str, str]
    ) -> None:
        self._runs = runs
        self._names = names
        opsets = {domain_of(o.domain): int(o.version) for o in whole.model.opset_import}
        self._opsets = tuple(sorted(opsets.items()))
        self._versions = opsets
        self._ir_version = int(whole.model.ir_version)

    def graph(self, graph: "GraphProto", scope: Scope, place: str) -> Iterator[Sighting]:
        """Yield the nodes of a graph, each with those inside it behind it."""
        scope.enter(graph)
        for node in graph.node:
            scope.learn(node)
        for position, node in enumerate(graph.node):
            own = node.name or f"{node.op_type}_{position}"
            name = self._names.get(own, own) if not place else f"{place}/{own}"
            yield from self._node(node, scope, name)
            for attribute, inner in _graphs(node):
                yield from self.graph(inner, scope.inner(), f"{name}/{attribute}")

    def _node(self, node: "NodeProto", scope: Scope, name: str) -> Iterator[Sighting]:
        seen: set[Signature] = set()
        for run in self._runs:
            sighting = self._sighting(node, scope, name, run)
            if sighting.signature not in seen:
                seen.add(sighting.signature)
                yield sighting

    def _sighting(
        self, node: "NodeProto", scope: Scope, name: str, run: Mapping[str, Observed]
    ) -> Sighting:
        inputs = _stripped(list(node.input))
        values = _values(inputs, scope, run)
        fixed = frozenset(at for at, one in enumerate(inputs) if one and one in scope.fixed)
        known = [scope.types.get(one, UNKNOWN) for one in inputs]
        return Sighting(
            signature=self._signature(node, scope, run, values, fixed),
            node=node,
            name=name,
            opsets=self._opsets,
            ir_version=self._ir_version,
            shapes=tuple(_shape(k, run.get(one)) for k, one in zip(known, inputs, strict=True)),
            open_dims=tuple(tuple(size is None for size in k.dims or ()) for k in known),
            values=values,
            fixed=fixed,
            captured=_captured(node, scope, run),
        )

    def _signature(
        self, node: "NodeProto", scope: Scope, run: Mapping[str, Observed],
        values: "Mapping[int, Array]", fixed: frozenset[int],
    ) -> Signature:  # fmt: skip
        domain = domain_of(node.domain)
        since, defaults = _schema(domain, node.op_type, self._versions.get(domain, 0))
        given = {attribute.name for attribute in node.attribute}
        return Signature(
            domain=domain,
            op_type=node.op_type,
            since_version=since,
            attributes=attribute_texts(
                node.attribute, by_class=node.op_type == "Constant" and not domain
            ),
            defaults=tuple(name for name in defaults if name not in given),
            inputs=tuple(_port(one, scope, run) for one in _stripped(list(node.input))),
            outputs=tuple(_port(one, scope, run) for one in _stripped(list(node.output))),
            constants=_constants(domain, node.op_type, values, fixed),
            subgraph=_subgraph(node),
        )


@lru_cache(maxsize=4096)
def _schema(domain: str, op_type: str, opset: int) -> tuple[int, tuple[str, ...]]:
    """Return an operator's since-version and its attributes; of one ONNX does not know, neither."""
    from onnx import defs

    try:
        schema = defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return opset, ()
    return int(schema.since_version), tuple(sorted(schema.attributes))


def _port(name: str, scope: Scope, run: Mapping[str, Observed]) -> Port:
    if not name:
        return ABSENT
    known, seen = scope.types.get(name, UNKNOWN), run.get(name)
    is_open = name not in scope.fixed and (known.dims is None or None in known.dims)
    kind = seen.kind if seen is not None and known.dtype == "" else known.kind
    dtype = known.dtype or (seen.dtype if seen is not None else "")
    if kind != "tensor":
        return Port(kind=kind, dtype=dtype, shape=())
    if seen is not None and seen.kind == "tensor":
        return Port(
            kind=kind, dtype=dtype, shape=tuple(size_word(size) for size in seen.shape),
            dynamic=is_open and bool(seen.shape),
        )  # fmt: skip
    if known.dims is None:
        return Port(kind=kind, dtype=dtype, shape=UNKNOWN_RANK, dynamic=True)
    words = tuple("n" if size is None else size_word(size) for size in known.dims)
    return Port(kind=kind, dtype=dtype, shape=words, dynamic=is_open)


def _shape(known: Known, seen: Observed | None) -> Dims | None:
    return seen.shape if seen is not None and seen.kind == "tensor" else known.dims


def whole_shape(dims: Dims | None) -> tuple[int, ...] | None:
    """Return sizes where all of them are known."""
    sizes = tuple(size for size in dims or () if size is not None)
    return sizes if dims is not None and len(sizes) == len(dims) else None


def _values(inputs: Sequence[str], scope: Scope, run: Mapping[str, Observed]) -> "dict[int, Array]":
    found: dict[int, Array] = {}
    for at, name in enumerate(inputs):
        value = scope.value(name) if name else None
        seen = run.get(name)
        if value is None and seen is not None:
            value = seen.value
        if value is not None:
            found[at] = value
    return found


def _constants(
    domain: str, op_type: str, values: "Mapping[int, Array]", fixed: frozenset[int]
) -> tuple[tuple[int, str], ...]:
    """Return the steering inputs, those that are only known from a run marked as fed."""
    if domain:
        return ()
    told: list[tuple[int, str]] = []
    for at in sorted(STEERING.get(op_type, ())):
        if at not in values or values[at].dtype.kind not in "iufb":
            continue
        if op_type == "Gather" and at not in fixed:
            continue
        form: Json = form_of(op_type, at, values[at])
        told.append((at, _text(form if at in fixed else {"fed": form})))
    return tuple(told)


def _text(value: Json) -> str:
    return canonical_bytes(value).decode()


def _graphs(node: "NodeProto") -> "Iterator[tuple[str, GraphProto]]":
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for at, inner in enumerate(attribute.graphs):
            yield f"{attribute.name}[{at}]", inner


def _captured(
    node: "NodeProto", scope: Scope, run: Mapping[str, Observed]
) -> "dict[str, Captured]":
    found: dict[str, Captured] = {}
    for name in dict.fromkeys(name for _, graph in _graphs(node) for name in _free(graph)):
        known, seen = scope.types.get(name, UNKNOWN), run.get(name)
        if known.dims is None and seen is not None and seen.kind == "tensor":
            dtype = known.dtype or seen.dtype
            known = Known(dtype=dtype, dims=(None,) * len(seen.shape))
        found[name] = Captured(known=known, fixed=name in scope.fixed, value=scope.value(name))
    return found


def _free(graph: "GraphProto") -> Iterator[str]:
    """Yield the names that a graph uses and does not define."""
    own = {port.name for port in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer} | {""}
    for node in graph.node:
        inner = (name for _, one in _graphs(node) for name in _free(one))
        yield from (name for name in (*node.input, *inner) if name not in own)
        own.update(node.output)
    yield from (port.name for port in graph.output if port.name not in own)


def _subgraph(node: "NodeProto") -> str:
    """Return the digest of what a node's graphs compute, whatever their tensors are called."""
    told = [[name, _told(graph, {})] for name, graph in _graphs(node)]
    return sha256_bytes(canonical_bytes(told)) if told else ""


def _told(graph: "GraphProto", outer: Mapping[str, int]) -> Json:
    """Return a graph as JSON; tensors are numbered in the order in which they occur."""
    numbers = dict(outer)

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers)) if name else -1

    inputs = [number(port.name) for port in graph.input]
    held: list[Json] = [[number(t.name), tensor_text(t)] for t in graph.initializer]
    nodes: list[Json] = []
    for node in graph.node:
        plain: list[AttributeProto] = list(node.attribute)
        nodes.append(
            [
                domain_of(node.domain), node.op_type, [number(name) for name in node.input],
                [list(pair) for pair in attribute_texts(plain)],
                [[name, _told(inner, numbers)] for name, inner in _graphs(node)],
                [number(name) for name in node.output],
            ]
        )  # fmt: skip
    return [inputs, held, nodes, [number(port.name) for port in graph.output]]


def _stripped(names: list[str]) -> list[str]:
    """Return names without those that are left out at the end."""
    while names and not names[-1]:
        names.pop()
    return names
