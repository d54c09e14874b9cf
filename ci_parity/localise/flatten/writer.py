"""Writing the main graph anew: nodes with names of their own, and the constants they need."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ci_parity.localise.flatten import control
from ci_parity.localise.flatten.names import Names, all_names, rename, synthetic_name
from ci_parity.localise.flatten.state import Flattened

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto

_FIRST_IR_OF_CONSTANTS = 4
_OPSET_OF_AXES_INPUT = 13


class Writer:
    """A copy of a model whose main graph is written node by node.

    `origin` has where each node written so far stood in the first model.
    """

    def __init__(self, flat: Flattened) -> None:
        import onnx

        self.model = onnx.ModelProto()
        self.model.CopyFrom(flat.model)
        self.graph: GraphProto = self.model.graph
        self.opset = control.opset(self.model)
        self.origin: dict[str, str] = {}
        self._origin_before = flat.origin
        self._tensors = Names(all_names(self.graph))
        self._nodes = Names(node.name for node in self.graph.node)
        self._numbers: dict[tuple[int, tuple[int, ...], int], str] = {}
        del self.graph.node[:]

    def path(self, node: "NodeProto") -> str:
        """Return where a node of the main graph stood in the first model."""
        return self._origin_before[node.name]

    def keep(self, node: "NodeProto") -> None:
        """Write a node of the main graph as it is."""
        self.graph.node.append(node)
        self.origin[node.name] = self.path(node)

    def lay(
        self, nodes: "Iterable[tuple[int, NodeProto]]", place: str, names: dict[str, str],
        types: "Mapping[str, TypeProto]",
    ) -> None:  # fmt: skip
        """Write copies of nodes of another graph, each with its position there.

        Args:
            nodes: in the order in which they run.
            place: the path of their graph.
            names: the main graph's names of what the nodes read; what they make is added under new
                names unless it has one here.
            types: of what they make, as far as that graph tells. Shapes are not taken over: they
                may hold in one turn, and the names of their dimensions in one graph.
        """
        for position, node in nodes:
            copy = self.graph.node.add()
            copy.CopyFrom(node)
            rename(copy, names)
            for index, name in enumerate(node.output):
                if not name:
                    continue
                if name not in names:
                    names[name] = self._tensors.fresh(f"{place}/{name}")
                    if name in types:
                        port = self.graph.value_info.add(name=names[name])
                        port.type.CopyFrom(types[name])
                        _forget_shapes(port.type)
                copy.output[index] = names[name]
            self._name(copy, f"{place}/{node.name or synthetic_name(node, position)}")

    def make(
        self, op: str, inputs: Sequence[str], place: str, *, output: str = "",
        attribute: tuple[str, int | list[int]] | None = None,
    ) -> str:  # fmt: skip
        """Write a node of one output that moves values; return the name of its output."""
        from onnx import helper

        output = output or self._tensors.fresh(f"{place}/{op}")
        node = self.graph.node.add()
        node.CopyFrom(helper.make_node(op, list(inputs), [output]))
        if attribute is not None:
            node.attribute.append(helper.make_attribute(*attribute))
        self._name(node, f"{place}/{op}")
        return output

    def unsqueeze(self, tensor: str, axis: int, place: str, *, output: str = "") -> str:
        """Write a node that adds an axis; return the name of its output."""
        if self.opset < _OPSET_OF_AXES_INPUT:
            return self.make(
                "Unsqueeze", [tensor], place, output=output, attribute=("axes", [axis])
            )
        return self.make("Unsqueeze", [tensor, self.integers([axis])], place, output=output)

    def integers(self, values: Sequence[int], *, scalar: bool = False) -> str:
        """Return the name of a constant int64 tensor, [values] or, of one value, a scalar."""
        from onnx import TensorProto

        return self._number(TensorProto.INT64, values, 0 if scalar else 1)

    def true(self, rank: int) -> str:
        """Return the name of a constant `True` of rank 0 or 1."""
        from onnx import TensorProto

        return self._number(TensorProto.BOOL, [1], rank)

    def hold(self, tensor: "TensorProto", name: str) -> str:
        """Add a weight under a new name made from `name`, which is returned."""
        from onnx import helper

        copy = self.graph.initializer.add()
        copy.CopyFrom(tensor)
        new = self._tensors.fresh(name)
        copy.name = new
        if self.model.ir_version < _FIRST_IR_OF_CONSTANTS:
            port = helper.make_tensor_value_info(new, copy.data_type, list(copy.dims))
            self.graph.input.append(port)
        return new

    def hold_all(self, graph: "GraphProto", place: str) -> dict[str, str]:
        """Add the weights of another graph, and return their new names by the old ones."""
        new = {held.name: self.hold(held, f"{place}/{held.name}") for held in graph.initializer}
        for sparse in graph.sparse_initializer:
            copy = self.graph.sparse_initializer.add()
            copy.CopyFrom(sparse)
            copy.values.name = self._tensors.fresh(f"{place}/{sparse.values.name}")
            new[sparse.values.name] = copy.values.name
        return new

    def _number(self, kind: int, values: Sequence[int], rank: int) -> str:
        from onnx import helper

        key = (kind, tuple(values), rank)
        if key not in self._numbers:
            dims = [len(values)] if rank else []
            made = helper.make_tensor("", kind, dims, list(values))
            self._numbers[key] = self.hold(made, f"constant_{'_'.join(map(str, values))}")
        return self._numbers[key]

    def _name(self, node: "NodeProto", path: str) -> None:
        node.name = self._nodes.fresh(path)
        self.origin[node.name] = path


def _forget_shapes(kind: "TypeProto") -> None:
    """Keep the element type of a tensor, or of the tensors in a sequence or an optional."""
    while (form := kind.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        kind = getattr(kind, form).elem_type
    if form in {"tensor_type", "sparse_tensor_type"}:
        getattr(kind, form).ClearField("shape")
    elif form == "map_type":
        _forget_shapes(kind.map_type.value_type)
