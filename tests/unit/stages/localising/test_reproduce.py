"""The stretch at fault as a folder: what is in it, and where there is none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.pairing import Pairing
from ci_parity.records.divergence import Conclusion, Divergence
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import write_value
from ci_parity.stages.boundaries import Boundary, Kind
from ci_parity.stages.localising.handover import Effect, Handover
from ci_parity.stages.localising.locate import Stretch
from ci_parity.stages.localising.reproduce import Reproducer
from ci_parity.stages.localising.setup import Sides
from ci_parity.stages.localising.sides import Side
from tests.fakes.evaluating_bench import EvaluatingBench, Fault, instead, sound
from tests.support.observations import observation

WIDTH = 12
X = np.random.default_rng(0).normal(0, 1, WIDTH).astype(np.float32)
NODES = ["Abs: x -> a", "Sin: x -> b", "Neg: b -> c", "Mul: a, c -> d", "Mul: d, w -> y"]
FOUND = Divergence(
    target="cpu", variant="v", boundary="b", case="c", conclusion=Conclusion.HERE,
    sentence="Neg 'c' goes wrong",
)  # fmt: skip
AT_FAULT = instead("Neg", "Exp")


def model(nodes: Sequence[str], width: int = WIDTH) -> onnx.ModelProto:
    """Return a model of vectors from `x` to `y` with a weight `w`."""
    made = []
    for text in nodes:
        operator, _, rest = text.partition(": ")
        reads, _, result = rest.partition(" -> ")
        made.append(helper.make_node(operator, reads.split(", "), [result], name=result))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [width]) for n in ("x", "y")]
    held = numpy_helper.from_array(np.linspace(0.5, 2.5, width).astype(np.float32), "w")
    graph = helper.make_graph(made, "g", ports[:1], ports[1:], [held])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reproducer(
    folder: Path, fault: Fault = AT_FAULT, other: onnx.ModelProto | None = None,
    names: Mapping[str, str] | None = None, ends: tuple[int | None, int | None] = (1, 2),
    refusal: RunStatus | None = None,
) -> Reproducer:  # fmt: skip
    """Return what writes the reproduction of `c` at fault.

    Args:
        folder: scratch space.
        fault: what is wrong with the candidate.
        other: the candidate's model, where it has its own.
        names: its names of tensors.
        ends: the cuts before and behind the stretch.
        refusal: how the candidate failed, where it brought nothing.
    """
    exchange, home = folder / "exchange", folder / "home"
    for place in (exchange, home):
        place.mkdir(parents=True)
    whole = model(NODES)
    onnx.save(whole, folder / "model.onnx")
    case = {"x": write_value("x", X, exchange, "x")}
    baseline, candidate = (
        Side(
            label=label, graph=FlatGraph(own), home=home, bench=EvaluatingBench(exchange, wrong),
            case=case, names=known,
        )
        for label, own, wrong, known in (
            ("b", whole, sound, {}), ("c", other or whole, fault, names or {}),
        )
    )  # fmt: skip
    handover = Handover(
        baseline=baseline, candidate=candidate, outputs=("y",), refusal=refusal,
        judge=lambda _: Effect(bad=True, used=2.0),
    )  # fmt: skip
    pairs = {name: (names or {}).get(name, name) for name in "abcdy"}
    sides = Sides(
        baseline=baseline, candidate=candidate, outputs=("y",), cuts=(0, 1, 2, 3), kept=None,
        origin={}, candidate_origin={},
        pairing=Pairing(pairs=pairs, how={}, unpaired=()) if other is not None else None,
    )  # fmt: skip
    job = replace(baseline.bench.job, model=folder / "model.onnx")
    boundary = Boundary(
        kind=Kind.VERSION, label="b", target="cpu", variant="v", expected=("c",),
        baseline=observation(folder / "l"), candidate=observation(folder / "r"),
        baseline_job=job, candidate_job=job,
    )  # fmt: skip
    return Reproducer(
        sides=sides, handover=handover, boundary=boundary, folder=folder / "out" / "repro-1",
        stretch=Stretch(start=ends[0], end=ends[1], conclusion=Conclusion.HERE),
        more_time=lambda: True,
    )  # fmt: skip


def written(reproducer: Reproducer) -> dict[str, onnx.ModelProto]:
    """Write a reproduction that must be there; return its models by file name."""
    assert reproducer.write(FOUND) == "repro-1"
    return {path.name: onnx.load(path) for path in reproducer.folder.glob("*.onnx")}


def operators(found: onnx.ModelProto) -> list[str]:
    """Return the operators of a model."""
    return [node.op_type for node in found.graph.node]


def ports(found: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Return the names of a model's inputs and outputs."""
    graph = found.graph
    return [port.name for port in graph.input], [port.name for port in graph.output]


def test_one_model_of_the_stretch_is_written_where_both_sides_run_one(tmp_path: Path) -> None:
    """What passes it by is neither given nor wanted."""
    models = written(reproducer(tmp_path))
    assert list(models) == ["model.onnx"]
    assert operators(models["model.onnx"]) == ["Neg"]
    assert ports(models["model.onnx"]) == (["b"], ["c"])
    assert (tmp_path / "out" / "repro-1" / "test_data_set_0" / "input_0.pb").exists()


def test_the_folder_shows_the_fault(tmp_path: Path) -> None:
    """On the inputs that lie in it, the model makes what the baseline made of them."""
    maker = reproducer(tmp_path)
    (found,) = written(maker).values()
    place = maker.folder / "test_data_set_0"
    feed, expected = (
        numpy_helper.to_array(onnx.load_tensor(place / f"{stem}_0.pb"))
        for stem in ("input", "output")
    )
    (made,) = ReferenceEvaluator(found).run(None, {"b": feed})
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(made, -feed)
    other = onnx.load_tensor(maker.folder / "test_data_set_candidate" / "output_0.pb")
    np.testing.assert_allclose(numpy_helper.to_array(other), np.exp(feed), rtol=1e-6)


OTHER = ["Abs: x -> p", "Sin: x -> q", "Neg: q -> a", "Mul: p, a -> s", "Mul: w, s -> y"]
NAMES = {"a": "p", "b": "q", "c": "a", "d": "s"}


def test_of_two_models_both_have_the_baselines_names(tmp_path: Path) -> None:
    """Also where the candidate calls something else by one of them."""
    models = written(reproducer(tmp_path, AT_FAULT, model(OTHER), NAMES))
    assert sorted(models) == ["candidate.onnx", "model.onnx"]
    assert [ports(one) for one in models.values()] == [(["b"], ["c"])] * 2
    assert [operators(one) for one in models.values()] == [["Neg"]] * 2


def test_of_two_models_each_keeps_its_own_nodes(tmp_path: Path) -> None:
    """Where the model is at fault and not how it is run."""
    wrong = [*OTHER[:2], "Exp: q -> a", *OTHER[3:]]
    models = written(reproducer(tmp_path, sound, model(wrong), NAMES))
    assert operators(models["model.onnx"]) == ["Neg"]
    assert operators(models["candidate.onnx"]) == ["Exp"]


def test_a_stretch_with_weights_brings_them(tmp_path: Path) -> None:
    """Inside the models, of whichever side."""
    scaled = model([*NODES[:4], "Mul: d, w -> y"])
    weight = scaled.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), "w"))
    models = written(reproducer(tmp_path, sound, scaled, {}, (3, None)))
    values = {name: numpy_helper.to_array(one.graph.initializer[0]) for name, one in models.items()}
    assert values.keys() == {"model.onnx", "candidate.onnx"}
    np.testing.assert_array_equal(values["candidate.onnx"], 2 * values["model.onnx"])


def test_a_fault_that_does_not_show_on_the_stretch_leaves_no_folder(tmp_path: Path) -> None:
    """As one that only the whole model has."""
    maker = reproducer(tmp_path, sound)
    assert maker.write(FOUND) == ""
    assert not maker.folder.exists()


def test_a_reproduction_that_is_there_is_replaced(tmp_path: Path) -> None:
    """Whole: nothing of it is left."""
    maker = reproducer(tmp_path)
    maker.folder.mkdir(parents=True)
    (maker.folder / "model.onnx").write_bytes(b"old")
    (maker.folder / "leftover.txt").write_text("old", encoding="utf-8")
    assert operators(written(maker)["model.onnx"]) == ["Neg"]
    assert not (maker.folder / "leftover.txt").exists()


def test_one_that_is_there_stays_where_nothing_shows(tmp_path: Path) -> None:
    """There is nothing to replace it with."""
    maker = reproducer(tmp_path, sound)
    maker.folder.mkdir(parents=True)
    (maker.folder / "notes.txt").write_text("mine", encoding="utf-8")
    assert maker.write(FOUND) == ""
    assert (maker.folder / "notes.txt").exists()


def test_a_place_that_cannot_be_written_is_no_reproduction(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The divergence is reported all the same."""
    maker = reproducer(tmp_path)
    maker.folder.parent.write_text("a file", encoding="utf-8")
    assert maker.write(FOUND) == ""
    assert "no reproduction could be written" in caplog.text


def external(found: onnx.ModelProto, home: Path, size_bytes: int) -> onnx.ModelProto:
    """Return a model whose weight lies in a sparse file of such a size."""
    found.graph.initializer[0].ClearField("raw_data")
    found.graph.initializer[0].dims[:] = [size_bytes // 4]
    found.graph.initializer[0].data_location = TensorProto.EXTERNAL
    for key, value in (("location", "big"), ("offset", "0"), ("length", str(size_bytes))):
        found.graph.initializer[0].external_data.add(key=key, value=value)
    with (home / "big").open("wb") as stream:
        stream.truncate(size_bytes)
    return found


def test_of_two_models_with_too_large_weights_there_is_none(tmp_path: Path) -> None:
    """They cannot share a folder of weights, and inside a model they have no room."""
    maker = reproducer(tmp_path, sound, model(NODES), {}, (3, None))
    big = external(model(NODES), maker.sides.baseline.home, 128 << 20)
    big.graph.initializer.append(numpy_helper.from_array(np.ones(WIDTH, np.float32), "v"))
    maker.sides.candidate.graph = FlatGraph(big)
    before = maker.sides.candidate.bench.runs
    assert maker.write(FOUND) == ""
    assert maker.sides.candidate.bench.runs == before


def refusing(status: str) -> Fault:
    """Return a system that cannot run `Neg`."""

    def fault(loaded: onnx.ModelProto) -> None:
        if "Neg" in operators(loaded):
            raise ValueError(status)

    return fault


def test_a_refusal_is_reproduced(tmp_path: Path) -> None:
    """The folder says what the candidate said; there are no outputs of its side."""
    maker = reproducer(tmp_path, refusing("no kernel for Neg"), refusal=RunStatus.ERROR)
    (found,) = written(maker).values()
    assert operators(found) == ["Neg"]
    assert not list((maker.folder / "test_data_set_candidate").glob("output*"))
    texts = [p.read_text("utf-8") for p in maker.folder.iterdir() if p.suffix in {".md", ".json"}]
    assert any("no kernel for Neg" in text for text in texts)


def test_a_refusal_of_another_kind_is_none(tmp_path: Path) -> None:
    """A crash is not reproduced by an error."""
    maker = reproducer(tmp_path, refusing("no kernel"), refusal=RunStatus.CRASH)
    assert maker.write(FOUND) == ""


def test_where_the_baseline_does_not_get_there_there_is_none(tmp_path: Path) -> None:
    """There are no inputs for it."""
    maker = reproducer(tmp_path)

    def nothing(_: Any) -> None:
        raise ValueError("no memory")

    failing: Callable[[onnx.ModelProto], None] = nothing
    maker.sides.baseline.bench = EvaluatingBench(tmp_path / "exchange", failing)
    assert maker.write(FOUND) == ""
    assert maker.sides.candidate.bench.runs == 0
