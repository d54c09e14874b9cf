"""The shortest stretch that breaks a case, on simulated systems with known faults."""

import random
from collections.abc import Collection
from pathlib import Path

import pytest

from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import MoreTime, Stretch, locate
from tests.fakes.simulated_bench import Part, RefusedError, Trouble, sound
from tests.unit.stages.localising.world import (
    World,
    always,
    chain,
    computing,
    fused,
    neighbours,
    nodes_of,
    random_graph,
    turns,
    unable,
    wrong,
)

HERE, FUSED, AMPLIFIED = Conclusion.HERE, Conclusion.FUSED, Conclusion.AMPLIFIED
BRACKET = Conclusion.BRACKET


def located(
    world: World, more_time: MoreTime = always, gone: Collection[str] = ()
) -> tuple[Handover, Stretch]:
    """Search a world whose candidate optimizes some tensors away."""
    handover = world.handover()
    graph = handover.baseline.graph
    left = [name for name in graph.makers if name not in gone]
    kept = frozenset(graph.cuts(left))
    return handover, locate(handover, graph.cuts(), kept, more_time)


def found(
    world: World, more_time: MoreTime = always, gone: Collection[str] = ()
) -> tuple[Conclusion, tuple[str, ...]]:
    """Return what a search concludes, and the nodes it names."""
    handover, stretch = located(world, more_time, gone)
    return stretch.conclusion, nodes_of(handover, stretch)


def refusing(node: str, status: RunStatus = RunStatus.ERROR) -> Trouble:
    """Return a system that runs no part that has a node."""

    def trouble(part: Part) -> dict[str, float]:
        if node in part.nodes:
            raise RefusedError(status)
        return {}

    return trouble


@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_each_node_of_a_chain_is_named_exactly(length: int, tmp_path: Path) -> None:
    """The first one and the last one too."""
    for at in range(length):
        world = World(folder=tmp_path, model=chain(length), trouble=wrong(f"t{at}"))
        assert found(world) == (HERE, (f"t{at}",))


@pytest.mark.parametrize("seed", range(8))
def test_each_node_of_a_random_graph_is_named_exactly(seed: int, tmp_path: Path) -> None:
    """Whatever branches, skips and weights lie around it, it is named and no other."""
    model = random_graph(seed, 12)
    for node in computing(model):
        world = World(folder=tmp_path, model=model, trouble=wrong(node))
        assert found(world) == (HERE, (node,))


@pytest.mark.parametrize("seed", range(6))
def test_tensors_that_are_optimized_away_do_not_hide_a_node(seed: int, tmp_path: Path) -> None:
    """Between the cuts that are left, all others are tried."""
    model = random_graph(seed, 12)
    rng = random.Random(seed)  # noqa: S311 - a seeded choice
    for node in computing(model):
        gone = [name for name in computing(model) if rng.random() < 0.7]
        world = World(folder=tmp_path, model=model, trouble=wrong(node))
        assert found(world, gone=gone) == (HERE, (node,))


@pytest.mark.parametrize("at", [3, 100, 321, 498])
def test_a_long_chain_takes_few_runs(at: int, tmp_path: Path) -> None:
    """Fewer than the nine halvings of its length, for several cuts are looked at at once."""
    world = World(folder=tmp_path, model=chain(500), trouble=wrong(f"t{at}"))
    handover, stretch = located(world)
    assert nodes_of(handover, stretch) == (f"t{at}",)
    assert handover.candidate.bench.runs <= 8


@pytest.mark.parametrize("seed", range(6))
def test_of_two_faults_one_is_named_exactly(seed: int, tmp_path: Path) -> None:
    """The first that a cut shows; the other is behind it."""
    model = random_graph(seed, 12)
    nodes = computing(model)
    for first, second in zip(nodes, nodes[3:], strict=False):
        world = World(folder=tmp_path, model=model, trouble=wrong(first, second))
        assert found(world) == (HERE, (first,))


@pytest.mark.parametrize("length", [2, 3, 5, 9])
def test_nodes_that_err_only_together_are_named_exactly(length: int, tmp_path: Path) -> None:
    """Wherever the group stands in the graph."""
    for at in range(13 - length):
        group = tuple(f"t{at + number}" for number in range(length))
        world = World(folder=tmp_path, model=chain(13), trouble=fused(*group))
        assert found(world, gone=group[:-1]) == (FUSED, group)


@pytest.mark.parametrize("length", [2, 3, 5, 9])
def test_a_group_is_held_where_fusions_are_not_known(length: int, tmp_path: Path) -> None:
    """Cuts that take it apart hide it; what is concluded holds it all the same."""
    for at in range(13 - length):
        group = [f"t{at + number}" for number in range(length)]
        world = World(folder=tmp_path, model=chain(13), trouble=fused(*group))
        conclusion, named = found(world)
        assert conclusion is BRACKET or set(group) <= set(named)


@pytest.mark.parametrize("seed", range(8))
def test_a_group_in_a_random_graph_lies_in_what_is_named(seed: int, tmp_path: Path) -> None:
    """It may be named with neighbours that no cut separates from it."""
    model = random_graph(seed, 12)
    for group in neighbours(model):
        world = World(folder=tmp_path, model=model, trouble=fused(*group))
        conclusion, named = found(world, gone=group[:-1])
        assert set(group) <= set(named)
        assert conclusion is FUSED


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_small_differences_that_add_up_are_told_from_a_fault(count: int, tmp_path: Path) -> None:
    """The stretch is as long as it takes, and ends at the first cut that is bad."""
    limit = count - 0.5
    model = chain(13)
    drift = wrong(*computing(model))
    world = World(folder=tmp_path, model=model, trouble=drift, limit=limit)
    assert found(world) == (AMPLIFIED, tuple(f"t{at}" for at in range(count)))


def test_differences_far_apart_are_named_with_what_lies_between(tmp_path: Path) -> None:
    """Two halves of a fault are one stretch."""
    world = World(folder=tmp_path, model=chain(13), trouble=wrong("t2", "t9"), limit=1.5)
    assert found(world) == (AMPLIFIED, tuple(f"t{at}" for at in range(2, 10)))


@pytest.mark.parametrize("seed", range(4))
def test_a_node_that_is_refused_is_named_exactly(seed: int, tmp_path: Path) -> None:
    """A part breaks the case where it fails as the whole did."""
    model = random_graph(seed, 12)
    for node in computing(model):
        for status in (RunStatus.ERROR, RunStatus.CRASH):
            trouble = refusing(node, status)
            world = World(folder=tmp_path, model=model, trouble=trouble, refusal=status)
            assert found(world) == (HERE, (node,))


@pytest.mark.parametrize("trials", range(14))
def test_when_time_is_up_what_is_known_holds_the_fault(trials: int, tmp_path: Path) -> None:
    """The bracket never excludes it; half a dozen trials and a few find it among forty nodes."""
    for at in range(0, 40, 3):
        world = World(folder=tmp_path, model=chain(40), trouble=wrong(f"t{at}"))
        conclusion, named = found(world, turns(trials))
        assert f"t{at}" in named
        assert conclusion is (HERE if len(named) == 1 else BRACKET)
        assert trials < 10 or conclusion is HERE


@pytest.mark.parametrize("trials", range(22))
def test_when_time_is_up_no_group_is_made_up(trials: int, tmp_path: Path) -> None:
    """The node behind which it shows is held; a conclusion is drawn from a whole search alone."""
    group = tuple(f"t{at}" for at in range(9, 20))
    world = World(folder=tmp_path, model=chain(40), trouble=fused(*group))
    conclusion, named = found(world, turns(trials), gone=group[:-1])
    assert group[-1] in named
    assert conclusion is BRACKET or (conclusion, named) == (FUSED, group)
    assert trials < 20 or conclusion is FUSED


@pytest.mark.parametrize("seed", range(12))
def test_what_cannot_be_tried_never_hides_a_fault(seed: int, tmp_path: Path) -> None:
    """Whatever neither side can run, a conclusion is right and a bracket holds the fault."""
    rng = random.Random(seed)  # noqa: S311 - a seeded choice
    model = random_graph(seed, 14)
    nodes = computing(model)
    ends = {port.name for port in model.graph.output}
    for node in rng.sample(nodes, 5):
        hidden = {name for name in nodes if rng.random() < 0.3} - ends
        world = World(
            folder=tmp_path, model=model, trouble=unable(wrong(node), hidden),
            baseline_trouble=unable(sound, {n for n in hidden if rng.random() < 0.3}),
        )  # fmt: skip
        conclusion, named = found(world)
        assert node in named
        assert conclusion is (HERE if len(named) == 1 else BRACKET)


@pytest.mark.parametrize("seed", range(12))
def test_what_cannot_be_tried_never_makes_a_group_up(seed: int, tmp_path: Path) -> None:
    """Nodes that err together are concluded to only where all of them are named."""
    rng = random.Random(seed)  # noqa: S311 - a seeded choice
    start, length = rng.randrange(10), rng.randrange(2, 6)
    group = tuple(f"t{start + at}" for at in range(length))
    hidden = {f"t{at}" for at in range(17) if rng.random() < 0.3}
    drifting = World(
        folder=tmp_path, model=chain(18), trouble=unable(wrong(*group), hidden),
        limit=length - 0.5,
    )  # fmt: skip
    conclusion, named = found(drifting)
    assert group[-1] in named
    assert conclusion is BRACKET or (conclusion, named) == (AMPLIFIED, group)
    world = World(folder=tmp_path, model=chain(18), trouble=unable(fused(*group), hidden))
    conclusion, named = found(world, gone=group[:-1])
    assert group[-1] in named
    assert conclusion is BRACKET or (conclusion, named) == (FUSED, group)


def test_where_no_cut_can_be_tried_everything_is_in_the_bracket(tmp_path: Path) -> None:
    """It gives up after a few."""
    model = chain(60)
    inner = [f"t{at}" for at in range(59)]
    world = World(folder=tmp_path, model=model, trouble=unable(wrong("t7"), inner))
    handover, stretch = located(world)
    assert (stretch.start, stretch.end, stretch.conclusion) == (None, None, BRACKET)
    assert handover.candidate.bench.runs < 20
    assert list(handover.obstacles) == ["the candidate: refused"]


def test_a_graph_without_cuts_is_one_step(tmp_path: Path) -> None:
    """It is at fault as a whole."""
    world = World(folder=tmp_path, model=chain(1), trouble=wrong("t0"))
    handover, stretch = located(world)
    assert stretch == Stretch(start=None, end=None, conclusion=HERE)
    assert nodes_of(handover, stretch) == ("t0",)


def test_a_candidate_with_names_of_its_own_is_asked_by_them(tmp_path: Path) -> None:
    """Tensors travel under the baseline's names."""
    names = {f"t{at}": f"other{at}" for at in range(9)}
    for at in range(9):
        world = World(folder=tmp_path, model=chain(9), trouble=wrong(f"other{at}"), names=names)
        assert found(world) == (HERE, (f"t{at}",))


def test_a_fault_that_comes_and_goes_from_run_to_run_is_followed(tmp_path: Path) -> None:
    """The worst of all runs of a part counts."""
    world = World(folder=tmp_path, model=chain(9), trouble=wrong(), again=wrong("t4"))
    assert found(world) == (HERE, ("t4",))


def test_the_search_may_begin_behind_a_cut(tmp_path: Path) -> None:
    """What lies before it is handed over whole; a second fault is then found."""
    model = chain(13)
    world = World(folder=tmp_path, model=model, trouble=wrong("t2", "t8"))
    handover = world.handover()
    cuts = handover.baseline.graph.cuts()
    stretch = locate(handover, cuts, frozenset(cuts), always, begin=2)
    assert (stretch.conclusion, nodes_of(handover, stretch)) == (HERE, ("t8",))
    world = World(folder=tmp_path, model=model, trouble=wrong("t3", "t8"), limit=1.5)
    handover = world.handover()
    stretch = locate(handover, cuts, frozenset(cuts), always, begin=2)
    assert (stretch.conclusion, stretch.start) == (AMPLIFIED, 2)
    world = World(folder=tmp_path, model=model, trouble=wrong("t2", "t11"))
    handover = world.handover()
    stretch = locate(handover, cuts, frozenset(cuts), always, begin=9)
    assert (stretch.conclusion, nodes_of(handover, stretch)) == (HERE, ("t11",))
