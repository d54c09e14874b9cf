"""Tensors that are not handed over because each side computes its own, and the model as it is."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx
import pytest

from ci_parity.records.divergence import Conclusion
from ci_parity.records.observation import RunStatus
from ci_parity.stages.localising.handover import Effect, Handover, fails_as_it_is
from ci_parity.stages.localising.locate import locate
from ci_parity.stages.localising.sides import Computed
from tests.fakes.simulated_bench import Part, RefusedError, Trouble, sound
from tests.support.graphs import model_of
from tests.unit.stages.localising.world import LIMIT, World, always, chain, nodes_of, wrong

OK, ERROR, CRASH, TIMEOUT = RunStatus.OK, RunStatus.ERROR, RunStatus.CRASH, RunStatus.TIMEOUT
# `i` stands for indices that are read at every step.
NODES = ["Sum: x -> i", "Sum: x, w -> a", "Sum: a, i -> b", "Sum: b, i -> c", "Sum: c, i -> y"]
LOOSE = frozenset({"i"})


def asked_of(
    folder: Path, trouble: Trouble, nodes: Sequence[str] = NODES, loose: frozenset[str] = LOOSE
) -> Handover:
    """Return what asks two systems over a graph one of whose tensors has no partner."""
    model = model_of(nodes, weights=("w",))
    names = {name: f"other_{name}" for name in ("a", "b", "c")}
    asked = World(folder=folder, model=model, trouble=trouble, names=names).handover()
    asked.loose = loose
    return asked


def test_a_loose_tensor_is_on_no_cut(tmp_path: Path) -> None:
    """It is neither asked for nor given."""
    asked = asked_of(tmp_path, sound)
    graph = asked.baseline.graph
    at = graph.makers["b"]
    assert set(graph.live(at)) == {"b", "i"}
    assert asked.wanted(at) == asked.before(at) == ("b",)
    assert set(asked.given(at) or ()) == {"b"}
    assert (asked.before(None), asked.wanted(None)) == ((), ("y",))


def test_each_side_computes_its_own(tmp_path: Path) -> None:
    """Behind a cut its node runs again, on the inputs of the case."""
    seen: list[tuple[str, ...]] = []

    def recorded(part: Part) -> Mapping[str, float]:
        seen.append(part.nodes)
        return {}

    asked = asked_of(tmp_path, recorded)
    makers = asked.baseline.graph.makers
    assert asked.breaks(makers["b"], makers["c"]) is False
    assert seen == [("i", "other_c")]


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_a_node_is_named_exactly_across_a_loose_tensor(node: str, tmp_path: Path) -> None:
    """The cuts that it bars else are there."""
    asked = asked_of(tmp_path, wrong(f"other_{node}"))
    cuts = asked.baseline.graph.cuts({"a", "b", "c", "i"})
    assert cuts != asked.baseline.graph.cuts({"a", "b", "c"})
    stretch = locate(asked, cuts, frozenset(cuts), always)
    assert stretch.conclusion is Conclusion.HERE
    assert node in nodes_of(asked, stretch)
    assert set(nodes_of(asked, stretch)) <= {node, "i"}


def test_what_is_no_longer_loose_is_handed_over(tmp_path: Path) -> None:
    """Nothing that was found without it counts."""
    asked = asked_of(tmp_path, wrong("i", by=LIMIT))
    makers = asked.baseline.graph.makers
    cut = makers["c"]
    asked.look_ahead(None, [makers["b"], cut])
    assert asked.effect(cut, None) == Effect(bad=False, used=1.0)
    asked.forget(frozenset())
    assert (asked.effects, asked.handed, asked.brought, asked.own) == ({}, {}, {}, {})
    assert asked.loose == frozenset()
    assert set(asked.wanted(cut)) == {"c", "i"}
    assert asked.effect(cut, None) == Effect(bad=False, used=0.0)


def test_the_worst_of_the_runs_of_a_part_is_judged(tmp_path: Path) -> None:
    """What the candidate brought is finished by the baseline."""
    asked = World(folder=tmp_path, model=chain(5), trouble=wrong("t1", by=0.125)).handover()
    runs = [asked.candidate.compute({}, ("t2",))]
    asked.candidate.bench.trouble = wrong("t1")  # type: ignore[attr-defined]
    runs.append(asked.candidate.compute({}, ("t2",)))
    seen = Computed(tensors=runs[0].tensors, others=(runs[1].tensors,))
    assert asked.judged(seen, 2) == Effect(bad=True, used=1 / LIMIT)
    assert asked.judged(runs[0], 2) == Effect(bad=False, used=0.125 / LIMIT)
    assert asked.effects == {}


@pytest.mark.parametrize(
    ("refusal", "status", "expected"),
    [
        (None, ERROR, None), (None, CRASH, None),
        (ERROR, ERROR, Effect(bad=True, used=float("inf"))), (ERROR, CRASH, None),
        (CRASH, TIMEOUT, Effect(bad=True, used=float("inf"))),
        (CRASH, OK, Effect(bad=False, used=0.0)),
    ],
)  # fmt: skip
def test_what_was_not_brought_is_judged_as_a_refusal(
    refusal: RunStatus | None, status: RunStatus, expected: Effect | None, tmp_path: Path
) -> None:
    """Where numbers were wrong it decides nothing."""
    world = World(folder=tmp_path, model=chain(5), trouble=sound, refusal=refusal)
    asked = world.handover()
    seen = Computed(status=status, message="" if status is OK else "last words")
    assert asked.judged(seen, 2) == expected
    assert list(asked.obstacles) == (["the candidate: last words"] if expected is None else [])


def as_it_is(
    folder: Path, trouble: Trouble, refusal: RunStatus | None = None,
    names: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Return whether the candidate fails on its original model, which has one more node."""
    world = World(
        folder=folder, model=chain(5), trouble=trouble, refusal=refusal, names=names or {}
    )
    asked = world.handover()
    own = asked.candidate.name("t4")
    original = folder / "original.onnx"
    nodes = [*(f"Sum: {f't{at - 1}' if at else 'x'}, w -> t{at}" for at in range(4)),
             f"Sum: t3, w -> {own}", "Sum: x -> whole"]  # fmt: skip
    onnx.save(model_of(nodes, outputs=(own, "whole"), weights=("w",)), original)
    return fails_as_it_is(asked, original)


def only_whole(change: Callable[[Part], Mapping[str, float]]) -> Trouble:
    """Return a system that errs on the original model alone."""
    return lambda part: change(part) if "whole" in part.nodes else {}


@pytest.mark.parametrize("names", [{}, {"t4": "logits"}], ids=["same names", "other names"])
def test_the_original_model_is_judged_by_the_outputs_that_failed(
    names: Mapping[str, str], tmp_path: Path
) -> None:
    """Under the candidate's names of them; the other outputs do not count."""
    assert as_it_is(tmp_path, only_whole(wrong("t2")), names=names) is True
    assert as_it_is(tmp_path, only_whole(wrong("t2", by=0.1)), names=names) is False
    assert as_it_is(tmp_path, only_whole(wrong("whole")), names=names) is False
    assert as_it_is(tmp_path, sound, names=names) is False


@pytest.mark.parametrize(
    ("refusal", "status", "fails"),
    [(ERROR, ERROR, True), (CRASH, CRASH, True), (ERROR, OK, False), (None, ERROR, False)],
)
def test_a_refusal_of_the_original_model_counts_where_it_was_one(
    refusal: RunStatus | None, status: RunStatus, fails: bool, tmp_path: Path
) -> None:
    """Wrong numbers are not repeated by bringing none."""

    def refuse(part: Part) -> Mapping[str, float]:
        if status is not OK:
            raise RefusedError(status)
        return wrong("t2")(part)

    assert as_it_is(tmp_path, only_whole(refuse), refusal) is fails
