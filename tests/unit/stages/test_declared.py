from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.base.errors import EvidenceError
from ci_parity.compare.contract import DeclaredPort
from ci_parity.stages.declared import declared_model, operator_sets
from tests.support.models import save_linear


def node(op: str, domain: str = "") -> onnx.NodeProto:
    """Return a node from x to y."""
    return helper.make_node(op, ["x"], ["y"], domain=domain)


def model(nodes: list[onnx.NodeProto], **opsets: int) -> onnx.ModelProto:
    """Return a model that imports these operator sets, underscores for dots."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    imports = [
        helper.make_opsetid("" if d == "onnx" else d.replace("_", "."), v)
        for d, v in opsets.items()
    ]
    return helper.make_model(graph, opset_imports=imports)


def test_ports_as_the_graph_declares_them(tmp_path: Path) -> None:
    """With element types, shapes and its own words for dimensions."""
    path = save_linear(tmp_path / "m.onnx")
    saved = onnx.load(path)
    saved.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    onnx.save(saved, path)
    found = declared_model(path)
    assert found.inputs == (
        DeclaredPort(
            name="x", kind="tensor", dtype="float32", shape=("batch", 3),
            denotations=("DATA_BATCH", ""),
        ),
    )  # fmt: skip
    assert [port.name for port in found.outputs] == ["y"]
    assert found.operators == (("ai.onnx", 17),)


def test_what_is_imported_and_not_used_does_not_count() -> None:
    """Optimizers import every domain they know."""
    assert operator_sets(model([node("Relu")], onnx=17, ai_onnx_ml=3, com_microsoft=1)) == (
        ("ai.onnx", 17),
    )


def test_both_spellings_of_the_default_domain() -> None:
    """Empty, or written out."""
    assert operator_sets(model([node("Relu", "ai.onnx")], onnx=13)) == (("ai.onnx", 13),)


def test_subgraphs_count() -> None:
    """A branch may come from a domain that the main graph has nothing of."""
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    branch = helper.make_graph([node("Gelu", "com.microsoft")], "b", [], [output])
    choice = helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    found = operator_sets(model([choice], onnx=17, com_microsoft=1))
    assert found == (("ai.onnx", 17), ("com.microsoft", 1))


def test_local_functions_count_by_their_nodes() -> None:
    """Their own domain is the model's; the operator sets of their bodies may be others."""
    saved = model([node("Own", "local")], onnx=17, local=1)
    function = helper.make_function(
        "local", "Own", ["x"], ["y"], [node("Relu"), node("Gelu", "com.microsoft")],
        [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
    )  # fmt: skip
    saved.functions.append(function)
    assert operator_sets(saved) == (("ai.onnx", 18), ("com.microsoft", 1))


def test_a_domain_that_is_not_imported_is_there_all_the_same() -> None:
    """Such a model does not load; it is no reason to overlook the domain."""
    assert operator_sets(model([node("Odd", "evil")], onnx=17)) == (("evil", 0),)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """As everywhere."""
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(EvidenceError):
        declared_model(path)
