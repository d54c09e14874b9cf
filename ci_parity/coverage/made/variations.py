"""What the semantics of an operator turn on, around one blueprint: edges, defaults, types.

Each variation asks a signature of its own, but for those of special values (`nan`, `inf`, `ties`),
which ask the same. NaN and infinities are tried only where IEEE 754 or the standard says what they
become; ties only where the standard says who wins. What the schema forbids is not made; what turns
out to have no meaning, the oracles refuse.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from ci_parity.coverage.made.blueprint import FLOATS, LEFT_OUT, Blueprint, Feed, Result, with_shape
from ci_parity.coverage.operators import BROADCASTING, ELEMENTWISE

if TYPE_CHECKING:
    from onnx.defs import OpSchema

_SPECIAL = frozenset(
    {
        "Add", "Sub", "Mul", "Div", "Neg", "Abs", "Exp", "Sqrt", "Identity", "IsNaN", "IsInf",
        "Equal", "Less", "Greater", "Reshape", "Transpose", "Concat", "Gather", "Where", "Slice",
        "Cast", "Ceil", "Floor", "Sin", "Cos", "Log", "Reciprocal",
    }
)  # fmt: skip
_TIES = frozenset({"ArgMax", "ArgMin", "TopK"})
_FREE = ELEMENTWISE | BROADCASTING | {"Transpose", "Softmax", "LogSoftmax", "Clip"}
_DTYPES = (
    "float32", "float16", "float64", "bfloat16", "int32", "int64", "int8", "uint8", "int16",
    "uint16", "uint32", "uint64", "bool", "string",
)  # fmt: skip
MAX_VARIATIONS = 48


def variations(
    blueprint: Blueprint, *, around: bool = True, dtypes: bool = True
) -> Iterator[Blueprint]:  # fmt: skip
    """Yield the variations of a blueprint, those that ask the same first.

    Args:
        blueprint: is varied.
        around: whether also those that ask something else.
        dtypes: whether other element types are among those.
    """
    yield from _special_values(blueprint)
    if not around:
        return
    found = (
        *_reshapes(blueprint), *_axes(blueprint), *_defaults(blueprint), *_sizes(blueprint),
        *_broadcasts(blueprint), *_left_out(blueprint), *_pads(blueprint),
        *(_dtypes(blueprint) if dtypes else ()),
    )  # fmt: skip
    yield from islice(found, MAX_VARIATIONS)


def _special_values(blueprint: Blueprint) -> Iterator[Blueprint]:
    first = blueprint.feed(0)
    if first is None or first.count < 2:
        return
    if blueprint.op_type in _SPECIAL and first.dtype in FLOATS and not blueprint.domain:
        to = blueprint.attribute("to")
        if blueprint.op_type != "Cast" or to in _FLOAT_CODES:
            for special in ("nan", "inf"):
                yield replace(blueprint, label=special, special=special)
    if blueprint.op_type in _TIES and first.dtype != "bool":
        yield replace(blueprint, label="ties", special="ties")


# TensorProto.DataType of FLOAT, FLOAT16, DOUBLE and BFLOAT16.
_FLOAT_CODES = frozenset({1, 10, 11, 16})


def _reshapes(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield what a target shape can say: -1, a 0 that copies, and a 0 that means zero."""
    if blueprint.op_type != "Reshape" or blueprint.domain:
        return
    data, shape = blueprint.inputs[0], blueprint.inputs[1]
    version = dict(blueprint.opsets).get("", 1)
    plain, empty = with_shape(data, (2, 3, 4)), with_shape(data, (0, 3, 4))
    for label, source, target, allowzero in _RESHAPES:
        if allowzero is not None and version < 14:
            continue
        fed = plain if source == "plain" else empty
        varied = blueprint.with_feeds({0: fed, 1: _vector(shape, target)}, label)
        yield varied.with_attribute("allowzero", allowzero, label)


_RESHAPES: tuple[tuple[str, str, tuple[int, ...], int | None], ...] = (
    ("inferred", "plain", (4, -1), None),
    ("inferred-last", "plain", (2, 3, -1), None),
    ("zero-copies", "plain", (0, 3, -1), None),
    ("zero-copies-in-the-middle", "plain", (3, 0, -1), 0),
    ("zero-copies-a-zero", "empty", (0, 12), None),
    ("zero-is-zero", "empty", (3, 0), 1),
    ("zero-is-zero-in-front", "empty", (0, 5, 7), 1),
    ("allowzero-without-zero", "plain", (4, -1), 1),
)


def _vector(feed: Feed, values: tuple[int, ...]) -> Feed:
    import numpy as np

    array = np.array(values, dtype=np.int64)
    return replace(with_shape(feed, array.shape), value=array)


def _axes(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield the same axis counted from the other end, and each of the other axes."""
    first = blueprint.feed(0)
    axis = blueprint.attribute("axis")
    if first is None or not isinstance(axis, int) or not first.shape:
        return
    rank = len(first.shape)
    if dict(blueprint.opsets).get("", 1) >= 11:
        yield blueprint.with_attribute(
            "axis", axis - rank if axis >= 0 else axis + rank, "axis-from-the-other-end"
        )


def _defaults(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield attributes at the values that the standard names, and left to their defaults."""
    schema = schema_of(blueprint)
    if schema is None:
        return
    required = {name for name, one in schema.attributes.items() if one.required}
    for attribute in blueprint.attributes:
        if attribute.name in schema.attributes and attribute.name not in required:
            yield blueprint.with_attribute(attribute.name, None, f"without-{attribute.name}")
    edges = EDGES.get(blueprint.op_type, {})
    plain = {name: values for name, one in schema.attributes.items()
             if name not in edges and (values := _plain_edges(name, one, blueprint))}  # fmt: skip
    for name, values in (*edges.items(), *plain.items()):
        if name not in schema.attributes:
            continue
        for value in values:
            if blueprint.attribute(name) != value:
                yield blueprint.with_attribute(name, value, f"{name}-{value}".replace(" ", ""))


def _plain_edges(
    name: str, formal: "OpSchema.Attribute", blueprint: Blueprint
) -> tuple[object, ...]:
    """Return other values of an attribute than its default, as far as its type tells any."""
    import onnx

    kind, default = str(formal.type).rpartition(".")[2], formal.default_value
    rank = len(blueprint.inputs[0].shape) if blueprint.inputs else 0
    given = default is not None and default.type != onnx.AttributeProto.UNDEFINED
    # No groups at all is no convolution.
    if kind == "INT" and given and default.i in {0, 1} and "axis" not in name and name != "group":
        return (0, 1)
    if kind == "FLOAT":
        return (default.f * 1.5 + 0.25,) if given else (0.75,)
    if kind == "INTS" and name in {"strides", "dilations"} and rank > 2:
        return ([*range(1, rank - 2), 2],)
    if kind == "INTS" and name == "pads" and rank > 2:
        return ([1] + [0] * (2 * rank - 5),)
    return ()


EDGES: dict[str, dict[str, tuple[object, ...]]] = {
    "ArgMax": {"keepdims": (0, 1), "select_last_index": (0, 1), "axis": (-1,)},
    "ArgMin": {"keepdims": (0, 1), "select_last_index": (0, 1), "axis": (-1,)},
    "AveragePool": {"ceil_mode": (0, 1), "count_include_pad": (0, 1),
                    "auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID")},
    "MaxPool": {"ceil_mode": (0, 1), "storage_order": (0,),
                "auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID")},
    "Conv": {"auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID")},
    "Cast": {"saturate": (0, 1)},
    "CumSum": {"exclusive": (0, 1), "reverse": (0, 1)},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Gelu": {"approximate": ("none", "tanh")},
    "Gemm": {"transA": (0,), "transB": (0,), "alpha": (0.5,), "beta": (0.0, 2.0)},
    "HardSigmoid": {"alpha": (0.5,), "beta": (0.25,)},
    "IsInf": {"detect_negative": (0,), "detect_positive": (0,)},
    "LeakyRelu": {"alpha": (0.0, 0.5, 1.5)},
    "Mod": {"fmod": (0, 1)},
    "Pad": {"mode": ("reflect", "edge", "wrap")},
    "Resize": {"coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners",
                                                  "pytorch_half_pixel"),
               "mode": ("nearest", "linear", "cubic"),
               "nearest_mode": ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor")},
    "ScatterElements": {"reduction": ("add", "mul", "max", "min")},
    "ScatterND": {"reduction": ("add", "mul", "max", "min")},
    "TopK": {"largest": (0, 1), "sorted": (1,)},
    "Trilu": {"upper": (0, 1)},
    **{f"Reduce{name}": {"keepdims": (0, 1), "noop_with_empty_axes": (0, 1)}
       for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp",
                    "LogSum")},
}  # fmt: skip


def _sizes(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield no element at all, and only one, where the sizes may be any."""
    if blueprint.op_type not in _FREE or blueprint.domain:
        return
    feeds = {at: feed for at, feed in enumerate(blueprint.inputs)
             if feed.kind == "tensor" and not (feed.fixed and at)}  # fmt: skip
    if any(feed.shape for feed in feeds.values()):
        yield blueprint.with_feeds(
            {at: with_shape(f, (0, *f.shape[1:])) for at, f in feeds.items() if f.shape}, "empty"
        )
        yield blueprint.with_feeds(
            {at: with_shape(f, (1,) * len(f.shape)) for at, f in feeds.items()}, "ones"
        )
    if blueprint.op_type in ELEMENTWISE | BROADCASTING:
        yield blueprint.with_feeds({at: with_shape(f, ()) for at, f in feeds.items()}, "scalar")


def _broadcasts(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield each way in which one tensor is stretched to the other."""
    if blueprint.op_type not in BROADCASTING or blueprint.domain or len(blueprint.inputs) != 2:
        return
    left, right = blueprint.inputs
    for label, one, other in (
        ("stretched-rows", (3, 4), (1, 4)), ("stretched-columns", (3, 4), (3, 1)),
        ("stretched-both", (3, 1), (1, 4)), ("stretched-rank", (2, 3, 4), (4,)),
        ("stretched-left", (4,), (2, 3, 4)), ("stretched-scalar", (3, 4), ()),
        ("stretched-empty", (0, 4), (1, 4)),
    ):  # fmt: skip
        if blueprint.op_type != "PRelu" or len(one) >= len(other):
            stretched = {0: with_shape(left, one), 1: with_shape(right, other)}
            yield blueprint.with_feeds(stretched, label)


def _left_out(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield it without each of its optional inputs."""
    schema = schema_of(blueprint)
    if schema is None:
        return
    for at, formal in enumerate(schema.inputs):
        is_optional = str(formal.option).endswith("Optional")
        if is_optional and blueprint.feed(at) is not None:
            yield blueprint.with_feeds({at: LEFT_OUT}, f"without-{formal.name}")


def _pads(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield pads that differ at each end of each axis."""
    pads = blueprint.attribute("pads")
    if blueprint.op_type in {"Conv", "AveragePool", "MaxPool"} and pads:
        kernel = blueprint.attribute("kernel_shape") or [3] * (len(pads) // 2)
        uneven = [min(1, size - 1) for size in kernel] + [0] * len(kernel)
        yield blueprint.with_attribute("pads", uneven, "uneven-pads")


def _dtypes(blueprint: Blueprint) -> Iterator[Blueprint]:
    """Yield it for the other element types that the schema allows for its first input."""
    schema = schema_of(blueprint)
    first = blueprint.feed(0)
    if schema is None or first is None or not schema.inputs:
        return
    variable = schema.inputs[0].type_str
    same = [at for at, formal in formals(schema, len(blueprint.inputs)) if formal == variable]
    for dtype in _DTYPES:
        if dtype == first.dtype or not allows(schema, variable, dtype):
            continue
        changed = {
            at: replace(blueprint.inputs[at], dtype=dtype, value=None)
            for at in same if blueprint.inputs[at].kind == "tensor"
        }  # fmt: skip
        results = tuple(replace(one, dtype="") for one in blueprint.outputs)
        yield replace(blueprint.with_feeds(changed, dtype), outputs=results)


def schema_of(blueprint: Blueprint) -> "OpSchema | None":
    """Return the operator's schema, None where the standard has none."""
    from onnx import defs

    try:
        version = dict(blueprint.opsets).get(blueprint.domain, 1)
        return defs.get_schema(blueprint.op_type, version, blueprint.domain)
    except defs.SchemaError:
        return None


def formals(schema: "OpSchema", count: int) -> Iterator[tuple[int, str]]:
    """Yield each input with the type, or the variable of types, that the schema gives it."""
    known = list(schema.inputs)
    for at in range(count):
        if known:
            yield at, str(known[min(at, len(known) - 1)].type_str)


def allows(schema: "OpSchema", variable: str, dtype: str) -> bool:
    """Whether a variable of types may be tensors of an element type."""
    spelt = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    wanted = f"tensor({spelt})"
    for constraint in schema.type_constraints:
        if constraint.type_param_str == variable:
            return wanted in constraint.allowed_type_strs
    return variable == wanted


def untyped(blueprint: Blueprint) -> Blueprint:
    """Return a blueprint whose outputs' types are to be inferred."""
    return replace(blueprint, outputs=tuple(Result(used=one.used) for one in blueprint.outputs))
