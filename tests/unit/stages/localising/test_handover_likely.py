"""Where fusions are not known: which of several cuts is tried first, and no more than that."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import locate
from tests.fakes.simulated_bench import Part, RefusedError, Trouble
from tests.support.graphs import model_of
from tests.unit.stages.localising.world import World, always, chain, fused, nodes_of, wrong

ALL = range(39)


def asked_of(folder: Path, trouble: Trouble, **options: Trouble | None) -> Handover:
    """Return what asks two systems over a chain of forty nodes."""
    return World(folder=folder, model=chain(40), trouble=trouble, **options).handover()  # type: ignore[arg-type]


def runs(asked: Handover) -> tuple[int, int]:
    """Return how often the two sides were run."""
    return asked.baseline.bench.runs, asked.candidate.bench.runs


@pytest.mark.parametrize("at", [0, 1, 17, 38])
def test_the_first_cut_at_which_both_sides_differ_is_likely(at: int, tmp_path: Path) -> None:
    """One run of each side tells, and leaves nothing behind."""
    asked = asked_of(tmp_path, wrong(f"t{at}"))
    assert asked.likely(None, ALL) == at
    assert runs(asked) == (1, 1)
    assert list(asked.candidate.bench.folder.iterdir()) == []
    assert (asked.effects, asked.brought) == ({}, {})


def test_no_cut_is_likely_where_none_differs(tmp_path: Path) -> None:
    """As where observing all of them undoes a fusion."""
    assert asked_of(tmp_path, fused("t16", "t17")).likely(None, ALL) is None


def test_behind_a_cut_both_sides_have_the_baselines_tensors(tmp_path: Path) -> None:
    """A fault before it does not show; what is handed over is kept."""
    asked = asked_of(tmp_path, wrong("t5", "t20"))
    assert asked.likely(10, range(11, 39)) == 20
    given = asked.given(10)
    assert given is not None
    assert [path.name for path in asked.baseline.bench.folder.iterdir()] == [given["t10"].file]


def test_a_tensor_that_passes_a_cut_by_is_compared_too(tmp_path: Path) -> None:
    """It may be the one that differs: of two that are made before, the second is read later."""
    nodes = ["Sum: x -> a", "Sum: x -> b", *(f"Sum: {'a' if not at else f'c{at - 1}'} -> c{at}"
             for at in range(6)), "Sum: c5, b -> y"]  # fmt: skip
    asked = World(folder=tmp_path, model=model_of(nodes), trouble=wrong("b")).handover()
    graph = asked.baseline.graph
    first = next(cut for cut in graph.cuts() if "b" in graph.live(cut))
    assert asked.likely(None, graph.cuts()) == first


def test_what_was_handed_over_and_passes_on_is_not_thrown_away(tmp_path: Path) -> None:
    """It is needed for the next trial."""
    nodes = ["Sum: x -> b", *(f"Sum: {f'c{at - 1}' if at else 'b'} -> c{at}" for at in range(6)),
             "Sum: c5, b -> y"]  # fmt: skip
    asked = World(folder=tmp_path, model=model_of(nodes), trouble=wrong("c4")).handover()
    given = asked.given(1)
    assert given is not None
    assert asked.likely(1, range(2, 7)) == 5
    left = {path.name for path in asked.baseline.bench.folder.iterdir()}
    assert left == {record.file for record in given.values()}
    assert set(given) == {"b", "c0"}


@pytest.mark.parametrize(("count", "looked_at"), [(3, False), (4, True)])
def test_a_few_cuts_are_tried_as_fast_as_looked_at(
    count: int, looked_at: bool, tmp_path: Path
) -> None:
    """Nothing is run for them."""
    asked = asked_of(tmp_path, wrong("t1"))
    assert asked.likely(None, range(count)) == (1 if looked_at else None)
    assert runs(asked) == ((1, 1) if looked_at else (0, 0))


@pytest.mark.parametrize(("memory_bytes", "looked_at"), [(39 * 16, True), (39 * 16 - 1, False)])
def test_no_more_is_held_than_there_is_memory(
    memory_bytes: int, looked_at: bool, tmp_path: Path
) -> None:
    """By the size of a cut, where one is known."""
    asked = asked_of(tmp_path, wrong("t20"))
    asked.cut_bytes, asked.memory_bytes = 16, memory_bytes
    assert asked.likely(None, ALL) == (20 if looked_at else None)
    assert (runs(asked) != (0, 0)) is looked_at


@pytest.mark.parametrize("side", ["trouble", "baseline_trouble"])
def test_where_a_side_cannot_hand_them_all_out_no_cut_is_likely(side: str, tmp_path: Path) -> None:
    """The middle is tried then, as ever."""

    def trouble(part: Part) -> Mapping[str, float]:
        if len(part.outputs) > 1:
            raise RefusedError(RunStatus.ERROR)
        return {}

    asked = asked_of(tmp_path, **{"trouble": wrong("t3"), side: trouble})
    assert asked.likely(None, ALL) is None


def test_where_nothing_can_be_given_no_cut_is_likely(tmp_path: Path) -> None:
    """The baseline does not get there."""

    def trouble(_: Part) -> Mapping[str, float]:
        raise RefusedError(RunStatus.ERROR)

    asked = asked_of(tmp_path, wrong("t20"), baseline_trouble=trouble)
    assert asked.likely(10, range(11, 39)) is None
    assert asked.candidate.bench.runs == 0


def test_of_a_candidate_that_refuses_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    """It brings no tensors."""
    asked = asked_of(tmp_path, wrong("t20"))
    asked.refusal = RunStatus.ERROR
    assert asked.likely(None, ALL) is None
    assert runs(asked) == (0, 0)


def searched(asked: Handover, kept: Collection[int] | None) -> tuple[Conclusion, tuple[str, ...]]:
    """Return what a search concludes, and the nodes it names."""
    stretch = locate(asked, asked.baseline.graph.cuts(), kept, always)
    return stretch.conclusion, nodes_of(asked, stretch)


def test_several_cuts_are_looked_at_only_where_that_leaves_fusions_alone(tmp_path: Path) -> None:
    """Else each is asked for by itself: together they would do more than one does."""
    most: list[int] = []

    def recorded(part: Part) -> Mapping[str, float]:
        most.append(len(part.outputs))
        return wrong("t20")(part)

    asked = asked_of(tmp_path, recorded)
    assert searched(asked, frozenset(ALL)) == (Conclusion.HERE, ("t20",))
    assert max(most) > 1
    most.clear()
    asked = asked_of(tmp_path, recorded)
    assert searched(asked, None) == (Conclusion.HERE, ("t20",))
    assert max(most) == 1


def test_a_likely_cut_spares_trials(tmp_path: Path) -> None:
    """It and the one before are tried, and are enough."""
    asked = asked_of(tmp_path, wrong("t21"))
    assert searched(asked, frozenset([10, 37])) == (Conclusion.HERE, ("t21",))
    known = {cut for _, cut in asked.effects if cut is not None and 10 < cut < 37}
    assert known == {20, 21}
    assert asked.candidate.bench.runs <= 6


def test_a_cut_that_is_likely_by_mistake_misleads_nobody(tmp_path: Path) -> None:
    """Rounding makes it differ; the fault is elsewhere."""
    small = wrong("t12", by=0.01)

    def trouble(part: Part) -> Mapping[str, float]:
        return {**small(part), **wrong("t30")(part)}

    asked = asked_of(tmp_path, trouble)
    assert asked.likely(10, range(11, 37)) == 12
    assert searched(asked, frozenset([10, 37])) == (Conclusion.HERE, ("t30",))
