"""Node tests on a target: run, judged, kept, and not run again."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.progress import Step
from ci_parity.config.systems import Target
from ci_parity.records.coverage import NodeCase, NodeOutcome
from ci_parity.run.runtime import prepare
from ci_parity.stages.coverage.running import RESULTS, run_cases, system_of, without_fallback
from tests.support.node_cases import node_case
from tests.support.systems import ADDING, model


class Counted:
    """Progress that knows how many tests were run."""

    def __init__(self) -> None:
        self.total = 0

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:  # noqa: ARG002 - a Progress
        """Take note."""
        self.total += total
        yield self

    def advance(self, note: str = "") -> None:
        """Do nothing."""


def target(**own: Any) -> Target:
    """Return the adding runtime, whose words are part of what it is."""
    command = json.dumps(
        [sys.executable, "-I", "-S", "-B", str(ADDING), json.dumps({"refuses": ["old"], **own})]
    )
    return Target(name="cpu", runtime=f"command:{command}")


def case(folder: Path, name: str, expected: float, **parts: Any) -> NodeCase:
    """Return a test that gives the adding runtime 100, and what it must make of it."""
    x, y = np.array([100], np.float32), np.array([expected], np.float32)
    made = node_case(folder, name, {"y": y}, {"x": x})
    return replace(made, model=model(made.folder, "model.json", **parts))


@pytest.fixture
def cases(tmp_path: Path) -> tuple[NodeCase, ...]:
    """Return one test of each fate."""
    suite = tmp_path / "suite"
    return (
        case(suite, "right", 101, adds=1.0),
        case(suite, "wrong", 101, adds=2.0),
        case(suite, "refused", 100, words=["old"]),
        case(suite, "crashing", 100, words=["bad"], crashes=["bad"]),
        replace(case(suite, "open", 100), undefined="it draws random numbers"),
        replace(case(suite, "disputed", 100), disputed="one gives 1, the other 2"),
        case(suite, "last", 100),
    )


FATES = ["pass", "fail", "refused", "crashed", "skipped", "disputed", "pass"]


def run(
    cases: Sequence[NodeCase], on: Target, tmp_path: Path, **more: Any
) -> tuple[list[str], int]:  # fmt: skip
    """Return the outcomes in order, and how many tests were run for them."""
    counted = Counted()
    results = run_cases(cases, on, cache=tmp_path / "cache", progress=counted, **more).results
    assert [result.case for result in results] == [case.id for case in cases]
    return [result.outcome.value for result in results], counted.total


def test_each_test_has_its_outcome(cases: tuple[NodeCase, ...], tmp_path: Path) -> None:
    """In the order of the tests; one whose outputs are left open is not run."""
    assert run(cases, target(), tmp_path) == (FATES, 6)


def test_the_same_runtime_runs_nothing_again(cases: tuple[NodeCase, ...], tmp_path: Path) -> None:
    """And says the same."""
    run(cases, target(), tmp_path)
    assert run(cases, target(), tmp_path) == (FATES, 0)
    assert run(tuple(reversed(cases)), target(), tmp_path) == (FATES[::-1], 0)


def test_another_runtime_runs_everything(cases: tuple[NodeCase, ...], tmp_path: Path) -> None:
    """What the other one showed says nothing of it."""
    run(cases, target(), tmp_path)
    outcomes, ran = run(cases, target(adds=-1.0), tmp_path)
    assert ran == 6
    assert outcomes == ["fail", "pass", "refused", "crashed", "skipped", "disputed", "fail"]


def test_a_new_test_is_run_alone(cases: tuple[NodeCase, ...], tmp_path: Path) -> None:
    """As is one that has changed."""
    run(cases[:5], target(), tmp_path)
    assert run(cases, target(), tmp_path) == (FATES, 2)
    changed = replace(cases[0], digest="0" * 64)
    assert run((changed, *cases[1:]), target(), tmp_path) == (FATES, 1)


def test_a_damaged_entry_is_run_again(cases: tuple[NodeCase, ...], tmp_path: Path) -> None:
    """Never believed."""
    run(cases, target(), tmp_path)
    (file,) = (tmp_path / "cache" / RESULTS).glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'"outcome":"fail"', b'"outcome":"pass"'))
    assert run(cases, target(), tmp_path) == (FATES, 1)


def test_what_is_given_up_is_run_again(tmp_path: Path) -> None:
    """It was skipped because of others; what became of them is known."""
    doomed = tuple(
        case(tmp_path / "suite", f"doomed{number}", 100, words=["bad"], crashes=["bad"])
        for number in range(60)
    )
    outcomes, _ = run(doomed, target(), tmp_path)
    skipped = outcomes.count("skipped")
    assert skipped
    assert set(outcomes) == {"crashed", "skipped"}
    assert run(doomed, target(), tmp_path)[1] == skipped


def test_all_can_be_run_anew(cases: tuple[NodeCase, ...], tmp_path: Path) -> None:
    """Whatever is known."""
    run(cases, target(), tmp_path)
    assert run(cases, target(), tmp_path, anew=True) == (FATES, 6)


def test_no_case_runs_nothing(tmp_path: Path) -> None:
    """Not even the runtime."""
    assert run((), target(), tmp_path) == ([], 0)


def test_a_system_is_all_that_moves_a_result(tmp_path: Path) -> None:
    """Words of the command, provider, options; not the name of the target."""

    def digest(on: Target) -> str:
        launch = prepare(on.runtime, cache=tmp_path)
        return system_of(launch, on, cache=tmp_path).digest

    plain = target()
    others = [
        target(adds=1.0),
        replace(plain, provider="OtherExecutionProvider"),
        replace(plain, session_options={"intra_op_num_threads": 1}),
        replace(plain, provider_options={"device_id": "1"}),
    ]
    assert len({digest(plain), *map(digest, others)}) == 5
    assert digest(replace(plain, name="gpu")) == digest(plain)


def test_onnxruntime_may_not_fall_back_to_the_cpu() -> None:
    """A node that the CPU ran says nothing of an accelerator; what is set otherwise stays."""
    key = "session.disable_cpu_ep_fallback"
    gpu = Target(name="gpu", runtime="onnxruntime-gpu==1.23.0", provider="CUDAExecutionProvider")
    assert without_fallback(gpu).session_options == {"config_entries": {key: "1"}}
    own = replace(gpu, session_options={"config_entries": {"a": "b", key: "0"}})
    assert without_fallback(own).session_options == own.session_options
    for same in (Target(name="cpu"), target(), replace(gpu, runtime="openvino==2026.1.0")):
        assert without_fallback(same) == same


def test_outcomes_are_all_of_the_records() -> None:
    """No fate is left out above but the time-out, which takes its time."""
    assert {outcome.value for outcome in NodeOutcome} == {*FATES, "timed-out"}
