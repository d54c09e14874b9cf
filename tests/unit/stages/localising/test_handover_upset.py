"""A baseline that computes something else where it is observed: such a cut tells nothing."""

from pathlib import Path

from ci_parity.records.divergence import Conclusion
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import locate
from tests.fakes.simulated_bench import Part, Trouble
from tests.unit.stages.localising.world import World, always, chain, nodes_of, wrong


def upset_before(node: str) -> Trouble:
    """Return a system that is wrong where it is handed what a node reads."""

    def trouble(part: Part) -> dict[str, float]:
        return {node: 1.0} if part.nodes[0] == node else {}

    return trouble


def asked(folder: Path, *, steady: frozenset[int] = frozenset()) -> Handover:
    """Return what asks a candidate that is wrong at `t2`, and a baseline that is upset at `t3`."""
    trouble = upset_before("t4")
    world = World(
        folder=folder, model=chain(6), trouble=wrong("t2"), baseline_trouble=trouble
    )  # fmt: skip
    found = world.handover()
    found.steady = steady
    return found


def test_a_cut_that_upsets_the_baseline_is_not_counted(tmp_path: Path) -> None:
    """What breaks there may be the baseline's doing."""
    handover = asked(tmp_path)
    assert handover.breaks(None, 3) is None
    assert handover.upset == {3: True}
    assert handover.breaks(None, 2) is True
    assert handover.upset == {3: True, 2: False}


def test_a_cut_known_to_be_steady_is_believed(tmp_path: Path) -> None:
    """There the baseline is not run again."""
    handover = asked(tmp_path, steady=frozenset({3}))
    assert handover.breaks(None, 3) is True
    assert handover.upset == {}


def test_the_search_goes_round_such_a_cut(tmp_path: Path) -> None:
    """And names the node as if it were not there."""
    handover = asked(tmp_path)
    cuts = handover.baseline.graph.cuts()
    stretch = locate(handover, cuts, None, always)
    assert stretch.conclusion is Conclusion.HERE
    assert nodes_of(handover, stretch) == ("t2",)
