"""Where candidates ran: judged by what their own target asks, and part of every verdict."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.config.model import PlacementPolicy
from ci_parity.records.observation import InputSet, Observation
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import Method, OperatorPlacement, Placement, WarningKind
from ci_parity.stages.assemble import judged as assembled
from ci_parity.stages.judge import judge
from ci_parity.stages.suite import PairRun
from tests.support.observations import LADDER, case_run, floats, observation, pair

GPU, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
PLACED = Placement(
    method=Method.ASSIGNMENT, memcpy=1,
    operators=(
        OperatorPlacement(provider=GPU, op_type="Conv", count=3),
        OperatorPlacement(provider=CPU, op_type="Shape", count=1, names=("shape",)),
    ),
)  # fmt: skip


def side(folder: Path, **changes: Any) -> Observation:
    """Return a system that ran one case on the GPU."""
    on_gpu = {"providers_requested": (GPU,), "providers_used": (GPU, CPU), "placement": PLACED}
    return observation(folder, case_run(folder, "c", {"y": floats(1)}), **(on_gpu | changes))


@pytest.fixture
def run(tmp_path: Path) -> PairRun:
    """Return a pair on target `gpu`; its two sides agree."""
    candidate = side(tmp_path / "b", warnings=("Force fallback to CPU execution for node: shape",))
    return PairRun(
        pair=pair("gpu"), expected=("c",), references=None, baseline=side(tmp_path / "a"),
        candidate=candidate, latency=None,
    )  # fmt: skip


@pytest.mark.parametrize(("target", "outcome"), [("gpu", Outcome.FAIL), ("other", Outcome.PASS)])
def test_a_target_is_judged_by_what_it_asks(run: PairRun, target: str, outcome: Outcome) -> None:
    """And by nothing that another one does."""
    policy = replace(LADDER, placement={target: PlacementPolicy(max_memcpy=0)})
    found = judge([run], policy)
    assert found.outcome is outcome
    ids = [f.id for f in found.findings if not f.advisory and f.outcome is Outcome.FAIL]
    assert ids == (["placement.memcpy"] if outcome is Outcome.FAIL else [])


def test_a_verdict_says_where_each_candidate_ran(run: PairRun) -> None:
    """With what its runtime printed, told apart."""
    inputs = InputSet(folder="inputs", source="fixtures", cases=())
    verdict = assembled(
        command="check", deployment="d", judgement=judge([run], LADDER), runs=[run], inputs=inputs,
        changes=None, bundle="", reproduce=(),
    )  # fmt: skip
    (placed,) = verdict.placements
    assert (placed.target, placed.variant, placed.requested) == ("gpu", "exported", GPU)
    assert (placed.providers, placed.placement) == ((GPU, CPU), PLACED)
    assert [one.kind for one in placed.warnings] == [WarningKind.FALLBACK]


def test_a_missing_provider_is_explained_by_what_its_runtime_fell_back_from(run: PairRun) -> None:
    """Before whatever else it printed last."""
    said = ("Failed to load library libonnxruntime_providers_cuda.so: libcublas.so", *"abcd")
    lost = replace(run, candidate=replace(run.candidate, providers_used=(CPU,), warnings=said))
    (found,) = [f for f in judge([lost], LADDER).findings if f.id == "provider.missing"]
    assert found.evidence.endswith("it said: " + said[0])
