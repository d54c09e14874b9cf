"""The folder of a reproduction: what is in it, in every type, and harmless whatever its names."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.fixtures.proto import read_proto
from ci_parity.localise.handout.results import read_value
from ci_parity.localise.reproduction import Observed, Reproduction, System, write_reproduction
from ci_parity.localise.specimen import Specimen
from ci_parity.records.divergence import NodeName
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import Value

HOSTILE = "a`b|c\n```\n# @everyone <img src=x> ![](http://x.y) \u202e\x1b[31m $(touch /tmp/x) ';"
X = np.array([[1, 2, 3]], np.float32)
FILES = {
    "README.md", "baseline.npz", "candidate.npz", "inputs.npz", "model.onnx", "repro.json",
    "reproduce.py", "results.py", "runtimes.py", "test_data_set_0", "test_data_set_candidate",
}  # fmt: skip


def model_of(inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",)) -> onnx.ModelProto:
    """Return a model with a node of attributes of all sorts, and ports of these names."""
    node = helper.make_node(
        "Conv", list(inputs), list(outputs), name="n", pads=[1] * 20, alpha=0.5, mode="fast", k=3,
        t=numpy_helper.from_array(X),
    )  # fmt: skip
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in side]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph([node], "g", ports[0], ports[1])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def specimen_of(model: onnx.ModelProto, inputs: dict[str, Value] | None = None) -> Specimen:
    """Return a specimen with one model."""
    return Specimen(baseline=model, candidate=model, inputs=inputs or {"x": X})


def about_of(runtime: str = "onnxruntime==1.26.0", **others: Any) -> Reproduction:
    """Return what is said of a reproduction."""
    return Reproduction(
        title="Conv differs",
        sentence="The node n computes something else.",
        baseline=System(runtime="onnxruntime==1.27.0", python="3.11.7", numpy="2.4.6"),
        candidate=System(runtime=runtime, python="3.11.7", numpy="2.4.6"),
        **others,
    )


def write(
    folder: Path, specimen: Specimen | None = None, about: Reproduction | None = None,
    candidate: Observed | None = None,
) -> Path:  # fmt: skip
    """Write a reproduction whose baseline brought X and whose candidate brought twice that."""
    return write_reproduction(
        specimen or specimen_of(model_of()),
        Observed(outputs={"y": X}),
        candidate or Observed(outputs={"y": 2 * X}),
        about or about_of(),
        folder / "repro",
    )


def record(folder: Path) -> Any:
    """Return repro.json."""
    return json.loads((folder / "repro.json").read_bytes())


def text(folder: Path) -> str:
    """Return the README."""
    return (folder / "README.md").read_text(encoding="utf-8")


def test_the_folder_holds_what_it_says(tmp_path: Path) -> None:
    """Every file, the digests of those that the script reads, and nothing else."""
    folder = write(tmp_path)
    assert {path.name for path in folder.iterdir()} == FILES
    digests = record(folder)["files"]
    assert set(digests) == {name for name in FILES if name.endswith((".onnx", ".npz"))}
    assert all(sha256_file(folder / name) == digest for name, digest in digests.items())


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    """What lies in it might be taken for a part of the reproduction."""
    write(tmp_path)
    with pytest.raises(FileExistsError):
        write(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "ü"], object),
        np.arange(4).astype(ml_dtypes.bfloat16),
        np.arange(4).astype(ml_dtypes.int4),
        np.array(2**63 - 1),
        [X, X[:, :1]],
        [],
        {"a": np.array(1.0, np.float32), "b": np.array(2.0, np.float32)},
        {1: np.array(1.0, np.float32)},
        None,
        np.zeros((0, 3), bool),
    ],
    ids=str,
)
def test_values_of_every_kind_are_written_in_both_forms(value: Value, tmp_path: Path) -> None:
    """The ONNX files are read by our own strict reader, the archives by the script's."""
    specimen = specimen_of(model_of(), {"x": value})
    folder = write(tmp_path, specimen, candidate=Observed(outputs={"y": value}))
    for file, name in (("input_0.pb", "x"), ("output_0.pb", "y")):
        found = read_proto(folder / "test_data_set_candidate" / file, kind_of(value))
        assert found[0] == name
        assert repr(found[1]) == repr(value)
    with np.load(folder / "candidate.npz", allow_pickle=False) as arrays:
        stored = record(folder)["sides"]["candidate"]["result"]["values"]
        again = read_value(stored[0], arrays)
    if isinstance(value, np.ndarray) and value.dtype.kind != "V":
        np.testing.assert_array_equal(again, value)
        assert again.dtype == value.dtype
    elif isinstance(value, np.ndarray):
        assert again.bits.tobytes() == value.tobytes()
    else:
        assert repr(again) == repr(value)


def kind_of(value: Value) -> Any:
    """Return the kind of a value as a model declares it."""
    kinds = {list: "sequence", dict: "map", type(None): "optional"}
    return kinds.get(type(value), "tensor")


def test_what_onnx_has_no_form_for_is_refused(tmp_path: Path) -> None:
    """A sequence of a tensor and a sequence."""
    with pytest.raises(EvidenceError, match="cannot be stored"):
        write(tmp_path, specimen_of(model_of(), {"x": [X, [X]]}))


def test_the_candidates_own_model_lies_beside_the_baselines(tmp_path: Path) -> None:
    """Each side names its own."""
    other = model_of()
    other.graph.name = "other"
    folder = write(tmp_path, replace(specimen_of(model_of()), candidate=other))
    sides = record(folder)["sides"]
    assert [sides[name]["model"] for name in ("baseline", "candidate")] == [
        "model.onnx", "candidate.onnx",
    ]  # fmt: skip
    assert onnx.load(folder / "candidate.onnx").graph.name == "other"


def test_external_weights_go_with_the_model(tmp_path: Path) -> None:
    """Only those that it uses, in one file of a name that we choose."""
    home = tmp_path / "home"
    home.mkdir()
    model = model_of()
    arrays = {name: np.full(1000, at, np.float32) for at, name in enumerate("ab")}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    onnx.save(model, home / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    model = onnx.load(home / "m.onnx", load_external_data=False)
    del model.graph.initializer[0]
    folder = write(tmp_path, replace(specimen_of(model), weights=home))
    assert (folder / "model.weights").stat().st_size == 4000
    (left,) = onnx.load(folder / "model.onnx").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(left), arrays["b"])
    assert "model.weights" in record(folder)["files"]
    assert model.graph.initializer[0].external_data[0].value == "w"


def test_the_readme_says_what_to_do_and_what_comes_of_it(tmp_path: Path) -> None:
    """The commands, with the versions of each side; the largest difference and its place."""
    node = NodeName(name="n", op_type="Conv", outputs=("y",))
    about = about_of(nodes=(node,), figures=(("noise floors", "812"),), host=(("CPU", "X9"),))
    said = text(write(tmp_path, about=about))
    for line in (
        "python3.11 -m venv candidate-environment",
        "candidate-environment/bin/pip install onnxruntime==1.26.0 numpy==2.4.6",
        "candidate-environment/bin/python reproduce.py --side candidate",
        "baseline-environment/bin/pip install onnxruntime==1.27.0 numpy==2.4.6",
        "baseline-environment/bin/python reproduce.py --side baseline",
        "| y | `3` | `[0, 2]: 6.0 instead of 3.0` |",
        "| noise floors | `812` |",
        "| CPU | `X9` |",
    ):
        assert line in said.splitlines()
    assert "| yes | `Conv` | `n` | `x` | `y` | `alpha=0.5, k=3, mode=fast, pads=[1, 1," in said
    assert "t=(tensor)" in said


def test_one_environment_does_for_two_sides_with_the_same_packages(tmp_path: Path) -> None:
    """It is made once, and both sides run in it."""
    said = text(write(tmp_path, about=about_of("onnxruntime==1.27.0")))
    assert said.count("-m venv") == 1
    assert "candidate-environment/bin/python reproduce.py --side baseline" in said


def test_a_program_of_its_own_is_named_and_not_started(tmp_path: Path) -> None:
    """The script has no way to it."""
    folder = write(tmp_path, about=about_of('command:["./runner"]'))
    assert record(folder)["sides"]["candidate"]["family"] == ""
    assert """The candidate ran on `command:["./runner"]`, which the script""" in text(folder)


def test_a_failure_is_told_with_its_words(tmp_path: Path) -> None:
    """No numbers are compared."""
    failed = Observed(status=RunStatus.ERROR, message="no such operator")
    folder = write(tmp_path, candidate=failed)
    assert "The candidate ends with error: `no such operator`." in text(folder)
    assert "The baseline runs." in text(folder)
    assert not (folder / "test_data_set_candidate" / "output_0.pb").exists()
    assert record(folder)["sides"]["candidate"]["result"] == {
        "status": "error", "message": "no such operator", "values": [],
    }  # fmt: skip


def test_names_and_messages_cannot_act_in_the_readme(tmp_path: Path) -> None:
    """Neither as Markdown, nor as a command; the names are whole in the record."""
    model = model_of([HOSTILE], [HOSTILE])
    model.graph.node[0].name = model.graph.node[0].op_type = HOSTILE
    model.graph.node[0].attribute[0].name = HOSTILE
    about = Reproduction(
        title=HOSTILE, sentence=HOSTILE, figures=((HOSTILE, HOSTILE),), host=((HOSTILE, HOSTILE),),
        baseline=System(
            runtime=HOSTILE, version=HOSTILE, provider=HOSTILE, python=HOSTILE, numpy=HOSTILE,
            session_options={HOSTILE: HOSTILE},
        ),
        candidate=System(runtime="onnxruntime==1.26.0", python=HOSTILE, numpy=HOSTILE),
        model=HOSTILE, model_digest=HOSTILE, case=HOSTILE,
    )  # fmt: skip
    folder = write_reproduction(
        specimen_of(model, {HOSTILE: X}), Observed(outputs={HOSTILE: X}),
        Observed(outputs={HOSTILE: -X}), about, tmp_path / "repro",
    )  # fmt: skip
    said = text(folder)
    calm = text(write(tmp_path / "calm"))
    fences = [line for line in said.splitlines() if line.startswith("```")]
    assert fences == ["```sh", "```"]
    block = said.partition("```sh\n")[2].partition("```")[0]
    assert block == calm.partition("```sh\n")[2].partition("```")[0].replace(
        "python3.11", "python3"
    ).replace("numpy==2.4.6", "numpy")
    outside = "".join(piece for piece in said.split("`")[::2])
    assert not {"<img", "](http", "@everyone", "\x1b", "\u202e"} & {
        word for word in ("<img", "](http", "@everyone", "\x1b", "\u202e") if word in outside
    }
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert record(folder)["sides"]["baseline"]["outputs"] == [HOSTILE]
    scripts = [(folder / name).read_bytes() for name in ("reproduce.py", "results.py")]
    assert scripts == [
        (tmp_path / "calm" / "repro" / name).read_bytes() for name in ("reproduce.py", "results.py")
    ]


def test_two_equal_results_are_not_called_a_difference(tmp_path: Path) -> None:
    """What differs from run to run alone may be equal in these."""
    said = text(write(tmp_path, candidate=Observed(outputs={"y": X})))
    assert "what differs is not the same from run to run" in said


def test_how_often_a_side_ran_is_told(tmp_path: Path) -> None:
    """The script runs it as often; a side that ran once needs no word about it."""
    about = about_of()
    often = replace(about, candidate=replace(about.candidate, repeat=40))
    folder = write(tmp_path, about=often)
    sides = record(folder)["sides"]
    assert (sides["baseline"]["repeat"], sides["candidate"]["repeat"]) == (1, 40)
    assert text(folder).count("It runs the model") == 1
    assert "It runs the model 40 times" in text(folder)
