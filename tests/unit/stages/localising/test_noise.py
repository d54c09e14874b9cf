"""Noise floors of tensors inside a graph: where there are none, and which files are kept."""

from pathlib import Path

import numpy as np

from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.prepare import PREPARED
from ci_parity.records.noise import Precision
from ci_parity.records.values import ValueRecord, write_value
from ci_parity.stages.localising.noise import Noise
from ci_parity.stages.localising.sides import Side, discard
from tests.fakes.simulated_bench import SimulatedBench
from tests.support.graphs import model_of


def noise(folder: Path, *nodes: str) -> Noise:
    """Return what measures the floors of a prepared model of these nodes."""
    home = folder / "home"
    home.mkdir()
    model = model_of(nodes)
    (home / PREPARED).write_bytes(model.SerializeToString())
    side = Side(
        label="b", graph=FlatGraph(model), home=home, bench=SimulatedBench({}, folder), case={}
    )  # fmt: skip
    return Noise(side=side, precision=Precision.FLOAT32, folder=folder / "noise")


def reason(measuring: Noise) -> str:
    """Return why there are no floors."""
    found = measuring.floors("c", {}, ["y"], seeds=4)
    assert found.cases == ()
    assert (found.seeds, found.precision) == (0, Precision.FLOAT32)
    assert Path(found.folder).is_dir()
    return found.failure


def test_a_graph_in_which_nothing_rounds_has_no_floors(tmp_path: Path) -> None:
    """There is nothing to perturb but the input; it is tried once."""
    measuring = noise(tmp_path, "Shape: x -> a", "Identity: a -> y")
    assert reason(measuring) == "no perturbed twin"
    assert measuring.twins == [None]
    (measuring.side.home / PREPARED).unlink()
    assert reason(measuring) == "no perturbed twin"
    assert measuring.side.bench.runs == 0


def test_a_model_that_is_too_large_to_be_copied_has_no_floors(tmp_path: Path) -> None:
    """Its weights count, wherever they lie in its folder."""
    measuring = noise(tmp_path, "Sum: x, x -> y")
    weights = measuring.side.home / "data" / "weights"
    weights.parent.mkdir()
    with weights.open("wb") as stream:
        stream.truncate((1 << 30) + 1)
    assert reason(measuring) == "no perturbed twin"
    assert not (tmp_path / "noise" / "twin").exists()


def test_files_are_discarded_but_for_those_that_are_kept(tmp_path: Path) -> None:
    """Those of sequences too; a file that is gone already is no trouble."""
    one = np.ones(2, np.float32)
    records = [
        write_value("a", one, tmp_path, "a"),
        write_value("b", [one, [one]], tmp_path, "b"),
        write_value("c", one, tmp_path, "c"),
        write_value("d", None, tmp_path, "d"),
        ValueRecord(name="e", kind="tensor", dtype="float32", shape=(2,), file="gone.bin"),
    ]
    assert len(list(tmp_path.iterdir())) == 4
    discard(records, tmp_path, {"given": records[2]})
    assert [file.name for file in tmp_path.iterdir()] == ["c.bin"]
