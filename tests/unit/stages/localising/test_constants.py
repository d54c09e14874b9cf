"""Whether a node errs by itself or by a constant that a node before it computes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.constants import are_to_blame, constants_of
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import Stretch, locate
from tests.fakes.simulated_bench import Part, RefusedError, Trouble, sound
from tests.support.graphs import model_of
from tests.unit.stages.localising.world import World, always, fused, random_graph, wrong

ERROR, CRASH, NOT_RUN = RunStatus.ERROR, RunStatus.CRASH, RunStatus.NOT_RUN
# `v` and `u` are computed from the weight alone; `c` reads the former, `d` both.
NODES = [
    "Sum: w -> u", "Sum: u -> v", "Sum: x -> a", "Sum: a, w -> b", "Sum: b, v -> c",
    "Sum: c, u, v -> d", "Sum: d -> y",
]  # fmt: skip


def world(folder: Path, trouble: Trouble, nodes: Sequence[str] = NODES) -> World:
    """Return two systems over a graph that computes constants."""
    return World(folder=folder, model=model_of(nodes, weights=("w",)), trouble=trouble)


def stretch_of(asked: Handover) -> Stretch:
    """Return what the search comes to."""
    cuts = asked.baseline.graph.cuts()
    return locate(asked, cuts, frozenset(cuts), always)


def blamed(asked: Handover) -> tuple[str, ...]:
    """Return the constants that the search finds at fault."""
    stretch = stretch_of(asked)
    constants = constants_of(asked, stretch)
    return constants if are_to_blame(asked, stretch, constants) else ()


def at(asked: Handover, made: str) -> int:
    """Return the position of the node that makes a tensor."""
    return asked.baseline.graph.makers[made]


@pytest.mark.parametrize(
    ("before", "behind", "constants"),
    [("a", "b", ()), ("b", "c", ("v",)), ("c", "d", ("u", "v")), ("b", "d", ("v", "u")),
     ("d", None, ()), (None, None, ("v", "u"))],
)  # fmt: skip
def test_the_constants_of_a_stretch_are_those_its_nodes_read(
    before: str | None, behind: str | None, constants: tuple[str, ...], tmp_path: Path
) -> None:
    """Weights are not computed; what computes a constant of its own tells nothing."""
    asked = world(tmp_path, sound).handover()
    ends = [None if name is None else at(asked, name) for name in (before, behind)]
    stretch = Stretch(start=ends[0], end=ends[1], conclusion=Conclusion.HERE)
    assert constants_of(asked, stretch) == constants


@pytest.mark.parametrize("node", ["u", "v"])
def test_a_node_that_computes_a_constant_is_told_from_its_reader(node: str, tmp_path: Path) -> None:
    """Given the baseline's constant the reader is good; so is one that reads it by another."""
    assert blamed(world(tmp_path, wrong(node)).handover()) == ("v",)


@pytest.mark.parametrize("node", ["a", "b", "c", "d", "y"])
def test_a_reader_at_fault_is_not_excused_by_its_constants(node: str, tmp_path: Path) -> None:
    """Nor is a node that reads none."""
    assert blamed(world(tmp_path, wrong(node)).handover()) == ()


@pytest.mark.parametrize("seed", range(6))
def test_in_a_random_graph_the_guilty_kind_is_told(seed: int, tmp_path: Path) -> None:
    """Whichever node it is, of those that outputs depend on."""
    model = random_graph(seed, 12)
    graph = World(folder=tmp_path, model=model, trouble=sound).handover().baseline.graph
    for node in graph.nodes:
        made = node.output[0]
        asked = World(folder=tmp_path, model=model, trouble=wrong(made)).handover()
        assert bool(blamed(asked)) is (made in graph.constant)


def test_a_constant_that_is_the_same_on_both_sides_is_not_to_blame(tmp_path: Path) -> None:
    """Handing it in undoes a fusion of its node with the reader: that is no proof against it."""
    assert blamed(world(tmp_path, fused("v", "c")).handover()) == ()


def test_one_wrong_constant_beside_a_right_one_is_enough(tmp_path: Path) -> None:
    """They are handed in together."""
    nodes = ["Sum: w -> u", "Sum: w -> v", "Sum: x -> a", "Sum: a, u, v -> b", "Sum: b -> y"]
    assert blamed(world(tmp_path, wrong("v"), nodes).handover()) == ("u", "v")


def test_what_the_candidate_computes_elsewhere_is_not_handed_in(tmp_path: Path) -> None:
    """Without a tensor of that name it would not read it."""
    asked = world(tmp_path, wrong("v")).handover()
    stretch = stretch_of(asked)
    before = asked.candidate.bench.runs
    asked.candidate.names = {"v": "elsewhere"}
    assert not are_to_blame(asked, stretch, ("v",))
    asked.candidate.names = {}
    assert not are_to_blame(asked, stretch, ())
    assert asked.candidate.bench.runs == before
    assert are_to_blame(asked, stretch, ("v",))


def failing(node: str, status: RunStatus, *, whole: RunStatus | None = None) -> Trouble:
    """Return a system that ends in this way wherever it computes a node, in another at `c`."""

    def trouble(part: Part) -> Mapping[str, float]:
        if node in part.nodes:
            raise RefusedError(whole if whole is not None and "c" in part.nodes else status)
        return {}

    return trouble


@pytest.mark.parametrize("status", [ERROR, CRASH])
@pytest.mark.parametrize(("node", "constants"), [("v", ("v",)), ("c", ())])
def test_a_refusal_is_followed_into_the_constants(
    node: str, constants: tuple[str, ...], status: RunStatus, tmp_path: Path
) -> None:
    """The reader runs where it is given the constant that cannot be computed."""
    asked = world(tmp_path, failing(node, status))
    asked.refusal = status
    assert blamed(asked.handover()) == constants


def test_a_constant_that_the_baseline_cannot_compute_is_not_to_blame(tmp_path: Path) -> None:
    """There is nothing to hand in."""

    def trouble(part: Part) -> Mapping[str, float]:
        if part.outputs == {"v"}:
            raise RefusedError(ERROR)
        return {}

    hindered = world(tmp_path, wrong("v"))
    hindered.baseline_trouble = trouble
    assert blamed(hindered.handover()) == ()


def test_where_the_reader_cannot_be_given_its_constants_nothing_is_blamed(tmp_path: Path) -> None:
    """What was not tried is no proof."""

    def trouble(part: Part) -> Mapping[str, float]:
        if "c" in part.nodes and "v" not in part.nodes:
            raise RefusedError(NOT_RUN)
        return wrong("v")(part)

    assert blamed(world(tmp_path, trouble).handover()) == ()


def test_a_constant_that_is_not_the_whole_fault_is_not_to_blame(tmp_path: Path) -> None:
    """The reader breaks the case by itself too."""
    assert blamed(world(tmp_path, wrong("v", "c")).handover()) == ()
