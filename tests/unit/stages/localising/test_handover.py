"""What the nodes between two cuts do to the outputs, and where that cannot be known."""

from pathlib import Path

import pytest

from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.handover import Effect, Handover
from tests.fakes.simulated_bench import Part, RefusedError, SimulatedBench, Trouble
from tests.support.graphs import model_of
from tests.unit.stages.localising.world import LIMIT, World, chain, wrong

INF = float("inf")
OK, ERROR, CRASH = RunStatus.OK, RunStatus.ERROR, RunStatus.CRASH
TIMEOUT, NOT_RUN, PROTOCOL = RunStatus.TIMEOUT, RunStatus.NOT_RUN, RunStatus.PROTOCOL


def handover(folder: Path, trouble: Trouble, refusal: RunStatus | None = None) -> Handover:
    """Return what asks two systems over a chain of five nodes."""
    return World(folder=folder, model=chain(5), trouble=trouble, refusal=refusal).handover()


def failing(status: RunStatus) -> Trouble:
    """Return a system that fails wherever it is asked for `t2`."""

    def trouble(part: Part) -> dict[str, float]:
        if "t2" in part.nodes:
            raise RefusedError(status, "no kernel")
        return {}

    return trouble


def test_only_the_nodes_between_are_the_candidates(tmp_path: Path) -> None:
    """Before and behind, the baseline computes."""
    asked = handover(tmp_path, wrong("t2"))
    cuts = (None, 0, 1, 2, 3, None)
    broken = {
        (start, end): asked.breaks(start, end)
        for number, start in enumerate(cuts[:-1]) for end in cuts[number + 1 :]
    }  # fmt: skip
    assert broken == {
        (None, 0): False, (None, 1): False, (None, 2): True, (None, 3): True, (None, None): True,
        (0, 1): False, (0, 2): True, (0, 3): True, (0, None): True,
        (1, 2): True, (1, 3): True, (1, None): True,
        (2, 3): False, (2, None): False, (3, None): False,
    }  # fmt: skip


def test_the_effect_is_what_the_judge_says_of_the_outputs(tmp_path: Path) -> None:
    """Not of the tensors that are handed over."""
    assert handover(tmp_path, wrong("t2")).effect(1, 2) == Effect(bad=True, used=1 / LIMIT)
    small = handover(tmp_path, wrong("t2", by=0.25)).effect(1, 2)
    assert small == Effect(bad=False, used=0.25 / LIMIT)


def test_what_a_node_does_counts_by_how_often_it_is_read(tmp_path: Path) -> None:
    """The graph behind a difference makes it larger."""
    model = model_of(["Sum: x -> a", "Sum: a, a, a -> b", "Sum: b, b -> y"])
    effect = World(folder=tmp_path, model=model, trouble=wrong("a", by=0.25)).handover()
    assert effect.effect(None, 0) == Effect(bad=True, used=6 * 0.25 / LIMIT)


def test_a_question_is_asked_once(tmp_path: Path) -> None:
    """Nor does the baseline compute the same cut twice."""
    asked = handover(tmp_path, wrong("t2"))
    asked.effect(1, 2)
    runs = (asked.baseline.bench.runs, asked.candidate.bench.runs)
    assert runs == (2, 1)
    asked.effect(1, 2)
    assert (asked.baseline.bench.runs, asked.candidate.bench.runs) == runs
    asked.effect(1, 3)
    assert (asked.baseline.bench.runs, asked.candidate.bench.runs) == (3, 2)


def test_a_cut_is_given_all_that_is_alive(tmp_path: Path) -> None:
    """A tensor that is read late is handed over beside the one just made."""
    model = model_of(["Sum: x -> a", "Sum: a -> b", "Sum: b -> c", "Sum: a, c -> y"])
    world = World(folder=tmp_path, model=model, trouble=wrong("b"))
    asked = world.handover()
    given = asked.given(1)
    assert given is not None
    assert set(given) == {"a", "b"}
    assert asked.given(None) == {}
    assert asked.wanted(1) == ("a", "b")
    assert asked.wanted(None) == ("y",)
    assert [asked.breaks(start, end) for start, end in ((0, 1), (1, 2))] == [True, False]


def test_the_worst_of_differing_runs_counts(tmp_path: Path) -> None:
    """A system that does not repeat itself is judged by the run that breaks the case."""
    world = World(
        folder=tmp_path, model=chain(5), trouble=wrong("t2", by=0.1), again=wrong("t2", by=2.0)
    )
    assert world.handover().effect(1, 2) == Effect(bad=True, used=2.0 / LIMIT)
    world = World(
        folder=tmp_path, model=chain(5), trouble=wrong("t2", by=2.0), again=wrong("t2", by=0.1)
    )
    assert world.handover().effect(1, 2) == Effect(bad=True, used=2.0 / LIMIT)


def test_a_part_that_the_candidate_cannot_run_decides_nothing(tmp_path: Path) -> None:
    """Where the whole brought outputs, an error of a part is an obstacle, named once."""
    asked = handover(tmp_path, failing(ERROR))
    assert asked.breaks(1, 2) is None
    assert asked.breaks(None, 2) is None
    assert asked.breaks(2, 3) is False
    assert list(asked.obstacles) == ["the candidate: no kernel"]


@pytest.mark.parametrize("at", [1, 3])
def test_a_part_that_the_baseline_cannot_run_decides_nothing(at: int, tmp_path: Path) -> None:
    """Neither up to a cut nor behind it."""

    def trouble(part: Part) -> dict[str, float]:
        if f"t{at}" in part.nodes:
            raise RefusedError(ERROR, "no memory")
        return {}

    world = World(folder=tmp_path, model=chain(5), trouble=wrong("t2"), baseline_trouble=trouble)
    asked = world.handover()
    assert asked.breaks(1, 2) is None
    assert list(asked.obstacles) == ["the baseline: no memory"]
    assert asked.given(1) is None or at == 3


def test_words_about_an_obstacle_are_short(tmp_path: Path) -> None:
    """A system may say what it likes."""

    def trouble(_: Part) -> dict[str, float]:
        raise RefusedError(ERROR, "x" * 5000)

    asked = handover(tmp_path, trouble)
    asked.effect(None, None)
    assert [len(text) for text in asked.obstacles] == [300]


@pytest.mark.parametrize(
    ("whole", "part", "broken"),
    [
        (ERROR, ERROR, True),
        (ERROR, PROTOCOL, True),
        (CRASH, CRASH, True),
        (CRASH, TIMEOUT, True),
        (TIMEOUT, CRASH, True),
        (ERROR, CRASH, None),
        (ERROR, TIMEOUT, None),
        (CRASH, ERROR, None),
        (ERROR, NOT_RUN, None),
        (CRASH, NOT_RUN, None),
        (ERROR, OK, False),
        (CRASH, OK, False),
    ],
)
def test_a_refusal_is_followed_by_its_kind(
    whole: RunStatus, part: RunStatus, broken: bool | None, tmp_path: Path
) -> None:
    """A part that fails in another way than the whole did decides nothing."""
    trouble = failing(part) if part is not OK else wrong("t2")
    asked = handover(tmp_path, trouble, refusal=whole)
    assert asked.breaks(1, 2) is broken
    assert bool(asked.obstacles) is (broken is None)
    assert asked.breaks(2, None) is False
    expected = None if broken is None else Effect(bad=broken, used=INF if broken else 0.0)
    assert asked.effect(1, 2) == expected


def test_where_the_candidate_refuses_the_baseline_need_not_finish(tmp_path: Path) -> None:
    """No outputs are judged."""
    asked = handover(tmp_path, failing(CRASH), refusal=CRASH)
    asked.effect(None, 3)
    assert isinstance(asked.baseline.bench, SimulatedBench)
    assert (asked.baseline.bench.runs, asked.candidate.bench.runs) == (0, 1)


def long_chain(folder: Path, trouble: Trouble, memory_bytes: int = 1 << 20) -> Handover:
    """Return what asks two systems over a chain of forty nodes, with memory for some tensors."""
    asked = World(folder=folder, model=chain(40), trouble=trouble).handover()
    asked.memory_bytes = memory_bytes
    return asked


def runs(asked: Handover) -> tuple[int, int]:
    """Return how often the two sides were run."""
    return asked.baseline.bench.runs, asked.candidate.bench.runs


def test_looking_ahead_spares_runs(tmp_path: Path) -> None:
    """Three cuts in one run of each side; the baseline finishes where they differ."""
    asked = long_chain(tmp_path, wrong("t20"))
    asked.look_ahead(None, range(39))
    assert runs(asked) == (1, 1)
    seen = [cut for cut in range(39) if (None, cut) in asked.brought]
    assert len(seen) == 3
    assert 19 in seen
    assert [asked.breaks(None, cut) for cut in seen] == [cut >= 20 for cut in seen]
    assert runs(asked) == (1 + sum(cut >= 20 for cut in seen), 1)


def test_tensors_that_are_the_baselines_own_break_nothing(tmp_path: Path) -> None:
    """The outputs need not be computed to know that."""
    asked = long_chain(tmp_path, wrong("t20"))
    asked.given(10)
    assert asked.effect(None, 10) == Effect(bad=False, used=0.0)
    assert runs(asked) == (1, 1)


def test_what_is_known_is_not_looked_for_again(tmp_path: Path) -> None:
    """Nor is anything where the candidate refuses."""
    asked = long_chain(tmp_path, wrong("t20"))
    asked.look_ahead(None, range(39))
    asked.look_ahead(None, range(39))
    assert runs(asked) == (1, 1)
    refusing = handover(tmp_path, failing(ERROR), refusal=ERROR)
    refusing.look_ahead(None, range(4))
    assert runs(refusing) == (0, 0)


@pytest.mark.parametrize(("memory_bytes", "count"), [(1 << 20, 15), (16 * 5, 5), (1, 1)])
def test_as_many_cuts_are_looked_at_as_fit_the_memory(
    memory_bytes: int, count: int, tmp_path: Path
) -> None:
    """By the size of those before; fifteen at most and one at least."""
    asked = long_chain(tmp_path, wrong("t20"), memory_bytes)
    asked.look_ahead(None, range(30, 39))
    before = len(asked.brought)
    asked.look_ahead(None, range(30))
    assert len(asked.brought) - before == count


def test_looking_ahead_from_a_cut_starts_with_the_baselines_tensors(tmp_path: Path) -> None:
    """A fault before that cut does not show."""
    asked = long_chain(tmp_path, wrong("t5", "t20"))
    asked.look_ahead(10, range(11, 39))
    found = {cut: asked.breaks(10, cut) for start, cut in asked.brought if start == 10}
    assert found == {cut: (cut or 0) >= 20 for cut in found}
    assert len(set(found.values())) == 2


def test_every_run_of_a_system_that_differs_is_looked_at(tmp_path: Path) -> None:
    """The worst counts."""
    world = World(folder=tmp_path, model=chain(5), trouble=wrong(), again=wrong("t1"))
    asked = world.handover()
    asked.look_ahead(None, range(4))
    assert [asked.breaks(None, cut) for cut in range(4)] == [False, True, True, True]


def test_where_several_cuts_cannot_be_had_each_is_asked_for_alone(tmp_path: Path) -> None:
    """One that fails does not take its neighbours along."""

    def trouble(part: Part) -> dict[str, float]:
        if "t3" in part.outputs:
            raise RefusedError(ERROR, "no such output")
        return {"t2": 1.0}

    asked = handover(tmp_path, trouble)
    asked.look_ahead(None, range(4))
    assert [asked.breaks(None, cut) for cut in range(4)] == [False, False, True, None]


def test_outputs_that_are_plainly_off_are_judged_when_it_is_asked_how_far(tmp_path: Path) -> None:
    """Until then it is enough that they are bad; what the shortcut does not say is judged."""
    asked = handover(tmp_path, wrong("t2"))
    asked.plainly_off = lambda _: True
    assert asked.effect(1, 2) == Effect(bad=True, used=INF)
    assert asked.exactly(1, 2) == Effect(bad=True, used=1 / LIMIT)
    assert asked.effect(1, 2) == Effect(bad=True, used=1 / LIMIT)
    assert asked.effect(1, 3) == Effect(bad=True, used=INF)
    asked.plainly_off = lambda _: False
    assert asked.effect(1, None) == Effect(bad=True, used=1 / LIMIT)
    assert asked.exactly(0, 1) is None
