"""Which optimizations a fault needs, on simulated systems and on plain predicates."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from ci_parity.base.canonical import Json
from ci_parity.config.systems import Target
from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.locate import Stretch
from ci_parity.stages.localising.optimizers import OPTIMIZERS, _fewest, optimizers_of
from tests.fakes.simulated_bench import Part, RefusedError, Trouble
from tests.unit.stages.localising.world import World, chain

NAMES = tuple(f"O{at}" for at in range(75))
STRETCH = Stretch(start=1, end=2, conclusion=Conclusion.FUSED)


def always() -> bool:
    """There is always more time."""
    return True


def needing(*culprits: str) -> Trouble:
    """Return a system that errs at `t2` unless one of its culprits, or everything, is off."""

    def trouble(part: Part) -> Mapping[str, float]:
        off = disabled(part.options)
        return {} if off is None or not off.isdisjoint(culprits) else {"t2": 1.0}

    return trouble


def disabled(options: Mapping[str, Json]) -> set[str] | None:
    """Return the optimizers that session options turn off; None for all."""
    if options.get("graph_optimization_level") == "disable_all":
        return None
    names = options.get("disabled_optimizers", [])
    assert isinstance(names, list)
    return {str(name) for name in names}


def found(
    folder: Path, trouble: Trouble, target: Target | None = None,
    refusal: RunStatus | None = None, again: Trouble | None = None,
) -> tuple[str, ...] | None:  # fmt: skip
    """Return the optimizers a stretch of a chain needs to break."""
    world = World(
        folder=folder, model=chain(4), trouble=trouble, target=target, refusal=refusal, again=again
    )
    return optimizers_of(world.handover(), STRETCH, always)


@pytest.mark.parametrize("name", ["LayerNormFusionL2", OPTIMIZERS[0], OPTIMIZERS[-1]])
def test_the_one_that_it_needs_is_named(name: str, tmp_path: Path) -> None:
    """Out of all that have a name."""
    assert found(tmp_path, needing(name)) == (name,)


def test_of_two_that_it_needs_one_is_named(tmp_path: Path) -> None:
    """Without either it does not happen."""
    named = found(tmp_path, needing("GeluFusionL2", "ReshapeFusion"))
    assert named in {("GeluFusionL2",), ("ReshapeFusion",)}


def test_where_either_does_it_both_are_named(tmp_path: Path) -> None:
    """Only with both off it does not happen."""
    culprits = {"GeluFusionL1", "GeluFusionL2"}

    def trouble(part: Part) -> Mapping[str, float]:
        off = disabled(part.options)
        return {} if off is None or culprits <= off else {"t2": 1.0}

    named = found(tmp_path, trouble)
    assert named is not None
    assert (set(named), len(named)) == (culprits, 2)


def test_a_fault_without_optimizations_is_none_of_theirs(tmp_path: Path) -> None:
    """It happens with all of them off too."""
    assert found(tmp_path, lambda _: {"t2": 1.0}) is None


def test_an_optimization_without_a_name_is_not_named(tmp_path: Path) -> None:
    """All that is known is that it does not happen with all of them off."""
    assert found(tmp_path, needing()) == ()


def test_a_refusal_may_need_optimizations_too(tmp_path: Path) -> None:
    """A part that is not refused is good."""

    def trouble(part: Part) -> Mapping[str, float]:
        if "t2" in part.nodes and needing("MatMulAddFusion")(part):
            raise RefusedError(RunStatus.ERROR)
        return {}

    assert found(tmp_path, trouble, refusal=RunStatus.ERROR) == ("MatMulAddFusion",)


def test_a_stretch_that_cannot_run_without_optimizations_names_none(tmp_path: Path) -> None:
    """Nothing is known then."""

    def trouble(part: Part) -> Mapping[str, float]:
        if part.options:
            raise RefusedError(RunStatus.ERROR)
        return {"t2": 1.0}

    assert found(tmp_path, trouble) is None


@pytest.mark.parametrize(
    "target",
    [
        Target(name="cpu", session_options={"graph_optimization_level": "disable_all"}),
        Target(name="cpu", runtime="openvino==2026.4.1"),
        Target(name="cpu", runtime="tract==0.23.9"),
        Target(name="cpu", runtime='command:["runner"]'),
    ],
)
def test_other_systems_are_not_asked(target: Target, tmp_path: Path) -> None:
    """Those that optimize nothing, and those that have no such names."""
    world = World(folder=tmp_path, model=chain(4), trouble=needing("GeluFusionL2"), target=target)
    handover = world.handover()
    assert optimizers_of(handover, STRETCH, always) is None
    assert handover.candidate.bench.runs == 0


@pytest.mark.parametrize("runtime", ["current", "onnxruntime==1.20.1", "onnxruntime-gpu==1.20.1"])
def test_every_onnxruntime_is_asked(runtime: str, tmp_path: Path) -> None:
    """With its own session options beside."""
    seen: list[Mapping[str, Json]] = []

    def trouble(part: Part) -> Mapping[str, float]:
        seen.append(part.options)
        return needing("GeluFusionL2")(part)

    target = Target(name="cpu", runtime=runtime, session_options={"intra_op_num_threads": 1})
    assert found(tmp_path, trouble, target) == ("GeluFusionL2",)
    assert all(options["intra_op_num_threads"] == 1 for options in seen)


def test_a_system_that_does_not_repeat_itself_is_not_asked(tmp_path: Path) -> None:
    """What helps once may be chance."""
    assert found(tmp_path, needing("GeluFusionL2"), again=needing("GeluFusionL2")) is None


@pytest.mark.parametrize("cause", [0, 1, 36, 37, 38, 73, 74])
def test_one_cause_is_found_in_few_tries(cause: int) -> None:
    """By halves."""
    tried: list[Sequence[str]] = []

    def helps(names: Sequence[str]) -> bool:
        tried.append(names)
        return NAMES[cause] in names

    assert _fewest(NAMES, helps, always) == (NAMES[cause],)
    assert len(tried) <= 2 * 7


@pytest.mark.parametrize("causes", [{0, 74}, {3, 4}, {10, 40, 70}, {1, 2, 3, 4}])
def test_causes_that_help_only_together_are_all_found(causes: set[int]) -> None:
    """And nothing beside them."""
    wanted = {NAMES[cause] for cause in causes}
    found = _fewest(NAMES, lambda names: wanted <= set(names), always)
    assert (set(found), len(found)) == (wanted, len(wanted))


def test_when_time_is_up_what_helped_last_is_returned() -> None:
    """It may be more than is needed; it helps."""
    turns = iter([True, True, False])
    found = _fewest(NAMES, lambda names: NAMES[5] in names, lambda: next(turns))
    assert NAMES[5] in found
    assert 1 < len(found) < 40


def test_where_nothing_less_helps_again_all_are_returned() -> None:
    """A predicate that does not repeat itself ends the search all the same."""
    assert _fewest(NAMES, lambda _: False, always) == NAMES


def test_names_are_given_once() -> None:
    """Each is one that can be turned off by itself."""
    names: Collection[str] = set(OPTIMIZERS)
    assert len(names) == len(OPTIMIZERS)
