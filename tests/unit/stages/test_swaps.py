"""Two systems as parts: what differs, in words, and mixtures of them."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from ci_parity.config.systems import Target
from ci_parity.records.attribution import SystemAxis
from ci_parity.run.execute import Job, Ports
from ci_parity.run.runtime import Launch
from ci_parity.stages.swaps import mixed, swaps_between
from tests.support.models import save_linear

AXES = tuple(SystemAxis)


def job(model: Path, label: str = "onnxruntime==1.31.1", **target: Any) -> Job:
    """Return a job on a runtime."""
    launch = Launch(argv=(label,), label=label, environment=f"digest of {label}")
    return Job(launch=launch, model=model, target=Target(name="cpu", **target), timeout_s=1)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Job, Job]:
    """Return two jobs that differ in everything."""
    baseline = job(save_linear(tmp_path / "old.onnx"))
    candidate = job(
        save_linear(tmp_path / "new.onnx", weight=3), "onnxruntime==1.32.0",
        provider="CUDAExecutionProvider", provider_options={"device_id": "1"},
        session_options={"execution_mode": "parallel"},
    )  # fmt: skip
    return (
        replace(baseline, ports=Ports(outputs=("y",))),
        replace(candidate, ports=Ports(outputs=("z",)), repeat=3),
    )


def test_all_parts_are_named(sides: tuple[Job, Job]) -> None:
    """With both of their values, options by name."""
    assert [(swap.axis, swap.before, swap.after) for swap in swaps_between(*sides)] == [
        (SystemAxis.MODEL, "old.onnx", "new.onnx"),
        (SystemAxis.RUNTIME, "onnxruntime==1.31.1", "onnxruntime==1.32.0"),
        (
            SystemAxis.PROVIDER,
            "CPUExecutionProvider with device_id=(default)",
            "CUDAExecutionProvider with device_id=1",
        ),
        (SystemAxis.OPTIONS, "execution_mode=(default)", "execution_mode=parallel"),
    ]


def test_equal_systems_differ_in_nothing(tmp_path: Path) -> None:
    """A copy of a model is the same model, and so is a program in another folder."""
    left = job(save_linear(tmp_path / "a" / "m.onnx"))
    right = job(save_linear(tmp_path / "b" / "n.onnx"))
    assert swaps_between(left, right) == ()
    moved = replace(right, launch=replace(right.launch, argv=("elsewhere",)))
    assert swaps_between(left, moved) == ()


def test_models_of_one_name_are_told_apart_by_their_bytes(tmp_path: Path) -> None:
    """As in two commits."""
    left = job(save_linear(tmp_path / "a" / "m.onnx"))
    (swap,) = swaps_between(left, job(save_linear(tmp_path / "b" / "m.onnx", weight=3)))
    assert len({swap.before, swap.after, "m.onnx"}) == 3
    assert {len(swap.before), len(swap.after)} == {12}


def test_runtimes_of_one_name_are_told_apart_by_what_is_installed(tmp_path: Path) -> None:
    """The same pin with another dependency beside it."""
    left = job(save_linear(tmp_path / "m.onnx"))
    right = replace(left, launch=replace(left.launch, environment="0123456789abcdef"))
    (swap,) = swaps_between(left, right)
    assert swap.after == "onnxruntime==1.31.1 (0123456789ab)"


def test_models_that_cannot_be_read_differ_where_they_lie_apart(tmp_path: Path) -> None:
    """Whatever they are: the runtime says so."""
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path in paths:
        path.write_bytes(b"no model")
    (swap,) = swaps_between(job(paths[0]), job(paths[1]))
    assert (swap.before, swap.after) == ("a.onnx", "b.onnx")


@pytest.mark.parametrize("count", range(5))
def test_mixtures_have_each_part_from_one_side(sides: tuple[Job, Job], count: int) -> None:
    """Whatever is taken; they run as often as the candidate."""
    baseline, candidate = sides
    for axes in combinations(AXES, count):
        made = mixed(baseline, candidate, axes)
        left = {swap.axis for swap in swaps_between(baseline, made)}
        right = {swap.axis for swap in swaps_between(made, candidate)}
        assert left == set(axes)
        assert right == set(AXES) - set(axes)
        source = candidate if SystemAxis.MODEL in axes else baseline
        assert made.ports == source.ports
        assert made.repeat == 3
