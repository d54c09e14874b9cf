"""Which boundaries a run has, in which order, and what is said of one that is missing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.records.outcome import Outcome
from ci_parity.stages.boundaries import Kind, boundaries_of, in_order, place
from ci_parity.stages.judge import judge
from ci_parity.stages.suite import Neighbour, PairRun
from tests.support.crossed import LIMIT_ONE, Deployment, job


def runs(folder: Path, **parts: Any) -> list[PairRun]:
    """Return runs in which every system computes the same."""
    targets = parts.pop("targets", ("cpu", "gpu"))
    pairs = {(target, variant): 0.0 for target in targets for variant in ("exported", "int8")}
    usual: dict[str, Any] = {"new": pairs, "old": pairs, "source": 0.0}
    return Deployment(folder=folder, **usual | parts).runs()


def named(found: list[PairRun]) -> list[str]:
    """Return the places of all boundaries in their order."""
    return [place(boundary) for boundary in in_order(found)]


ORDER = [
    "cpu/exported: source→exported",
    "cpu/int8: exported→int8",
    "gpu/int8: exported→int8",
    "gpu/exported: cpu→gpu",
    "gpu/int8: cpu→gpu",
    "gpu/exported: source→exported",
    "cpu/exported: baseline→candidate",
    "cpu/int8: baseline→candidate",
    "gpu/exported: baseline→candidate",
    "gpu/int8: baseline→candidate",
]


@pytest.mark.parametrize("backwards", [False, True])
def test_the_order_is_that_of_the_way_from_the_source(tmp_path: Path, backwards: bool) -> None:
    """However the pairs are listed."""
    found = runs(tmp_path)
    assert named(found[::-1] if backwards else found) == ORDER


def test_sides_are_those_of_the_step(tmp_path: Path) -> None:
    """With the jobs that ran them; references have none."""
    (cpu, _, gpu_exported, gpu) = runs(tmp_path)
    source = next(b for b in boundaries_of(cpu))
    assert (source.baseline, source.baseline_job) == (cpu.references, None)
    made, there, version = boundaries_of(gpu)
    assert made.baseline is gpu_exported.candidate
    assert made.baseline_job == job("exported", "gpu")
    assert there.baseline is gpu.reference
    assert there.baseline_job == job("int8", "cpu")
    assert version.baseline is gpu.baseline
    assert all(b.candidate_job is gpu.pair.candidate for b in (made, there, version))
    assert [b.kind for b in (made, there, version)] == [
        Kind.MADE_FROM, Kind.TARGET, Kind.VERSION,
    ]  # fmt: skip


def test_a_variant_made_from_another_is_not_compared_with_the_source(tmp_path: Path) -> None:
    """Its deviation is that of the step, not of the whole way."""
    assert "cpu/int8: source→int8" not in named(runs(tmp_path))


def undeployed(run: PairRun, **changes: Any) -> PairRun:
    """Return a run whose variant was made from one that has no pair there."""
    assert run.made_from is not None
    near = Neighbour(name="exported", job=job("exported"), deployed=False)
    pair = replace(run.pair, made_from=near)
    return replace(run, pair=pair, **changes)


def test_what_runs_for_a_comparison_alone_is_led_back_to_the_source(tmp_path: Path) -> None:
    """Once, however many were made from it."""
    run = undeployed(runs(tmp_path, targets=("cpu",))[1])
    twin = replace(run, pair=replace(run.pair, variant="int4"))
    assert named([run, twin])[0] == "cpu/exported: source→exported"
    assert named([run, twin]).count("cpu/exported: source→exported") == 1


def test_not_where_the_reference_target_leads_there(tmp_path: Path) -> None:
    """int8 is compared with int8 on a target whose own chain is judged."""
    run = undeployed(runs(tmp_path)[3])
    assert named([run]) == [
        "gpu/int8: exported→int8", "gpu/int8: cpu→gpu", "gpu/int8: baseline→candidate",
    ]  # fmt: skip


def test_what_nothing_leads_back_from_was_compared_with_nothing(tmp_path: Path) -> None:
    """A step from a variant that nobody looks at proves nothing, even if it passes."""
    found = runs(tmp_path, targets=("cpu",), old={}, source=None)
    (run,) = [undeployed(one) for one in found if one.made_from is not None]
    judged = judge([run], LIMIT_ONE)
    assert [row.outcome for row in judged.rows] == [Outcome.PASS]
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert [f.id for f in judged.findings if f.outcome is not Outcome.PASS] == ["compared.nothing"]


def test_a_quantized_variant_needs_one_that_is_not(tmp_path: Path) -> None:
    """However well it agrees with the references; the row is open, too."""
    run = runs(tmp_path, targets=("cpu",), old={})[0]
    lacking = replace(run, pair=replace(run.pair, lacks_unquantized=True))
    judged = judge([lacking], LIMIT_ONE)
    assert [row.outcome for row in judged.rows] == [Outcome.INCONCLUSIVE]
    assert judged.outcome is Outcome.INCONCLUSIVE
    (finding,) = (f for f in judged.findings if f.outcome is Outcome.INCONCLUSIVE)
    assert finding.id == "boundary.unquantized"
    assert finding.subject.boundary == "source→exported"


def test_it_does_without_references_too(tmp_path: Path) -> None:
    """A version that is like the one before says nothing of the quantization."""
    run = runs(tmp_path, targets=("cpu",), source=None)[0]
    lacking = replace(run, pair=replace(run.pair, lacks_unquantized=True))
    judged = judge([lacking], LIMIT_ONE)
    assert [row.outcome for row in judged.rows] == [Outcome.PASS]
    assert judged.outcome is Outcome.INCONCLUSIVE


def test_places_leave_out_what_is_the_same(tmp_path: Path) -> None:
    """Seen from another boundary."""
    first, made, *_ = in_order(runs(tmp_path))
    assert place(first) == "cpu/exported: source→exported"
    assert place(first, made) == "exported: source→exported"
    assert place(made, made) == "exported→int8"
    assert place(first, replace(made, target="gpu")) == "cpu/exported: source→exported"
    assert place(replace(first, target="", variant="")) == "source→exported"


@pytest.mark.parametrize("origin", ["snapshot", "snapshot+source"])
def test_a_snapshot_is_not_called_the_source(tmp_path: Path, origin: str) -> None:
    """Answers of the exported model itself say nothing about its conversion."""
    first, *_ = runs(tmp_path)
    assert first.references is not None
    told = replace(first, references=replace(first.references, origin=origin))
    assert boundaries_of(told)[0].label == f"{origin}→exported"
