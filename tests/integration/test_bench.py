"""Parts of a model on one warm onnxruntime, and the noise of tensors inside a graph."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ci_parity.base.canonical import Json
from ci_parity.compare.noise import NoiseFloor
from ci_parity.config.systems import Target
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.prepare import prepare
from ci_parity.records.noise import Precision
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import read_value, write_value
from ci_parity.run.bench import Bench
from ci_parity.run.execute import Job
from ci_parity.run.runtime import prepare as prepare_runtime
from ci_parity.stages.localising.noise import Noise
from ci_parity.stages.localising.sides import Computed, Side
from tests.fakes.simulated_bench import Counter
from tests.integration.support.diff_command import environments
from tests.integration.support.small_nets import inputs_of, transformer


@pytest.fixture
def others() -> Sequence[int]:
    """Return the processes that are none of the bench's, such as a Docker daemon of the tests."""
    return _children()


@pytest.fixture
def side(tmp_path: Path, others: Sequence[int]) -> Any:  # noqa: ARG001 - known before it starts
    """Yield a side that runs a small transformer on the onnxruntime at hand."""
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    net = transformer()
    onnx.save(net, tmp_path / "model.onnx")
    flat = prepare(tmp_path / "model.onnx", tmp_path / "home")
    launch = prepare_runtime("current", cache=environments())
    job = Job(launch=launch, model=tmp_path / "model.onnx", target=Target(name="cpu"), timeout_s=60)
    given = inputs_of(net)
    case = {name: write_value(name, value, exchange, name) for name, value in given.items()}
    with Bench(job, exchange, Counter()) as bench:
        yield Side(
            label="b", graph=FlatGraph(flat.model), home=tmp_path / "home", bench=bench, case=case
        )


def arrays(side: Side, found: Computed) -> Mapping[str, Any]:
    """Return what was computed."""
    assert found.ok, found.message
    return {name: read_value(record, side.bench.folder) for name, record in found.tensors.items()}


def whole(side: Side, *wanted: str, options: Mapping[str, Json] | None = None) -> Mapping[str, Any]:
    """Return tensors computed from the inputs."""
    return arrays(side, side.compute({}, wanted, options))


def test_handed_over_at_any_cut_the_outputs_are_the_same(side: Side) -> None:
    """Without optimizations to the bit: the parts are the whole."""
    off: Mapping[str, Json] = {"graph_optimization_level": "disable_all"}
    expected = whole(side, "y", options=off)["y"]
    for cut in side.graph.cuts():
        live = side.graph.live(cut)
        handed = side.compute({}, live, off)
        assert handed.ok, handed.message
        found = arrays(side, side.compute(handed.tensors, ["y"], off))
        np.testing.assert_array_equal(found["y"], expected)
    assert side.bench.runs > 2 * len(side.graph.cuts())


def test_a_worker_that_is_killed_is_replaced(side: Side, others: Sequence[int]) -> None:
    """One model is lost at most."""
    expected = whole(side, "y")["y"]
    workers = set(_children()) - set(others)
    assert workers
    for process in workers:
        os.kill(process, signal.SIGKILL)
    lost = side.compute({}, ["y"])
    assert lost.status is RunStatus.CRASH
    np.testing.assert_array_equal(whole(side, "y")["y"], expected)


def test_a_part_that_the_runtime_refuses_says_why(side: Side) -> None:
    """And costs no worker."""
    whole(side, "y")
    before = _children()
    wrong = write_value("norm1", np.zeros((1, 6, 31), np.float32), side.bench.folder, "wrong")
    found = side.compute({"norm1": wrong}, ["y"])
    assert found.status is RunStatus.ERROR
    assert found.message
    whole(side, "y")
    assert _children() == before


def test_whether_the_whole_loads_with_other_options_is_known(side: Side) -> None:
    """An option that no onnxruntime has is refused."""
    assert side.load_whole({"graph_optimization_level": "enable_basic"})
    assert not side.load_whole({"graph_optimization_level": "no_such_level"})


def test_floors_of_inner_tensors_are_near_what_rounding_does(side: Side, tmp_path: Path) -> None:
    """Given tensors are taken as exact: fewer nodes before it, less noise."""
    noise = Noise(side=side, precision=Precision.FLOAT32, folder=tmp_path / "noise")
    given = side.compute({}, ["residual1"])
    assert given.ok, given.message
    value = whole(side, "norm2")["norm2"]
    near, far = (_floor(noise, before, value) for before in (given.tensors, {}))
    assert 0 < near < far
    eps = np.finfo(np.float32).eps
    assert eps / 100 < near < 100 * eps
    assert len(noise.twins) == 1
    files = {file.name for file in side.bench.folder.iterdir()}
    assert given.tensors["residual1"].file in files
    assert not [name for name in files if name.startswith("n")]


def _floor(noise: Noise, given: Mapping[str, Any], value: Any) -> float:
    """Return the mean noise floor of the second normalization."""
    found = noise.floors("c", given, ["norm2"], 8)
    assert not found.failure
    (one,) = found.cases[0].outputs
    assert one.output == "norm2"
    floor = NoiseFloor(value, "float32", one, Path(found.folder), rounding=False)
    return float(np.mean(floor.spread))


def _children() -> Sequence[int]:
    """Return the processes that this one started."""
    own = os.getpid()
    tasks = Path(f"/proc/{own}/task").glob("*/children")
    return sorted({int(number) for task in tasks for number in task.read_text().split()})
