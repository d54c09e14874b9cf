"""What a node's attributes say, whether or not it spells out what goes without saying."""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import AttributeProto, NodeProto

# A fused activation is read apart; the shape of a kernel is that of the weight.
_TOLD_ELSEWHERE = frozenset({"activation", "activation_params", "kernel_shape"})
_NEUTRAL = {"dilations": 1, "strides": 1, "pads": 0, "output_padding": 0}
_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})


def telling(node: "NodeProto") -> "Iterator[AttributeProto]":
    """Yield the attributes of a node that differ from the operator's defaults."""
    defaults = _defaults(node.op_type, "" if node.domain == "ai.onnx" else node.domain)
    for attribute in node.attribute:
        plain = attribute.name not in _TOLD_ELSEWHERE or node.op_type in _POOLS
        if plain and not _neutral(attribute) and _value(attribute) != defaults.get(attribute.name):
            yield attribute


def _neutral(attribute: "AttributeProto") -> bool:
    wanted = _NEUTRAL.get(attribute.name)
    return wanted is not None and all(value == wanted for value in attribute.ints)


def _value(attribute: "AttributeProto") -> bytes:
    from onnx import AttributeProto

    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return bytes(bare.SerializeToString(deterministic=True))


@lru_cache(maxsize=1024)
def _defaults(op_type: str, domain: str) -> dict[str, bytes]:
    """Return the defaults of an operator's newest version; they do not change between versions."""
    from onnx import defs

    if not defs.has(op_type, domain):
        return {}
    known = defs.get_schema(op_type, domain).attributes
    return {name: _value(one.default_value) for name, one in known.items() if one.default_value}
