"""Parts of one fixture set, joined: all cases once, in the order of the set, or not at all."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.kept import KeptRun
from ci_parity.records.noise import NoiseFloors, Precision
from ci_parity.records.observation import CaseInputs, InputSet, RunStatus
from ci_parity.records.values import read_value
from ci_parity.stages.fanout.merging import merge
from tests.support.kept import floored, made
from tests.support.observations import case_run, floats, observation, references

NAMES = ("a", "b", "c")


def part(folder: Path, *cases: str, build: Callable[..., KeptRun] = made) -> KeptRun:
    """Return a part that ran some cases; each output is the place of its case's letter."""
    folder.mkdir()
    run = build(folder)
    side = observation(
        folder / "ours",
        *(case_run(folder / "ours", name, {"y": floats(ord(name), 1)}) for name in cases),
    )
    return replace(run, observations=(side, run.observations[1]))


def whole(folder: Path) -> InputSet:
    """Return the inputs of the whole set."""
    cases = tuple(CaseInputs(case=name, inputs=()) for name in NAMES)
    return InputSet(folder=str(folder), source="fixtures", cases=cases)


def joined(tmp_path: Path, *parts: KeptRun) -> KeptRun:
    """Join parts without stored references."""
    return merge(parts, whole(tmp_path), None, tmp_path / "joined")


def values(run: KeptRun) -> dict[str, float]:
    """Return the first element of each case's output."""
    side = run.observations[run.pairs[0].candidate.observation]
    found = {}
    for case in side.cases:
        array: Any = read_value(case.outputs[0], Path(side.folder))
        found[case.case] = float(array[0])
    return found


def test_cases_come_in_the_order_of_the_set(tmp_path: Path) -> None:
    """Though their files had the same names on each runner."""
    run = joined(tmp_path, part(tmp_path / "1", "a", "c"), part(tmp_path / "2", "b"))
    assert list(values(run).items()) == [("a", 97.0), ("b", 98.0), ("c", 99.0)]
    assert run.pairs[0].expected == NAMES


def test_what_no_part_ran_is_not_there(tmp_path: Path) -> None:
    """The judgement misses it, since all are expected."""
    run = joined(tmp_path, part(tmp_path / "1", "a"), part(tmp_path / "2", "b"))
    assert set(values(run)) == {"a", "b"}
    assert run.pairs[0].expected == NAMES


def test_targets_stay_apart(tmp_path: Path) -> None:
    """Each has its own systems; only parts of one pair are joined."""
    one, two = part(tmp_path / "1", *NAMES), part(tmp_path / "2", *NAMES)
    two = replace(two, pairs=(replace(two.pairs[0], target="gpu"),))
    run = joined(tmp_path, one, two)
    assert [pair.target for pair in run.pairs] == ["cpu", "gpu"]
    assert run.pairs[0].candidate.observation != run.pairs[1].candidate.observation


def test_references_are_those_that_are_here(tmp_path: Path) -> None:
    """Not those that a leg brought."""
    own = references(tmp_path / "own", case_run(tmp_path / "own", "a", {"y": floats(7, 7)}))
    run = merge([part(tmp_path / "1", "a")], whole(tmp_path), own, tmp_path / "joined")
    assert run.pairs[0].references is not None
    assert run.observations[run.pairs[0].references] is own
    assert joined(tmp_path, part(tmp_path / "2", "a")).pairs[0].references is None


def other_model(run: KeptRun) -> KeptRun:
    """Another model was run."""
    pair = run.pairs[0]
    return replace(run, pairs=(replace(pair, candidate=replace(pair.candidate, model="other")),))


def other_provider(run: KeptRun) -> KeptRun:
    """The provider fell back."""
    first, *rest = run.observations
    return replace(run, observations=(replace(first, providers_used=("Other",)), *rest))


@pytest.mark.parametrize("change", [other_model, other_provider])
def test_parts_of_different_systems_are_refused(
    tmp_path: Path, change: Callable[[KeptRun], KeptRun]
) -> None:
    """Half of a set here and half there is no evidence for either."""
    with pytest.raises(EvidenceError, match="the parts ran"):
        joined(tmp_path, part(tmp_path / "1", "a"), change(part(tmp_path / "2", "b")))


def test_a_part_that_did_not_load_is_the_whole_that_did_not(tmp_path: Path) -> None:
    """What it would have run is not measured."""
    lame = part(tmp_path / "2")
    first, *rest = lame.observations
    first = replace(first, load=RunStatus.CRASH, load_message="gone")
    run = joined(tmp_path, part(tmp_path / "1", "a"), replace(lame, observations=(first, *rest)))
    side = run.observations[run.pairs[0].candidate.observation]
    assert (side.load, side.load_message) == (RunStatus.CRASH, "gone")


def test_a_file_s_name_cannot_lead_elsewhere(tmp_path: Path) -> None:
    """It stays as it is, and whoever reads the value refuses it; nothing is written outside."""
    sly = part(tmp_path / "2", "b")
    side, *rest = sly.observations
    case = side.cases[0]
    output = replace(case.outputs[0], file="../../1/ours/c0_o0.bin")
    side = replace(side, cases=(replace(case, outputs=(output,)),))
    before = set(tmp_path.rglob("*"))
    run = joined(tmp_path, part(tmp_path / "1", "a"), replace(sly, observations=(side, *rest)))
    with pytest.raises(EvidenceError):
        values(run)
    new = set(tmp_path.rglob("*")) - before
    assert all(
        path.is_relative_to(tmp_path / "joined") or path.is_relative_to(tmp_path / "1")
        for path in new
    )


def floors(run: KeptRun, measured: NoiseFloors | None) -> KeptRun:
    """Return a run with other floors."""
    (kept,) = run.floors
    return replace(run, floors=(replace(kept, floors=measured or kept.floors),))


def test_floors_of_parts_are_joined(tmp_path: Path) -> None:
    """Where one part needed none, because nothing differed there, the other's count."""
    equal = NoiseFloors(folder="", precision=Precision.FLOAT32, seeds=0, exact=True)
    one = part(tmp_path / "1", "c", build=floored)
    two = floors(part(tmp_path / "2", "b", build=floored), equal)
    for number, parts in enumerate(((one, two), (two, one))):
        (kept,) = merge(parts, whole(tmp_path), None, tmp_path / f"joined{number}").floors
        assert not kept.floors.exact
        assert [case.case for case in kept.floors.cases] == ["c"]
        file = kept.floors.cases[0].outputs[0].file
        assert (Path(kept.floors.folder) / file).stat().st_size == 8
