"""Each distinct system runs once, on a runtime that counts how often it was started."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.base.progress import SilentProgress, Step
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.run.execute import Job
from ci_parity.stages.suite import Neighbour, Pair, PairRun, run_pairs, system_of
from tests.support import systems
from tests.support.systems import LOOSE


class Announced(SilentProgress):
    """Progress that remembers what was announced."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Remember a step."""
        self.titles.append(title)
        with super().step(title, total) as step:
            yield step


@pytest.fixture
def given(tmp_path: Path) -> InputSet:
    """Return two cases."""
    return systems.inputs(tmp_path, "one", "two")


def ran(
    folder: Path, given: InputSet, *pairs: Pair, derived: Sequence[CaseInputs] = ()
) -> tuple[tuple[PairRun, ...], list[str]]:
    """Run pairs; return the runs and the systems in the order in which they ran."""
    progress = Announced()
    runs = run_pairs(pairs, given, None, LOOSE, folder / "runs", progress, derived=derived)
    return runs, [title.partition(" on ")[0] for title in progress.titles]


def test_a_chain_on_two_targets_runs_each_system_once(tmp_path: Path, given: InputSet) -> None:
    """Two variants on two targets, each with a baseline: eight systems, whatever compares them."""
    launches = {"cpu": systems.PLAIN, "gpu": systems.runtime("adding==2.0", adds=0.5)}
    models = {name: systems.model(tmp_path, f"{name}.json") for name in ("exported", "int8")}
    old = {name: systems.model(tmp_path / "old", f"{name}.json") for name in models}

    def job(path: Path, target: str) -> Job:
        return systems.job(path, launches[target], target=target)

    pairs = [
        Pair(
            target=target, variant=variant, candidate=job(models[variant], target),
            baseline=job(old[variant], target),
            made_from=Neighbour(name="exported", job=job(models["exported"], target))
            if variant == "int8" else None,
            reference=Neighbour(name="cpu", job=job(models[variant], "cpu"))
            if target == "gpu" else None,
        )
        for target in launches for variant in models
    ]  # fmt: skip
    runs, order = ran(tmp_path, given, *pairs)
    assert Counter(order) == Counter(
        f"{target}/{variant} {side}"
        for target in launches for variant in models for side in ("candidate", "baseline")
    )  # fmt: skip
    by_name = {(run.pair.target, run.pair.variant): run for run in runs}
    assert by_name["cpu", "int8"].made_from is by_name["cpu", "exported"].candidate
    assert by_name["gpu", "int8"].reference is by_name["cpu", "int8"].candidate
    assert by_name["gpu", "exported"].baseline is not by_name["gpu", "exported"].candidate


def test_two_sides_of_a_comparison_are_two_runs(tmp_path: Path, given: InputSet) -> None:
    """A system compared with itself, under whatever names, says whether it repeats itself."""
    job = systems.job(systems.model(tmp_path, "m.json"))
    there = Neighbour(name="cpu", job=job)
    pair = Pair(target="gpu", variant="m", candidate=job, baseline=job, reference=there)
    (run,), order = ran(tmp_path, given, pair)
    assert order == ["gpu/m candidate", "gpu/m baseline"]
    assert run.baseline is run.reference is not run.candidate


def test_what_was_run_for_one_comparison_serves_another(tmp_path: Path, given: InputSet) -> None:
    """A variant that is deployed nowhere is run once for two that were made from it."""
    source = systems.job(systems.model(tmp_path, "exported.json"))
    pairs = [
        Pair(
            target="cpu", variant=name, candidate=systems.job(systems.model(tmp_path, name)),
            baseline=None, made_from=Neighbour(name="exported", job=source, deployed=False),
        )
        for name in ("int8", "int4")
    ]  # fmt: skip
    runs, order = ran(tmp_path, given, *pairs)
    assert order == ["cpu/int8 candidate", "cpu/int4 candidate", "cpu/int8 exported"]
    assert runs[0].made_from is runs[1].made_from


def test_derived_cases_run_in_the_candidates_session_alone(tmp_path: Path, given: InputSet) -> None:
    """And are kept apart from those that are compared."""
    derived = replace(given.cases[0], case="derived")
    job = systems.job(systems.model(tmp_path, "m.json"))
    other = systems.job(systems.model(tmp_path, "old.json"))
    pair = Pair(target="cpu", variant="m", candidate=job, baseline=other)
    (run,), _ = ran(tmp_path, given, pair, derived=[derived])
    assert [case.case for case in run.candidate.cases] == ["one", "two"]
    assert run.derived is not None
    assert [case.case for case in run.derived.cases] == ["derived"]
    assert run.baseline is not None
    assert [case.case for case in run.baseline.cases] == ["one", "two"]


def test_what_makes_a_system(tmp_path: Path) -> None:
    """Model file, runtime, provider and options; not the name of the target."""
    path = systems.model(tmp_path, "m.json")
    job = systems.job(path)
    assert system_of(job) == system_of(systems.job(path, target="gpu"))
    others = [
        systems.job(systems.model(tmp_path, "n.json")),
        systems.job(path, systems.runtime("adding==2.0")),
        systems.job(path, options={"execution_mode": "parallel"}),
        systems.job(path, provider="Other"),
    ]
    assert len({system_of(other) for other in (job, *others)}) == 5
