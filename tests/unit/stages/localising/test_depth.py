"""How a deviation grows with depth, on simulated systems."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from ci_parity.records.divergence import Conclusion, DepthPoint
from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.depth import POINTS, depth_of
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import MoreTime, Stretch
from ci_parity.stages.localising.noise import Noise
from ci_parity.stages.localising.sides import Tensors
from tests.fakes.simulated_bench import Part, RefusedError, Trouble
from tests.support.graphs import model_of
from tests.unit.stages.localising.world import World, chain, wrong

PLENTY = 1 << 30


class NoNoise(Noise):
    """Measures no floor."""

    def floors(self, case: str, given: Tensors, wanted: Sequence[str], seeds: int) -> NoiseFloors:
        """Say so."""
        assert (case, given, bool(wanted)) == ("depth", {}, True)
        return NoiseFloors(
            folder="", precision=Precision.FLOAT32, seeds=seeds, failure="no perturbed twin"
        )


def always() -> bool:
    """There is always more time."""
    return True


def depth(
    handover: Handover, at: int, memory_bytes: int = PLENTY, more_time: MoreTime = always
) -> tuple[DepthPoint, ...]:
    """Return the way through a graph whose node at a position is at fault."""
    noise = NoNoise(side=handover.baseline, precision=Precision.FLOAT32, folder=Path())
    stretch = Stretch(start=at - 1 if at else None, end=at, conclusion=Conclusion.HERE)
    cuts = handover.baseline.graph.cuts()
    return depth_of(handover, stretch, cuts, noise, memory_bytes, more_time)


def handover(folder: Path, length: int, trouble: Trouble) -> Handover:
    """Return two systems over a chain."""
    return World(folder=folder, model=chain(length), trouble=trouble).handover()


def test_every_tensor_of_a_short_graph_is_shown_in_order(tmp_path: Path) -> None:
    """Equal before the fault, apart behind it."""
    points = depth(handover(tmp_path, 6, wrong("t2", by=0.5)), 2)
    assert [point.tensor for point in points] == [f"t{at}" for at in range(6)]
    assert [point.position for point in points] == list(range(6))
    assert [point.equal for point in points] == [True, True, False, False, False, False]
    assert [point.max_abs for point in points] == [0, 0, 0.5, 0.5, 0.5, 0.5]
    assert [point.guilty for point in points] == [False, False, True, False, False, False]
    assert {point.op_type for point in points} == {"Sum"}
    assert {(point.max_noise, point.rms_noise) for point in points} == {(None, None)}


def test_of_a_long_graph_tensors_at_even_distances_are_shown(tmp_path: Path) -> None:
    """And those behind the fault, and the outputs."""
    points = depth(handover(tmp_path, 600, wrong("t401")), 401)
    names = [point.tensor for point in points]
    assert POINTS // 2 < len(names) <= POINTS
    assert {"t401", "t599"} <= set(names)
    assert [point.tensor for point in points if point.guilty] == ["t401"]
    distances = {after.position - before.position for before, after in pairwise(points)}
    assert max(distances) <= 600 // (POINTS // 2)


def test_what_is_only_handed_past_the_fault_is_not_guilty(tmp_path: Path) -> None:
    """A tensor made before it and read behind it."""
    model = model_of(["Sum: x -> a", "Sum: a -> b", "Sum: b -> c", "Sum: a, c -> y"])
    world = World(folder=tmp_path, model=model, trouble=wrong("b"))
    points = depth(world.handover(), 1)
    assert [(point.tensor, point.guilty) for point in points if point.guilty] == [("b", True)]


@pytest.mark.parametrize("count", [POINTS - 2, POINTS - 1, POINTS, POINTS + 1])
def test_a_graph_of_many_outputs_is_shown_too(count: int, tmp_path: Path) -> None:
    """All its outputs are."""
    nodes = [f"Sum: {f't{at - 1}' if at else 'x'} -> t{at}" for at in range(200)]
    nodes += [f"Sum: t199 -> y{at}" for at in range(count)]
    model = model_of(nodes, outputs=[f"y{at}" for at in range(count)])
    world = World(folder=tmp_path, model=model, trouble=wrong("t1"))
    names = {point.tensor for point in depth(world.handover(), 1)}
    assert {f"y{at}" for at in range(count)} <= names
    assert "t1" in names
    assert len(names) <= POINTS + count


def test_no_more_tensors_are_held_than_fit_the_memory(tmp_path: Path) -> None:
    """After the first few, by the size of those before."""
    sizes: list[int] = []

    def note(part: Part) -> dict[str, float]:
        sizes.append(len(part.outputs))
        return {}

    asked = handover(tmp_path, 20, note)
    before = asked.given(1)
    assert before is not None
    assert len(depth(asked, 2, memory_bytes=48)) == 20
    assert sizes == [4, 3, 3, 3, 3, 3, 1]
    left = {file.name for file in asked.candidate.bench.folder.iterdir()}
    assert left == {before["t1"].file}


def test_a_memory_smaller_than_a_tensor_takes_one_at_a_time(tmp_path: Path) -> None:
    """It is never none."""
    assert len(depth(handover(tmp_path, 7, wrong("t2")), 2, memory_bytes=1)) == 7


def test_with_plenty_of_memory_few_runs_are_made(tmp_path: Path) -> None:
    """Four tensors first, then all the others at once."""
    asked = handover(tmp_path, 40, wrong("t2"))
    depth(asked, 2)
    assert asked.candidate.bench.runs == 2


def test_when_time_is_up_what_was_seen_is_shown(tmp_path: Path) -> None:
    """In whole chunks."""
    turns = iter([True, False])
    asked = handover(tmp_path, 40, wrong("t2"))
    points = depth(asked, 2, more_time=lambda: next(turns))
    assert [point.tensor for point in points] == ["t0", "t1", "t2", "t3"]


def test_tensors_that_a_side_cannot_bring_are_left_out(tmp_path: Path) -> None:
    """The others are shown."""

    def trouble(part: Part) -> dict[str, float]:
        if "t1" in part.outputs:
            raise RefusedError(RunStatus.ERROR)
        return {}

    points = depth(handover(tmp_path, 9, trouble), 2, memory_bytes=1)
    assert [point.tensor for point in points] == [f"t{at}" for at in range(4, 9)]
