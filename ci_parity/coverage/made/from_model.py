"""A node of a model becomes the blueprint of a test that asks exactly the same.

Attributes, element types, ranks, and every small value that the model fixes are taken over. Sizes
are the real ones where they are known; those that only cost time are made smaller where the
operator lets them be, and height and width are made to differ. The test then has the signature of
the node, which whoever runs it checks.
"""

import math

from ci_parity.coverage.made.blueprint import LEFT_OUT, Blueprint, Feed, Result
from ci_parity.coverage.operators import BROADCASTING, CONTROL, ELEMENTWISE, RANDOM, STEERING
from ci_parity.coverage.scope import Dims
from ci_parity.coverage.signatures import UNKNOWN_RANK, Sighting
from ci_parity.records.coverage import Port

MAX_ELEMENTS = 2**22
_SMALL = 4096
# Sizes by position from the right, all different: a swapped pair of axes shows.
_SIZES = (5, 4, 3, 2, 6, 7, 3, 2)
_WINDOWS = frozenset(
    {
        "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "ConvInteger", "QLinearConv",
        "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization", "InstanceNormalization",
        "Resize", "Upsample", "LRN",
    }
)  # fmt: skip
# Operators whose sizes may be any, as long as equal ones stay equal, counted from the right.
_ALIGNED = (
    ELEMENTWISE | BROADCASTING
    | {"Softmax", "LogSoftmax", "LayerNormalization", "Transpose", "Clip", "Hardmax", "Dropout"}
)  # fmt: skip


class Unmakeable(Exception):  # noqa: N818 - an answer, not a mishap
    """Why no test can be made for a signature."""


def blueprint_of(
    sighting: Sighting, *, with_values: bool = False, judged: bool = True
) -> Blueprint:  # fmt: skip
    """Return the test that a node calls for.

    Args:
        sighting: the node.
        with_values: also take over values that do not steer it, where they are small.
        judged: whether something must say what the test gives.

    Raises:
        Unmakeable: saying why there is none.
    """
    signature = sighting.signature
    _refuse(sighting, judged=judged)
    shapes = _smaller(sighting, _shapes(sighting))
    feeds: list[Feed] = []
    for at, (port, shape) in enumerate(zip(signature.inputs, shapes, strict=True)):
        if port.kind == "absent" or shape is None:
            feeds.append(LEFT_OUT)
            continue
        value = sighting.values.get(at)
        steers = with_values or at in sighting.fixed
        steers = steers or at in STEERING.get(signature.op_type, {})
        feeds.append(
            Feed(
                dtype=port.dtype,
                shape=shape,
                is_open=open_sizes(port, sighting.open_dims[at], len(shape)),
                value=value if steers and value is not None and value.shape == shape else None,
                fixed=at in sighting.fixed,
            )
        )
    if sum(feed.count for feed in feeds) > MAX_ELEMENTS:
        raise Unmakeable("its tensors are too large for a test, and cannot be made smaller")
    return Blueprint(
        op_type=signature.op_type,
        domain=signature.domain,
        opsets=sighting.opsets,
        ir_version=sighting.ir_version,
        attributes=tuple(sighting.node.attribute),
        inputs=tuple(feeds),
        outputs=(*(_result(port) for port in signature.outputs), *_unused(sighting)),
    )


def _unused(sighting: Sighting) -> list[Result]:
    """Return the outputs at the end that the node has and does not name."""
    count = len(sighting.node.output) - len(sighting.signature.outputs)
    return [Result(used=False)] * count


def _result(port: Port) -> Result:
    dtype = port.dtype if port.kind == "tensor" else ""
    return Result(used=port.kind != "absent", dtype=dtype, is_open=port.dynamic)


def _refuse(sighting: Sighting, *, judged: bool) -> None:
    """Refuse what no test can be made of; nothing is known by name that the schema does not say."""
    from onnx import defs

    signature = sighting.signature
    kind, opset = signature.op_type, dict(sighting.opsets).get(signature.domain, 0)
    if signature.subgraph or kind in CONTROL:
        raise Unmakeable("control flow: what its graphs do decides, and is tested node by node")
    if kind in RANDOM and judged:
        raise Unmakeable("random: the standard does not say what it gives")
    try:
        defs.get_schema(kind, opset, signature.domain)
    except defs.SchemaError:
        if judged:
            words = "not of the ONNX standard: nothing says what it must give"
            raise Unmakeable(words) from None
    if any(attribute.ref_attr_name for attribute in sighting.node.attribute):
        raise Unmakeable("an attribute is that of the function around it")
    steering = STEERING.get(kind, {}) if not signature.domain and kind != "Gather" else {}
    for at, port in enumerate(signature.inputs):
        if port.kind != "absent":
            _refuse_unknown(at, port, steers=at in steering, known=at in sighting.values)


def _refuse_unknown(at: int, port: Port, *, steers: bool, known: bool) -> None:
    if port.kind != "tensor":
        raise Unmakeable(f"input {at} is a {port.kind}")
    if not port.dtype:
        raise Unmakeable(f"the element type of input {at} is not known")
    if port.shape == UNKNOWN_RANK:
        raise Unmakeable(f"the rank of input {at} is not known without a run of the model")
    if steers and not known:
        raise Unmakeable(f"what input {at} says is not known without a run of the model")


def open_sizes(port: Port, known: tuple[bool, ...], rank: int) -> tuple[bool, ...]:
    """Return which sizes of an input a test leaves open: at least one where the model leaves any.

    Args:
        port: the input.
        known: which sizes the model leaves open, as far as it tells.
        rank: how many sizes there are.
    """
    if not port.dynamic:
        return (False,) * rank
    return known if len(known) == rank and any(known) else (True,) * rank


def _shapes(sighting: Sighting) -> list[tuple[int, ...] | None]:
    """Return sizes for every input: real ones, else such as fit the words."""
    found: list[tuple[int, ...] | None] = []
    for at, port in enumerate(sighting.signature.inputs):
        value = sighting.values.get(at)
        real = value.shape if value is not None else sighting.shapes[at]
        words = _from_words(port.shape)
        found.append(None if port.kind == "absent" else _known_first(real, words))
    return _fitted(sighting, found)


def _known_first(real: Dims | None, made_up: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes that are known, others as they were made up."""
    if real is None:
        return made_up
    pairs = zip(real, made_up, strict=True)
    return tuple(size if size is not None else other for size, other in pairs)


def _from_words(words: tuple[str, ...]) -> tuple[int, ...]:
    rank = len(words)
    return tuple(
        int(word) if word in {"0", "1"} else _SIZES[min(rank - 1 - place, len(_SIZES) - 1)]
        for place, word in enumerate(words)
    )


def _fitted(
    sighting: Sighting, shapes: list[tuple[int, ...] | None]
) -> list[tuple[int, ...] | None]:
    """Make sizes that were made up fit those that are known."""
    kind, first = sighting.signature.op_type, shapes[0] if shapes else None
    partial = [dims is None or None in dims for dims in sighting.shapes]
    if first is None or not any(partial):
        return shapes
    if kind in _WINDOWS and partial[0] and len(first) > 2:
        room = _window(sighting, tuple(64 if size > 1 else size for size in first[2:]))
        first = shapes[0] = _known_first(sighting.shapes[0], (*first[:2], *room))
    second = shapes[1] if len(shapes) > 1 else None
    if second is None:
        return shapes
    if kind in {"Conv", "ConvTranspose"} and partial[0]:
        channels = second[1] * _group(sighting) if kind == "Conv" else second[0]
        shapes[0] = _known_first(sighting.shapes[0], (first[0], channels, *first[2:]))
    elif kind in {"BatchNormalization", "InstanceNormalization"} and partial[0]:
        shapes[0] = _known_first(sighting.shapes[0], (first[0], second[0], *first[2:]))
    elif kind == "MatMul" and len(first) > 1 and len(second) > 1:
        if partial[0]:
            shapes[0] = _known_first(sighting.shapes[0], (*first[:-1], second[-2]))
        else:
            shapes[1] = (*second[:-2], first[-1], second[-1])
    elif kind in BROADCASTING or kind == "Concat":
        _align([at for at, unsure in enumerate(partial) if unsure], shapes)
    return shapes


def _group(sighting: Sighting) -> int:
    return next((int(a.i) for a in sighting.node.attribute if a.name == "group"), 1)


def _align(made_up: list[int], shapes: list[tuple[int, ...] | None]) -> None:
    """Give made-up sizes those of the known inputs at the same place from the right."""
    sizes: dict[int, int] = {}
    for at, shape in enumerate(shapes):
        if shape is not None and at not in made_up:
            sizes |= {place: size for place, size in enumerate(reversed(shape)) if size > 1}
    for at in made_up:
        shape = shapes[at]
        if shape is not None:
            turned = (sizes.get(p, s) if s > 1 else s for p, s in enumerate(reversed(shape)))
            shapes[at] = tuple(reversed(tuple(turned)))


def _smaller(
    sighting: Sighting, shapes: list[tuple[int, ...] | None]
) -> list[tuple[int, ...] | None]:
    """Return smaller sizes of the same words where the operator lets them be any."""
    kind = sighting.signature.op_type
    if sum(math.prod(shape) for shape in shapes if shape is not None) <= _SMALL:
        return shapes
    first = shapes[0] if shapes else None
    if kind in _WINDOWS and first is not None and len(first) > 2:
        return [(*first[:2], *_window(sighting, first[2:])), *shapes[1:]]
    if kind in _ALIGNED and not _has_fixed_values(sighting):
        return _aligned(shapes)
    if kind == "Gather" and first is not None:
        return [_table(sighting, first), *shapes[1:]]
    return shapes


def _window(sighting: Sighting, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return spatial sizes that several windows fit into, height and width different."""
    given = {a.name: list(a.ints) for a in sighting.node.attribute if a.ints}
    rank = len(sizes)
    kernel = given.get("kernel_shape", [1] * rank)
    dilations, strides = given.get("dilations", [1] * rank), given.get("strides", [1] * rank)
    found = []
    for at, size in enumerate(sizes):
        reach = (kernel[at] - 1) * dilations[at] + 1
        wanted = reach + 3 * strides[at] + 3 + 2 * (rank - at)
        found.append(size if size <= 1 else max(2, min(size, wanted)))
    return tuple(found)


def _has_fixed_values(sighting: Sighting) -> bool:
    """Whether a value that is taken over has sizes of its own."""
    return any(value.size > 1 for at, value in sighting.values.items() if at in sighting.fixed)


def _aligned(shapes: list[tuple[int, ...] | None]) -> list[tuple[int, ...] | None]:
    """Return sizes by their place from the right; those of 0 and 1 stay."""
    return [
        None if shape is None else tuple(
            size if size <= 1 else min(size, _PLACES[min(len(shape) - 1 - at, len(_PLACES) - 1)])
            for at, size in enumerate(shape)
        )
        for shape in shapes
    ]  # fmt: skip


_PLACES = (17, 7, 5, 3, 2)


def _table(sighting: Sighting, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a smaller table to gather from, with room for the indices that are known."""
    axis = next((int(a.i) for a in sighting.node.attribute if a.name == "axis"), 0) % len(shape)
    indices = sighting.values.get(1) if 1 in sighting.fixed else None
    wanted = 23
    if indices is not None and indices.size:
        if int(indices.min()) < 0:
            return shape
        wanted = int(indices.max()) + 2
    return tuple(min(size, wanted if at == axis else 11) if size > 1 else size
                 for at, size in enumerate(shape))  # fmt: skip
