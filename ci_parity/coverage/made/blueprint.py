"""What one generated node test is to be, before it has numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import AttributeProto

    Array = npt.NDArray[np.generic]

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One input of the node.

    Args:
        kind: `tensor`, or `absent` for one that is left out.
        dtype: element type, as `records.values` spells it.
        shape: its sizes.
        is_open: for each size, whether the model leaves it open.
        value: where it is given and not made up.
        fixed: whether it stands in the model, instead of being fed.
    """

    kind: str = "tensor"
    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    is_open: tuple[bool, ...] = ()
    value: "Array | None" = None
    fixed: bool = False

    @property
    def count(self) -> int:
        """How many elements it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count


LEFT_OUT = Feed(kind="absent", dtype="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One output of the node; `name` only where it is used, `is_open` where its sizes are."""

    used: bool = True
    dtype: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """One node test.

    `label` tells it from the others made for the same node, empty for the node as it is. `special`
    names the kind of values it is about, empty for plain numbers.
    """

    op_type: str
    domain: str = ""
    opsets: tuple[tuple[str, int], ...]
    ir_version: int
    attributes: "tuple[AttributeProto, ...]" = ()
    inputs: tuple[Feed, ...]
    outputs: tuple[Result, ...] = field(default=(Result(),))
    label: str = ""
    special: str = ""

    def attribute(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as ONNX has it
        """Return an attribute's value, `default` where it is not set."""
        import onnx

        for one in self.attributes:
            if one.name == name:
                value = onnx.helper.get_attribute_value(one)
                return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return default

    def feed(self, at: int) -> Feed | None:
        """Return an input, None where it is left out."""
        if at >= len(self.inputs) or self.inputs[at].kind == "absent":
            return None
        return self.inputs[at]

    def with_feeds(self, changed: Mapping[int, Feed], label: str) -> "Blueprint":
        """Return it with other inputs; outputs' types may have to be found anew."""
        feeds = tuple(changed.get(at, feed) for at, feed in enumerate(self.inputs))
        return replace(self, inputs=feeds, label=label)

    def with_attribute(self, name: str, value: Any, label: str) -> "Blueprint":  # noqa: ANN401
        """Return it with an attribute set to another value, or not set for None."""
        import onnx

        kept = tuple(one for one in self.attributes if one.name != name)
        if value is not None:
            kept = (*kept, onnx.helper.make_attribute(name, value))
        return replace(self, attributes=kept, label=label)


def with_shape(feed: Feed, shape: tuple[int, ...]) -> Feed:
    """Return an input with other sizes; its value, which no longer fits, is given up."""
    same_rank = len(feed.is_open) == len(shape)
    open_dims = feed.is_open if same_rank else (any(feed.is_open),) * len(shape)
    return replace(feed, shape=shape, is_open=open_dims, value=None)
