"""Several workers over many small models: sharing, losses, limits, and what is left behind."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.config.systems import Target
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import read_value, write_value
from ci_parity.run.crew import Crew, Done, Errand, crew_size
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from tests.support.systems import PLAIN, model, runtime

CRASHES = {"words": ["bad"], "crashes": ["bad"]}


def errands(folder: Path, *models: dict[str, Any]) -> list[Errand]:
    """Write models of the adding runtime, and one input of 100 for each."""
    made = []
    for number, parts in enumerate(models):
        home = folder / "suite" / f"case{number}"
        path = model(home, "model.json", **parts)
        x = write_value("x", np.array([100.0], np.float32), home, "x")
        made.append(
            Errand(name=f"case{number}", model=path, folder=home, inputs=(x,), outputs=("y",))
        )
    return made


def crew(
    folder: Path, given: list[Errand], launch: Launch = PLAIN, size: int = 2, timeout_s: float = 30
) -> Crew:
    """Return a crew of the adding runtime."""
    job = Job(launch=launch, model=given[0].model, target=Target(name="cpu"), timeout_s=timeout_s)
    return Crew(job, given, folder / "out", size=size, shown=folder / "suite")


def all_done(running: Crew) -> dict[str, Done]:
    """Return what came of each errand."""
    with running:
        return {done.errand.name: done for done in running}


def y(done: Done) -> float:
    """Return the output of an errand."""
    (record,) = done.run.outputs
    return float(np.asarray(read_value(record, done.folder))[0])


@pytest.mark.parametrize("size", [1, 2, 50])
def test_each_errand_runs_once_on_its_own_model(size: int, tmp_path: Path) -> None:
    """However many workers there are."""
    given = errands(tmp_path, *({"adds": float(number)} for number in range(12)))
    done = all_done(crew(tmp_path, given, size=size))
    assert {name: y(one) for name, one in done.items()} == {
        f"case{number}": 100.0 + number for number in range(12)
    }
    assert {one.providers for one in done.values()} == {("CPUExecutionProvider",)}


def test_an_errand_may_end_with_loading(tmp_path: Path) -> None:
    """It is not run: no output, and no error of a run; one of loading is said."""
    given = errands(
        tmp_path, {"raises": ["load"], "words": ["x"]}, {"words": ["y"], "raises": ["y"]}, {}
    )
    done = all_done(crew(tmp_path, [replace(one, only_loads=True, inputs=()) for one in given]))
    assert "the graph has a cycle" in done["case0"].run.message
    assert [done[f"case{number}"].run.status for number in (1, 2)] == [RunStatus.OK] * 2
    assert done["case2"].providers == ("CPUExecutionProvider",)
    assert [one.run.outputs for one in done.values()] == [()] * 3


def test_results_that_are_let_go_leave_nothing(tmp_path: Path) -> None:
    """Disk does not grow with the number of errands."""
    for done in all_done(crew(tmp_path, errands(tmp_path, {}, {}, {}))).values():
        done.discard()
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_crash_costs_its_errand_alone(position: int, tmp_path: Path) -> None:
    """Whichever it is; it is said with the worker's last words."""
    models: list[dict[str, Any]] = [{} for _ in range(5)]
    models[position] = CRASHES
    done = all_done(crew(tmp_path, errands(tmp_path, *models), size=1))
    statuses = [done[f"case{number}"].run.status for number in range(5)]
    assert statuses.count(RunStatus.OK) == 4
    assert statuses[position] is RunStatus.CRASH
    assert "exited with status 9" in done[f"case{position}"].run.message


def test_a_refusal_costs_no_worker(tmp_path: Path) -> None:
    """While it is loaded or while it runs: the words are the runtime's."""
    given = errands(
        tmp_path,
        {"raises": ["load"], "words": ["x"]},
        {"words": ["enable_all"], "raises": ["enable_all"]},
        {},
    )
    done = all_done(crew(tmp_path, given, size=1))
    assert "the graph has a cycle" in done["case0"].run.message
    assert "division by zero" in done["case1"].run.message
    statuses = [done[f"case{number}"].run.status for number in range(3)]
    assert statuses == [RunStatus.ERROR, RunStatus.ERROR, RunStatus.OK]


def test_a_system_that_always_crashes_is_given_up(tmp_path: Path) -> None:
    """What was not run says so."""
    given = errands(tmp_path, *(CRASHES for _ in range(40)))
    done = all_done(crew(tmp_path, given, size=2))
    statuses = [one.run.status for one in done.values()]
    assert 10 <= statuses.count(RunStatus.CRASH) <= 24
    assert set(statuses) == {RunStatus.CRASH, RunStatus.NOT_RUN}
    assert any("given up after" in one.run.message for one in done.values())


def test_crashes_among_answers_are_not_given_up(tmp_path: Path) -> None:
    """Every other model crashes: all of the others run."""
    models = [CRASHES if number % 2 else {} for number in range(44)]
    done = all_done(crew(tmp_path, errands(tmp_path, *models), size=2))
    assert [one.run.status for one in done.values()].count(RunStatus.OK) == 22
    assert RunStatus.NOT_RUN not in {one.run.status for one in done.values()}


def test_a_runtime_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    """Nothing was measured, so there is nothing to judge."""
    launch = Launch(argv=("/bin/false",), label="false", environment="")
    running = crew(tmp_path, errands(tmp_path, {}, {}), launch)
    with pytest.raises(InfrastructureError, match="false does not start"):
        all_done(running)


def test_leaving_early_ends_the_workers(tmp_path: Path) -> None:
    """Whoever stops in the middle waits neither for the rest nor for an errand's time limit."""
    given = errands(tmp_path, *({} for _ in range(200)))
    running = crew(tmp_path, given, runtime("adding==1.0"), timeout_s=600)
    start = time.monotonic()
    with running:
        next(iter(running))
    assert time.monotonic() - start < 60


def test_an_accelerator_is_not_shared() -> None:
    """Several workers would take memory from each other."""
    assert crew_size("CUDAExecutionProvider") == 1
    assert crew_size("CPUExecutionProvider") >= 1
