"""One side of a boundary: parts of its graph, run on its bench."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from ci_parity.base.canonical import Json
from ci_parity.localise.graph import FlatGraph
from ci_parity.records.observation import CaseRun, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.stages.localising.sides import Computed, Side
from tests.fakes.simulated_bench import Part, RefusedError, SimulatedBench, Trouble, sound, tensor
from tests.support.graphs import model_of
from tests.unit.stages.localising.world import renamed

MODEL = model_of(["Sum: x, w -> a", "Sum: a, z -> b", "Sum: a, b -> y"], ("y",), ("w",), ("x", "z"))


class Forgetful(SimulatedBench):
    """Brings one tensor less, or one more, than it is asked for."""

    def run(
        self, model: Path, inputs: Sequence[ValueRecord], outputs: Sequence[str], stem: str,
        session_options: Mapping[str, Json] | None = None,
    ) -> CaseRun:  # fmt: skip
        """Run the part and lose the last output."""
        run = super().run(model, inputs, outputs, stem, session_options)
        return replace(run, outputs=run.outputs[:-1])


def side(folder: Path, trouble: Trouble = sound, again: Trouble | None = None) -> Side:
    """Return a side that runs the model on x = 2, z = 10."""
    bench = SimulatedBench({"x.bin": 2.0, "z.bin": 10.0}, exchange(folder), trouble, again)
    return side_on(bench, folder)


def exchange(folder: Path) -> Path:
    """Make the folder of tensors."""
    place = folder / "exchange"
    place.mkdir()
    return place


def side_on(bench: SimulatedBench, folder: Path, model: onnx.ModelProto = MODEL) -> Side:
    """Return a side on a bench."""
    case = {name: tensor(name, f"{name}.bin") for name in ("x", "z")}
    return Side(label="b", graph=FlatGraph(model), home=folder, bench=bench, case=case)


def numbers(own: Side, found: Computed) -> dict[str, float]:
    """Return the numbers of what was computed."""
    assert isinstance(own.bench, SimulatedBench)
    assert found.ok, found.message
    return {name: own.bench.number(record) for name, record in found.tensors.items()}


def test_tensors_are_computed_from_the_case(tmp_path: Path) -> None:
    """Those that are asked for, in one run."""
    own = side(tmp_path)
    assert numbers(own, own.compute({}, ["y", "a"])) == {"a": 3.0, "y": 16.0}
    assert own.bench.runs == 1


def test_what_is_given_is_not_computed(tmp_path: Path) -> None:
    """Given tensors are taken as they are, also where they are asked for."""
    own = side(tmp_path, lambda part: {"a": 100.0} if "a" in part.nodes else {})
    assert isinstance(own.bench, SimulatedBench)
    own.bench.values["elsewhere"] = 5.0
    given = {"a": tensor("a", "elsewhere")}
    assert numbers(own, own.compute(given, ["a", "y"])) == {"a": 5.0, "y": 20.0}
    only = own.compute(given, ["a"])
    assert (only.tensors, own.bench.runs) == (given, 1)


def test_a_side_translates_names(tmp_path: Path) -> None:
    """Given and brought are the baseline's names, run are its own."""
    seen: list[Part] = []

    def note(part: Part) -> dict[str, float]:
        seen.append(part)
        return {}

    bench = SimulatedBench(
        {"x.bin": 2.0, "z.bin": 10.0, "elsewhere": 5.0}, exchange(tmp_path), note
    )
    names = {"a": "conv", "b": "relu"}
    own = side_on(bench, tmp_path, renamed(MODEL, names))
    own.names = names
    found = own.compute({"a": tensor("a", "elsewhere")}, ["b", "y"])
    assert numbers(own, found) == {"b": 15.0, "y": 20.0}
    assert {record.name for record in found.tensors.values()} == {"b", "y"}
    assert seen == [Part(nodes=("relu", "y"), outputs=frozenset({"relu", "y"}))]


def test_further_runs_that_differ_are_brought_too(tmp_path: Path) -> None:
    """With what was given."""
    own = side(tmp_path, again=lambda _: {"b": 1.0})
    assert isinstance(own.bench, SimulatedBench)
    own.bench.values["elsewhere"] = 5.0
    found = own.compute({"a": tensor("a", "elsewhere")}, ["a", "y"])
    assert numbers(own, found) == {"a": 5.0, "y": 20.0}
    assert [own.bench.number(other["y"]) for other in found.others] == [21.0]
    assert [set(other) for other in found.others] == [{"a", "y"}]


def test_a_failed_run_says_how_it_failed(tmp_path: Path) -> None:
    """There are no tensors then."""

    def trouble(_: Part) -> dict[str, float]:
        raise RefusedError(RunStatus.CRASH, "died")

    found = side(tmp_path, trouble).compute({}, ["y"])
    assert found == Computed(status=RunStatus.CRASH, message="died")
    assert not found.ok


def test_an_answer_with_other_names_is_no_result(tmp_path: Path) -> None:
    """A tensor that was not brought is never taken for one that was."""
    own = side_on(Forgetful({"x.bin": 2.0, "z.bin": 10.0}, exchange(tmp_path)), tmp_path)
    found = own.compute({}, ["y", "a"])
    assert found.status is RunStatus.PROTOCOL
    assert "['a', 'y']" in found.message
    assert "['y']" in found.message


def test_an_input_that_the_case_lacks_is_an_obstacle(tmp_path: Path) -> None:
    """Parts that do not read it are run all the same."""
    own = side(tmp_path)
    own.case = {"x": own.case["x"]}
    found = own.compute({}, ["y"])
    assert found.status is RunStatus.NOT_RUN
    assert found.message == "the case has no input 'z'"
    assert numbers(own, own.compute({}, ["a"])) == {"a": 3.0}


def test_a_tensor_of_no_known_type_is_an_obstacle(tmp_path: Path) -> None:
    """An empty sequence says nothing of its elements."""
    own = side(tmp_path)
    found = own.compute({"a": ValueRecord(name="a", kind="sequence")}, ["y"])
    assert found.status is RunStatus.NOT_RUN
    assert found.message == "the type of 'a', sequence, is not known"


def test_models_of_parts_are_not_left_behind(tmp_path: Path) -> None:
    """Whether or not they ran."""
    own = side(tmp_path)
    own.compute({}, ["y"])
    own.case = {}
    own.compute({}, ["y"])
    assert [file.name for file in tmp_path.iterdir()] == ["exchange"]


def test_session_options_reach_the_bench(tmp_path: Path) -> None:
    """For one run."""
    seen: list[Mapping[str, Json]] = []

    def note(part: Part) -> dict[str, float]:
        seen.append(part.options)
        return {}

    own = side(tmp_path, note)
    own.compute({}, ["y"], {"graph_optimization_level": "disable_all"})
    own.compute({}, ["y"])
    assert seen == [{"graph_optimization_level": "disable_all"}, {}]


def test_a_written_part_names_its_inputs(tmp_path: Path) -> None:
    """The case's own and those it is handed, no weights."""
    own = side(tmp_path)
    path = tmp_path / "kept.onnx"
    assert own.write({}, ["a"], path) == ("x",)
    assert own.write({"a": tensor("a", "elsewhere")}, ["y"], path) == ("z", "a")
    onnx.checker.check_model(path)
