"""Models that may be let go: one is not held while the next is loaded, nor after its only run."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.run.workers.wire import Model, Runtime, Worker


class Held(Model):
    """A model whose result is always the same."""

    def __init__(self, *, drifts: bool) -> None:
        self.inputs, self.outputs, self.providers = [], [{"name": "y"}], ["CPUExecutionProvider"]
        self.drifts = drifts
        self.runs = 0

    def prepare(self, feeds: dict[str, Any]) -> Any:
        """Take the feeds as they are."""
        return feeds

    def infer(self, prepared: Any) -> Any:
        """Count the run."""
        assert prepared == {}
        self.runs += 1
        return [np.full(2, self.runs if self.drifts else 1, np.float32)]

    def values(self, result: Any) -> list[Any]:
        """Return the outputs."""
        return list(result)


class Counting(Runtime):
    """A runtime that knows how many of its models are alive."""

    name = "counting"

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Held] = weakref.WeakSet()
        self.most = 0

    def hello(self) -> dict[str, Any]:
        """Say nothing in particular."""
        return {"version": "1", "build": "", "providers": []}

    def open(self, request: dict[str, Any]) -> Model:
        """Load a model, unless it is a broken one."""
        if request.get("broken"):
            raise ValueError("no such operator")
        gc.collect()
        model = Held(drifts=bool(request.get("drifts")))
        self.alive.add(model)
        self.most = max(self.most, len(self.alive))
        return model


@pytest.fixture
def worker() -> Worker:
    """Return a worker of a counting runtime."""
    return Worker(Counting())


def run_of(folder: Path, stem: str, **more: Any) -> dict[str, Any]:
    """Return the request of a run without inputs."""
    return {"inputs": [], "input_folder": str(folder), "folder": str(folder), "stem": stem, **more}


def most(worker: Worker) -> int:
    """Return how many models were held at most."""
    assert isinstance(worker.runtime, Counting)
    return worker.runtime.most


def alive(worker: Worker) -> int:
    """Return how many models are held."""
    assert isinstance(worker.runtime, Counting)
    gc.collect()
    return len(worker.runtime.alive)


def test_one_that_may_go_is_not_held_beside_the_next(worker: Worker) -> None:
    """Two large models need not fit the memory."""
    for _ in range(3):
        worker.load({"release": True})
    assert (most(worker), alive(worker)) == (1, 1)


def test_one_that_may_not_is_held_until_the_next_is_loaded(worker: Worker, tmp_path: Path) -> None:
    """One that fails to load leaves it there."""
    worker.load({})
    worker.load({"release": False})
    assert most(worker) == 2
    with pytest.raises(ValueError, match="no such operator"):
        worker.load({"broken": True})
    assert worker.run(run_of(tmp_path, "s"))["outputs"]
    assert alive(worker) == 1


def test_one_that_may_go_is_gone_where_the_next_fails_to_load(
    worker: Worker, tmp_path: Path
) -> None:
    """It must not be taken for that one."""
    worker.load({})
    with pytest.raises(ValueError, match="no such operator"):
        worker.load({"broken": True, "release": True})
    assert alive(worker) == 0
    with pytest.raises(RuntimeError, match="no model is loaded"):
        worker.run(run_of(tmp_path, "s"))


def test_after_its_run_one_that_may_go_is_gone(worker: Worker, tmp_path: Path) -> None:
    """The answer is whole: outputs, further runs, providers."""
    worker.load({"drifts": True})
    answer = worker.run(run_of(tmp_path, "s", repeat=3, release=True))
    assert [len(answer[key]) for key in ("outputs", "repeats", "providers")] == [1, 2, 1]
    assert alive(worker) == 0
    with pytest.raises(RuntimeError, match="no model is loaded"):
        worker.run(run_of(tmp_path, "t"))


@pytest.mark.parametrize("more", [{}, {"release": False}])
def test_after_its_run_one_that_may_not_go_stays(
    worker: Worker, tmp_path: Path, more: dict[str, Any]
) -> None:
    """The next case runs on it."""
    worker.load({"drifts": True})
    for stem in ("s", "t"):
        worker.run(run_of(tmp_path, stem, **more))
    assert alive(worker) == 1
    assert np.fromfile(tmp_path / "t_o0.bin", np.float32).tolist() == [2.0, 2.0]
