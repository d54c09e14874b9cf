"""Kept runs on disk: written whole, read only as they were written, and not for ever."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.records.kept import KeptRun
from ci_parity.records.observation import CaseInputs
from ci_parity.records.placement import Method, OperatorPlacement, Placement
from ci_parity.records.values import ValueRecord, read_value, write_value
from ci_parity.stages.kept_runs import (
    Bounds,
    cached,
    content_digest,
    keep_in_cache,
    read_run,
    size_of,
    write_run,
)
from tests.support.kept import floored, made
from tests.support.observations import floats


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Records, values and floors, in folders of the kept run's own."""
    run = floored(tmp_path)
    write_run(run, tmp_path / "kept")
    back = read_run(tmp_path / "kept")
    for before, after in zip(run.observations, back.observations, strict=True):
        assert replace(after, folder=before.folder) == before
        output = after.cases[0].outputs[0]
        values: Any = read_value(output, Path(after.folder))
        assert values.tolist() == [2, 4]
        assert Path(after.folder).parent == tmp_path / "kept"
    assert back.pairs == run.pairs
    floors = back.floors[0].floors
    assert (Path(floors.folder) / "f0.bin").stat().st_size == 8
    assert len(back.files) == 4
    assert not list(tmp_path.glob(".kept*"))


def test_a_run_that_was_kept_before_placement_was_is_read(tmp_path: Path) -> None:
    """It has none, which is no placement."""
    write_run(made(tmp_path), tmp_path / "kept")
    record = tmp_path / "kept" / "run.json"
    kept = json.loads(record.read_text(encoding="utf-8"))
    for side in kept["observations"]:
        del side["placement"]
    record.write_text(json.dumps(kept), encoding="utf-8")
    back = read_run(tmp_path / "kept").observations
    assert {side.placement for side in back} == {None}


def test_where_nodes_ran_is_kept(tmp_path: Path) -> None:
    """So that a policy that comes later can be judged."""
    relu = OperatorPlacement(provider="GPU", op_type="Relu", count=2, names=("r",))
    placed = Placement(method=Method.ASSIGNMENT, operators=(relu,), memcpy=1)
    run = made(tmp_path)
    first, *others = run.observations
    run = replace(run, observations=(replace(first, placement=placed), *others))
    write_run(run, tmp_path / "kept")
    assert read_run(tmp_path / "kept").observations[0].placement == placed


def test_an_empty_folder_may_be_lost_on_the_way(tmp_path: Path) -> None:
    """Artifact stores drop it; one that holds files may not be."""
    empty = replace(made(tmp_path).observations[0], folder=str(tmp_path / "none"), cases=())
    run = made(tmp_path)
    write_run(replace(run, observations=(*run.observations, empty)), tmp_path / "kept")
    (lost,) = (
        path for path in (tmp_path / "kept").iterdir() if path.is_dir() and not any(path.iterdir())
    )
    lost.rmdir()
    assert read_run(tmp_path / "kept").observations[-1].cases == ()
    lost.write_text("no folder", encoding="utf-8")
    with pytest.raises(EvidenceError, match="no folder of these observations"):
        read_run(tmp_path / "kept")


def test_a_kept_run_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    """An empty folder is taken, one with other things is left alone."""
    (tmp_path / "kept").mkdir()
    write_run(made(tmp_path), tmp_path / "kept")
    write_run(made(tmp_path, deployment="other"), tmp_path / "kept")
    assert read_run(tmp_path / "kept").deployment == "other"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(EvidenceError, match="not empty"):
        write_run(made(tmp_path), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["../outside.bin", "missing.bin", ".hidden", "", "li\0nk"])
def test_what_a_worker_did_not_write_plainly_is_not_kept(tmp_path: Path, name: str) -> None:
    """The record stays as it is, and no other file is taken for the value."""
    (tmp_path / "outside.bin").write_bytes(b"12345678")
    record = ValueRecord(name="y", kind="tensor", dtype="float32", shape=(2,), file=name)
    run = made(tmp_path)
    case = replace(run.observations[0].cases[0], outputs=(record,))
    strange = replace(run.observations[0], cases=(case,))
    run = replace(run, observations=(strange, run.observations[1]))
    write_run(run, tmp_path / "kept")
    back = read_run(tmp_path / "kept")
    assert back.observations[0].cases[0].outputs == (record,)
    assert len(back.files) == 2
    with pytest.raises(EvidenceError):
        read_value(record, Path(back.observations[0].folder))


def test_a_link_that_a_worker_left_is_not_followed(tmp_path: Path) -> None:
    """What it leads to stays where it is."""
    (tmp_path / "secret").write_bytes(b"12345678")
    run = made(tmp_path)
    value = tmp_path / "ours" / run.observations[0].cases[0].outputs[0].file
    value.unlink()
    value.symlink_to(tmp_path / "secret")
    write_run(run, tmp_path / "kept")
    assert len(read_run(tmp_path / "kept").files) == 2


@pytest.mark.parametrize(
    "changes",
    [{"axis": 0}, {"peaks": ()}, {"peaks": (1.0, 1.0)}, {"file": "none.bin"}],
    ids=str,
)
def test_floors_of_another_form_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """They would be applied to the wrong elements."""
    write_run(floored(tmp_path, **changes), tmp_path / "kept")
    with pytest.raises(EvidenceError):
        read_run(tmp_path / "kept")


def test_a_folder_behind_a_link_is_no_kept_run(tmp_path: Path) -> None:
    """Nor is a pipe in place of the record, which nobody waits for."""
    write_run(made(tmp_path), tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(EvidenceError, match="no kept observations"):
        read_run(tmp_path / "link")
    (tmp_path / "kept" / "run.json").unlink()
    os.mkfifo(tmp_path / "kept" / "run.json")
    with pytest.raises(EvidenceError, match="no kept observations"):
        read_run(tmp_path / "kept")


# What a case is fed.


def written(folder: Path, name: str, value: Any) -> CaseInputs:
    """Return a case of one input."""
    folder.mkdir(exist_ok=True)
    return CaseInputs(case="c", inputs=(write_value(name, value, folder, "i"),))


def test_the_digest_of_inputs_is_of_what_they_are(tmp_path: Path) -> None:
    """Not of the names of their files."""
    first = written(tmp_path / "a", "x", [floats(1), floats(2, 3)])
    again = CaseInputs(
        case="d", inputs=(write_value("x", [floats(1), floats(2, 3)], tmp_path / "a", "z"),)
    )
    assert content_digest(first, tmp_path / "a") == content_digest(again, tmp_path / "a")


@pytest.mark.parametrize(
    "other",
    [
        lambda folder: written(folder, "z", floats(1, 2)),
        lambda folder: written(folder, "x", floats(1, 3)),
        lambda folder: written(folder, "x", floats(1, 2).reshape(2, 1)),
        lambda folder: written(folder, "x", floats(1, 2).view(np.int32)),
        lambda folder: written(folder, "x", [floats(1, 2)]),
        lambda folder: written(folder, "x", [floats(1), floats(2)]),
    ],
)
def test_inputs_that_differ_have_other_digests(
    tmp_path: Path, other: Callable[[Path], CaseInputs]
) -> None:
    """By name, value, shape, type or structure."""
    first = written(tmp_path / "a", "x", floats(1, 2))
    assert content_digest(first, tmp_path / "a") != content_digest(
        other(tmp_path / "b"), tmp_path / "b"
    )


def test_inputs_that_are_gone_have_none(tmp_path: Path) -> None:
    """They cannot be told to be the same."""
    case = written(tmp_path / "a", "x", floats(1, 2))
    (tmp_path / "a" / case.inputs[0].file).unlink()
    with pytest.raises(EvidenceError):
        content_digest(case, tmp_path / "a")


# The cache.


def keys(cache: Path) -> list[str]:
    """Return the keys of what is kept, sorted."""
    return sorted(path.parent.name for path in cache.glob("observations/*/*/run.json"))


def kept_at(cache: Path, run: KeptRun, root: Path, when: float, bounds: Bounds) -> None:
    """Keep a run as if it were some time ago."""
    place = cached(cache, run.key, root, run.deployment)
    assert keep_in_cache(run, place, bounds)
    os.utime(place / "run.json", (when, when))


def test_the_newest_runs_of_a_deployment_stay(tmp_path: Path) -> None:
    """And those of another one, in another folder, are not counted among them."""
    bounds = Bounds(runs_each=2, runs=10)
    for number in range(4):
        run = made(tmp_path, key=f"{number}" * 64)
        kept_at(tmp_path, run, tmp_path, 1000.0 + number, bounds)
        kept_at(tmp_path, run, tmp_path / "elsewhere", 500.0 + number, bounds)
    assert keys(tmp_path) == [f"{number}" * 32 for number in (2, 2, 3, 3)]


def test_all_runs_together_have_bounds(tmp_path: Path) -> None:
    """By number and by bytes; the newest one always stays."""
    for number in range(4):
        run = made(tmp_path, key=f"{number}" * 64, deployment=f"d{number}")
        kept_at(tmp_path, run, tmp_path, 1000.0 + number, Bounds(runs_each=9, runs=3))
    assert keys(tmp_path) == [f"{number}" * 32 for number in (1, 2, 3)]
    run = made(tmp_path, key="4" * 64, deployment="d4")
    kept_at(tmp_path, run, tmp_path, 2000.0, Bounds(all_bytes=1))
    assert keys(tmp_path) == ["4" * 32]


def test_a_large_run_is_not_kept(tmp_path: Path) -> None:
    """It would push out everything else."""
    run = made(tmp_path)
    place = cached(tmp_path, run.key, tmp_path, "d")
    assert size_of(run) == 24
    assert not keep_in_cache(run, place, Bounds(run_bytes=23))
    assert not place.exists()
    assert keep_in_cache(run, place, Bounds(run_bytes=24))


def test_what_was_left_unfinished_goes(tmp_path: Path) -> None:
    """A job that was killed while it wrote leaves nothing behind for long."""
    run = made(tmp_path)
    place = cached(tmp_path, run.key, tmp_path, "d")
    for name, age in ((".old.x", 100_000), (".new.x", 10)):
        folder = place.with_name(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_run(made(tmp_path), place)
        now = (place / "run.json").stat().st_mtime
        os.utime(folder, (now - age, now - age))
    assert keep_in_cache(run, place)
    assert not place.with_name(".old.x").exists()
    assert place.with_name(".new.x").exists()
