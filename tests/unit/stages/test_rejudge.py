"""When stored observations may stand for a run, and what of them is judged then."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.config.load import policy
from ci_parity.config.model import Policy
from ci_parity.records.identity import (
    Axis,
    BaselineSource,
    Change,
    ChangeSet,
    Identity,
    PairName,
)
from ci_parity.records.kept import KeptRun
from ci_parity.records.latency import LatencyObservation, LatencyRun
from ci_parity.records.outcome import Outcome
from ci_parity.stages.kept_runs import write_run
from ci_parity.stages.rejudge import kept_for, unmet
from tests.support.kept import KEY, floored, made
from tests.support.timings import processes, run_of, side, timed

EXPLICIT = policy({"tolerance": {"rtol": 1e-3}, "latency": {"measure": False}})
ENFORCING = policy({"tolerance": {"rtol": 1e-3}, "latency": {"enforce": True}})
CALIBRATED = policy({"tolerance": "calibrated", "latency": {"measure": False}})


def identity(**changes: Any) -> Identity:
    """Return the identity of the only pair."""
    usual: dict[str, Any] = {
        "target": "cpu", "variant": "exported", "model": "m", "runtime": "onnxruntime==1",
        "provider": "CPUExecutionProvider", "options": "{}", "optimization": "", "fixtures": "f",
        "policy": "{}",
    }  # fmt: skip
    return Identity(**(usual | changes))


def changed(*axes: Axis, reason: str = "", kind: str = "merge-base") -> ChangeSet:
    """Return a change set of the only pair."""
    pair = PairName(target="cpu", variant="exported")
    return ChangeSet(
        source=BaselineSource(kind=kind, label="commit 1", reason=reason),
        changes=tuple(
            Change(axis=axis, target="cpu", variant="exported", before="a", after="b")
            for axis in axes
        ),
        identities=(identity(),),
        baselines=(identity(),),
        to_run=(pair,),
    )


POLICY = changed(Axis.POLICY)


def kept(folder: Path, run: KeptRun | None = None) -> Path:
    """Keep a run whose baseline was the one of `POLICY`, and return where."""
    run = run or made(folder)
    write_run(replace(run, changes=POLICY), folder / "kept")
    return folder / "kept"


def found(place: Path, changes: ChangeSet = POLICY, *policies: Policy) -> KeptRun | None:
    """Look for the run of a check."""
    return kept_for([place], KEY, changes, policies or (EXPLICIT,))


def test_a_policy_alone_finds_its_run(tmp_path: Path) -> None:
    """And what is used again is among the last to go."""
    place = kept(tmp_path)
    before = (place / "run.json").stat().st_mtime_ns
    run = found(place)
    assert run is not None
    assert run.pairs[0].variant == "exported"
    assert (place / "run.json").stat().st_mtime_ns >= before


@pytest.mark.parametrize(
    "changes",
    [
        changed(),
        changed(Axis.MODEL),
        changed(Axis.POLICY, Axis.DRIVER),
        changed(Axis.POLICY, Axis.FIXTURES),
        changed(Axis.POLICY, kind="none"),
        changed(Axis.POLICY, reason="asked to run in any case"),
        replace(POLICY, to_run=(*POLICY.to_run, PairName(target="gpu", variant="exported"))),
    ],
    ids=["nothing", "model", "driver too", "fixtures too", "first", "forced", "another pair"],
)
def test_anything_else_runs(tmp_path: Path, changes: ChangeSet) -> None:
    """What differs besides the policy was not observed."""
    assert found(kept(tmp_path), changes) is None


@pytest.mark.parametrize(
    "lose",
    [
        lambda place: (place / "run.json").unlink(),
        lambda place: (place / "run.json").write_text("{}", encoding="utf-8"),
        lambda place: next(place.glob("values*/*.bin")).write_bytes(b""),
    ],
    ids=["none", "no record", "cut"],
)
def test_what_is_not_whole_runs(tmp_path: Path, lose: Callable[[Path], object]) -> None:
    """A cache is no evidence by itself."""
    place = kept(tmp_path)
    lose(place)
    assert found(place) is None


def test_another_key_runs(tmp_path: Path) -> None:
    """Other systems, inputs or settings in the place of these."""
    assert found(kept(tmp_path, made(tmp_path, key="ef" * 32))) is None


def test_a_record_that_contradicts_itself_runs(tmp_path: Path) -> None:
    """Options that no target can have are no reason to stop."""
    run = made(tmp_path)
    strange = replace(run.pairs[0], candidate=replace(run.pairs[0].candidate, options="[]"))
    assert found(kept(tmp_path, replace(run, pairs=(strange,)))) is None


def test_a_calibrated_policy_needs_its_floors(tmp_path: Path) -> None:
    """In the candidate's policy or in the one that guards it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    without, with_floors = kept(tmp_path / "a"), kept(tmp_path / "b", floored(tmp_path / "b"))
    assert found(without, POLICY, EXPLICIT, CALIBRATED) is None
    assert found(with_floors, POLICY, EXPLICIT, CALIBRATED) is not None


def test_the_version_before_counts_where_it_is_the_same(tmp_path: Path) -> None:
    """Another one is left out, and then latency is not measured."""
    run = made(tmp_path)
    other = replace(run.pairs[0].candidate, observation=1)
    timing = LatencyRun(cases=(LatencyObservation(case="c", sessions=()),))
    pair = replace(run.pairs[0], baseline=other, latency=timing)
    place = kept(tmp_path, replace(run, pairs=(pair,)))
    same = found(place)
    assert same is not None
    assert same.pairs[0].baseline is not None
    another = replace(POLICY, baselines=(identity(model="n"),))
    left_out = found(place, another)
    assert left_out is not None
    assert left_out.pairs[0].baseline is None
    assert left_out.pairs[0].latency is not None
    assert "judged again" in left_out.pairs[0].latency.failure
    assert found(place, another, ENFORCING) is None


def test_timed_sessions_are_kept_and_stand_for_a_run_that_they_settle(tmp_path: Path) -> None:
    """Whole, with processes and conditions; a budget that needs more of them is measured anew."""
    run = made(tmp_path)
    timing = run_of(
        timed(1.0, 1.001, 0.999, 1.0), timed(1.2, failure="it died", case="other"),
        processes=processes(side(held_mib=[80.0] * 9), side(None)), pinned=(0, 1),
        conditions=("virtual machine",),
    )  # fmt: skip
    other = replace(run.pairs[0].candidate, observation=1)
    pair = replace(run.pairs[0], baseline=other, latency=timing)
    place = kept(tmp_path, replace(run, pairs=(pair,)))
    read = found(place, POLICY, ENFORCING)
    assert read is not None
    assert read.pairs[0].latency == timing
    strict = policy(
        {"tolerance": {"rtol": 1e-3}, "latency": {"enforce": True, "max_regression": "0.1%"}}
    )
    assert found(place, POLICY, strict) is None
    shown = replace(strict, latency=replace(strict.latency, enforce=False))
    assert found(place, POLICY, shown) is not None


def test_nothing_to_compare_with_runs(tmp_path: Path) -> None:
    """Without references, and with another version before, nothing is left to be judged."""
    run = made(tmp_path)
    other = replace(run.pairs[0].candidate, observation=1)
    pair = replace(run.pairs[0], baseline=other, references=None)
    place = kept(tmp_path, replace(run, pairs=(pair,)))
    assert found(place) is not None
    assert found(place, replace(POLICY, baselines=(identity(model="n"),))) is None


# What was not measured as the policy asks.


SETTINGS = (
    '{"contract":null,"latency":{"measure":true,"pairs":10,"sessions":4},"repeat":3,'
    '"self_checks":{},"timeout_s":60}'
)


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ('"repeat":3', '"repeat":5', "repeat"),
        ('"timeout_s":60', '"timeout_s":6', "timeout_s"),
        ('"sessions":4', '"sessions":8', "latency.sessions"),
    ],
)
def test_a_setting_that_asks_for_more_is_open(
    tmp_path: Path, before: str, after: str, key: str
) -> None:
    """Latency warns, unless it is enforced; less than was measured is no finding."""
    run = replace(made(tmp_path), settings=SETTINGS)
    asked = SETTINGS.replace(before, after)
    for judged_by in (EXPLICIT, ENFORCING):
        (finding,) = unmet(run, asked, judged_by).findings
        assert finding.outcome is Outcome.INCONCLUSIVE
        assert f"measured with {key} " in finding.evidence
        assert finding.advisory is (key.startswith("latency") and judged_by is EXPLICIT)
    assert unmet(replace(run, settings=asked), SETTINGS, ENFORCING).findings == ()


@pytest.mark.parametrize("settings", ["[]", "{}", '{"latency":1}', "x"])
def test_settings_that_are_none_are_refused(tmp_path: Path, settings: str) -> None:
    """They come from a file."""
    with pytest.raises(EvidenceError):
        unmet(replace(made(tmp_path), settings=settings), SETTINGS, EXPLICIT)
