import hashlib
import json
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.errors import EvidenceError
from ci_parity.detect.identity import model_digest
from ci_parity.detect.model import artifact_sha256, facts_of, read_model_facts
from ci_parity.detect.model_changes import explain_models
from ci_parity.records import codec
from ci_parity.records.model_facts import FileFact, ModelFacts, OpsetFact
from tests.support.models import save_linear
from tests.unit.detect.model_graphs import random_model

MIB = 2**20


def saved_outside(folder: Path, model: onnx.ModelProto) -> Path:
    """Save a model with all its weights in `data/w.bin`."""
    path = folder / "m.onnx"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    onnx.save(
        model, path, save_as_external_data=True, location="data/w.bin", size_threshold=0,
        convert_attribute=True,
    )  # fmt: skip
    return path


def chain(length: int, size: int) -> onnx.ModelProto:
    """Return a model that multiplies by one weight after the other."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n in ("v0", "y")]
    names = [f"/model/layers.{i}/self_attn/projection/Mul_output" for i in range(length)]
    values = ["v0", *names[:-1], "y"]
    nodes = [
        helper.make_node("Mul", [values[i], f"model.layers.{i}.weight"], [values[i + 1]], names[i])
        for i in range(length)
    ]
    weights = [
        numpy_helper.from_array(np.full(size, i, np.float32), f"model.layers.{i}.weight")
        for i in range(length)
    ]
    return helper.make_model(helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights))


def test_without_meaning_the_header_and_the_files_are_told(tmp_path: Path) -> None:
    """Each file is hashed once; the graph is not walked."""
    path = saved_outside(tmp_path, random_model(0))
    facts = read_model_facts(path)
    data = (tmp_path / "data" / "w.bin").read_bytes()
    assert facts.graph is None
    assert facts.graph_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert facts.files == (
        FileFact(name="data/w.bin", sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data)),
    )
    assert (facts.ir_version, facts.producer_name) == (10, "maker")
    assert OpsetFact(domain="ai.onnx", version=21) in facts.opsets


def test_the_artifact_digest_is_the_identity_of_the_model(tmp_path: Path) -> None:
    """Facts that were read once need no second hashing of the files."""
    path = saved_outside(tmp_path, random_model(1))
    assert artifact_sha256(read_model_facts(path)) == model_digest(path)


@pytest.mark.parametrize("seed", range(20))
def test_weights_may_move_to_external_data(seed: int, tmp_path: Path) -> None:
    """ONNX's own writer moves initializers and Constant nodes, in subgraphs too."""
    model = random_model(seed)
    before = facts_of(model, tmp_path)
    after = read_model_facts(saved_outside(tmp_path, model), semantic=True)
    assert before.graph is not None
    assert after.graph is not None
    assert after.graph.semantic_sha256 == before.graph.semantic_sha256
    if after.files:
        assert any("moved to external data" in words for words in explain_models(before, after))


def test_facts_survive_the_way_to_another_machine(tmp_path: Path) -> None:
    """They are scalars and tuples, in canonical JSON both ways."""
    for seed in range(20):
        facts = facts_of(random_model(seed), tmp_path)
        data = codec.to_bytes(facts)
        assert codec.from_bytes(ModelFacts, data, where="facts") == facts


def test_facts_of_five_thousand_nodes_stay_small(tmp_path: Path) -> None:
    """Less than 2 MB of JSON with a weight at every node, and explained at once."""
    model = chain(5_000, 2)
    before = facts_of(model, tmp_path)
    assert len(codec.to_bytes(before)) < 2_000_000
    model.graph.node[2_500].op_type = "Div"
    assert explain_models(before, facts_of(model, tmp_path)) == (
        "Mul /model/layers.2500/self_attn/projection/Mul_output replaced by Div",
    )


def test_memory_does_not_grow_with_external_data(tmp_path: Path) -> None:
    """A tensor of 64 MiB costs a few pieces of one."""
    size = 64 * MIB
    model = chain(1, size // 4)
    path = saved_outside(tmp_path, model)
    del model
    read_model_facts(save_linear(tmp_path / "small.onnx"), semantic=True)
    tracemalloc.start()
    read_model_facts(path, semantic=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MIB


def test_metadata_is_told_apart_from_meaning(tmp_path: Path) -> None:
    """Properties, docs, version and training graphs have a digest of their own."""
    digests = set()
    for number in range(7):
        model = random_model(0)
        match number:
            case 1:
                model.doc_string = "doc"
            case 2:
                model.domain = "org.example"
            case 3:
                model.model_version = 2**62
            case 4:
                model.metadata_props.add(key="k", value="v")
            case 5:
                model.graph.doc_string = "doc"
            case 6:
                model.training_info.add()
        facts = facts_of(model, tmp_path)
        assert facts.graph == facts_of(random_model(0), tmp_path).graph
        digests.add(facts.metadata_sha256)
    assert len(digests) == 7


def test_a_git_lfs_pointer_is_no_model(tmp_path: Path) -> None:
    """Neither as the graph nor as its data."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    path = saved_outside(tmp_path, random_model(0))
    (tmp_path / "data" / "w.bin").write_bytes(pointer)
    with pytest.raises(EvidenceError, match="Git LFS pointer"):
        read_model_facts(path)
    path.write_bytes(pointer)
    with pytest.raises(EvidenceError, match="Git LFS pointer"):
        read_model_facts(path)


def test_external_data_outside_the_folder_is_refused_in_memory_too(tmp_path: Path) -> None:
    """Whoever wrote the model does not choose what is read."""
    model = random_model(0)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    with pytest.raises(EvidenceError, match="leaves the model's folder"):
        facts_of(model, tmp_path)


def test_facts_hold_no_arrays_and_no_machine_paths(tmp_path: Path) -> None:
    """What is stored says nothing of the machine it was read on."""
    path = saved_outside(tmp_path, random_model(3))
    text = json.dumps(codec.to_json(read_model_facts(path, semantic=True)))
    assert str(tmp_path) not in text
