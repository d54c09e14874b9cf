"""Whatever a search comes to, the fault lies in it: early ends and cuts that fail widen it only."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import onnx
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

BUDGETS = (0, 1, 2, 3, 5, 8, 13, None)
HINDERED = (0.0, 0.3, 0.7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A graph, and the nodes that err on the candidate, by themselves or only together.

    `gone` are tensors that the candidate optimizes away, those inside a group among them.
    """

    model: onnx.ModelProto
    nodes: tuple[str, ...]
    gone: frozenset[str]

    @property
    def trouble(self) -> Trouble:
        """What is wrong with the candidate."""
        return fused(*self.nodes) if len(self.nodes) > 1 else wrong(*self.nodes)


def fault(rng: random.Random) -> Fault:
    """Return a node or a group of nodes at fault in a chain or a graph with branches."""
    length = rng.randrange(2, 24)
    if rng.random() < 0.5:
        model = chain(length)
        first = rng.randrange(length)
        last = rng.randrange(first, min(length, first + 6))
        nodes = [f"t{at}" for at in range(first, last + 1)]
    else:
        model = random_graph(rng.randrange(1 << 30), length)
        nodes = rng.choice([*([name] for name in computing(model)), *neighbours(model)])
    merged = {name for name in computing(model) if rng.random() < 0.4}
    return Fault(model=model, nodes=tuple(nodes), gone=frozenset({*merged, *nodes[:-1]}))


def hidden(rng: random.Random, model: onnx.ModelProto, share: float) -> set[str]:
    """Return tensors inside a graph that a system cannot bring."""
    ends = {port.name for port in model.graph.output}
    return {name for name in computing(model) if rng.random() < share} - ends


def searched(
    world: World, gone: Collection[str] | None, more_time: MoreTime
) -> tuple[Handover, Stretch]:
    """Search a world; None for tensors of which it is not known whether they are gone."""
    handover = world.handover()
    graph = handover.baseline.graph
    kept = None
    if gone is not None:
        kept = frozenset(graph.cuts([name for name in graph.makers if name not in gone]))
    return handover, locate(handover, graph.cuts(), kept, more_time)


def clock(budget: int | None) -> MoreTime:
    """Return a clock that allows so many trials, or any number of them."""
    return always if budget is None else turns(budget)


@pytest.mark.parametrize("known", [True, False], ids=["fusions known", "fusions not known"])
@pytest.mark.parametrize("seed", range(16))
def test_what_is_concluded_holds_the_whole_fault(seed: int, known: bool, tmp_path: Path) -> None:
    """And breaks the case by itself, whatever time there was and whichever cuts failed."""
    rng = random.Random(seed)  # noqa: S311 - a seeded world
    for budget, share in product(BUDGETS, HINDERED):
        at_fault = fault(rng)
        barred = hidden(rng, at_fault.model, share)
        world = World(
            folder=tmp_path, model=at_fault.model, trouble=unable(at_fault.trouble, barred),
            baseline_trouble=unable(sound, {name for name in barred if rng.random() < 0.3}),
        )  # fmt: skip
        gone = at_fault.gone if known else None
        handover, stretch = searched(world, gone, clock(budget))
        assert set(at_fault.nodes) <= set(nodes_of(handover, stretch))
        assert handover.breaks(stretch.start, stretch.end) is not False


@pytest.mark.parametrize("known", [True, False], ids=["fusions known", "fusions not known"])
@pytest.mark.parametrize("seed", range(8))
def test_what_adds_up_breaks_the_case_in_what_is_concluded(
    seed: int, known: bool, tmp_path: Path
) -> None:
    """No part of it that is left out is needed."""
    rng = random.Random(seed)  # noqa: S311 - a seeded world
    for budget, share in product(BUDGETS, HINDERED):
        model = random_graph(rng.randrange(1 << 30), 14)
        barred = hidden(rng, model, share)
        drifting = rng.sample(computing(model), 6)
        world = World(
            folder=tmp_path, model=model, trouble=unable(wrong(*drifting, by=0.2), barred)
        )  # fmt: skip
        gone = hidden(rng, model, 0.5) if known else None
        if not world.handover().breaks(None, None):
            continue
        handover, stretch = searched(world, gone, clock(budget))
        assert handover.breaks(stretch.start, stretch.end) is not False


@pytest.mark.parametrize("budget", BUDGETS)
def test_where_fusions_are_not_known_a_bracket_holds_a_group(
    budget: int | None, tmp_path: Path
) -> None:
    """A cut that takes it apart is good, and no reason to begin behind it."""
    for length in (2, 5, 11):
        for first in range(0, 40 - length, 3):
            group = tuple(f"t{first + at}" for at in range(length))
            world = World(folder=tmp_path, model=chain(40), trouble=fused(*group))
            handover, stretch = searched(world, None, clock(budget))
            assert set(group) <= set(nodes_of(handover, stretch))


@pytest.mark.parametrize("budget", range(10))
def test_a_cut_behind_which_nothing_can_be_tried_bounds_nothing(
    budget: int, tmp_path: Path
) -> None:
    """It is good; small differences before it may be needed all the same."""
    drift = wrong(*(f"t{at}" for at in range(20)), by=0.1)

    def trouble(part: Part) -> Mapping[str, float]:
        if "t0" not in part.nodes:
            raise RefusedError(RunStatus.ERROR)
        return drift(part)

    world = World(folder=tmp_path, model=chain(20), trouble=trouble, limit=1.45)
    gone = [f"t{at}" for at in range(20) if at % 4]
    _, stretch = searched(world, gone, clock(budget))
    assert (stretch.start, stretch.conclusion) == (None, Conclusion.BRACKET)


@pytest.mark.parametrize("known", [True, False], ids=["fusions known", "fusions not known"])
def test_a_bracket_begins_behind_the_last_cut_that_bounds_it(known: bool, tmp_path: Path) -> None:
    """From there on the candidate breaks the case by itself."""
    world = World(folder=tmp_path, model=chain(41), trouble=wrong("t30"))
    gone = [f"t{at}" for at in range(41) if at % 10] if known else None
    _, stretch = searched(world, gone, clock(3))
    assert stretch.conclusion is Conclusion.BRACKET
    assert stretch.start is not None
    assert stretch.start < 30
