"""Judges of the repository, over the cases of a run."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import policy
from ci_parity.records.observation import CaseInputs, InputSet, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.stages.custom_judges import run_judges
from ci_parity.stages.judge import Checked
from ci_parity.stages.suite import PairRun
from tests.support.observations import (
    case_run,
    failed_run,
    floats,
    observation,
    pair,
    records,
    references,
    texts,
)

SCRIPT = """\
import json, pathlib
import numpy as np

def same(case):
    left, right = (np.load(case[side]["y"]) for side in ("baseline", "candidate"))
    differ = int((left != right).sum())
    words = f"{case['case']} of {case['variant']} on {case['target']}, {case['boundary']}"
    outcome = "fail" if differ else "pass"
    return {"outcome": outcome, "evidence": words, "measured": differ, "limit": 0}

def seen(case):
    found = {}
    for side in ("inputs", "baseline", "candidate"):
        for name, path in case[side].items():
            path = pathlib.Path(path)
            value = json.loads(path.read_text()) if path.suffix == ".json" else np.load(path)
            kind = "text" if path.suffix == ".json" else str(value.dtype)
            found[f"{side}.{name}"] = [kind, np.asarray(value).tolist()]
    return {"outcome": "pass", "evidence": json.dumps(found, sort_keys=True)}
"""
Y = floats(1, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a judge."""
    (tmp_path / "judge.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def judged(folder: Path, runs: list[PairRun], function: str = "same", **inputs: Any) -> Checked:
    """Return what the judge of a folder finds of some runs."""
    words = {"decisions": {"mine": {"judge": {"entry": f"judge.py:{function}"}}}}
    written = records(folder / "inputs", inputs, "c")
    fed = InputSet(
        folder=str(folder / "inputs"), source="fixtures",
        cases=(CaseInputs(case="c", inputs=written),),
    )  # fmt: skip
    return run_judges(runs, fed, policy(words, folder), folder / "scratch", SilentProgress())


def run_of(
    candidate: Observation, baseline: Observation | None = None,
    stored: Observation | None = None, expected: tuple[str, ...] = ("c",),
) -> PairRun:  # fmt: skip
    """Return the run of a pair."""
    return PairRun(
        pair=pair("cpu"), expected=expected, references=stored, baseline=baseline,
        candidate=candidate, latency=None,
    )  # fmt: skip


def side(
    folder: Path, name: str, outputs: Mapping[str, Any], *repeats: Mapping[str, Any]
) -> Observation:
    """Return a side of one case."""
    return observation(folder / name, case_run(folder / name, "c", outputs, *repeats))


def test_every_boundary_is_judged(folder: Path) -> None:
    """With a row for each, beside those of the tensors."""
    run = run_of(
        side(folder, "candidate", {"y": 2 * Y}),
        side(folder, "baseline", {"y": 2 * Y}),
        references(folder / "stored", case_run(folder / "stored", "c", {"y": Y})),
    )
    found = judged(folder, [run])
    assert [(row.boundary, row.outcome, row.cases, row.cases_expected) for row in found.rows] == [
        ("source→exported, judge mine", Outcome.FAIL, 1, 1),
        ("baseline→candidate, judge mine", Outcome.PASS, 1, 1),
    ]
    failed, passed = found.findings
    assert (failed.id, failed.outcome, failed.measured, failed.limit) == (
        "decision.custom", Outcome.FAIL, 2.0, 0.0,
    )  # fmt: skip
    assert failed.evidence == "c of exported on cpu, source→exported"
    assert (failed.subject.case, failed.subject.output) == ("c", "mine")
    assert failed.remedy
    assert (passed.outcome, passed.remedy) == (Outcome.PASS, "")


def test_a_judge_reads_everything_as_plain_files(folder: Path) -> None:
    """Inputs and outputs of every type, parts of sequences by their path."""
    outputs: dict[str, Any] = {
        "narrow": np.array([1.5], ml_dtypes.bfloat16), "four": np.array([-3], ml_dtypes.int4),
        "words": texts("a", "ß"), "parts": [Y, None], "whole": np.array([2**40]),
    }  # fmt: skip
    run = run_of(side(folder, "candidate", outputs), side(folder, "baseline", {"y": Y}))
    (found,) = judged(folder, [run], "seen", x=np.array([[1, 2]], np.uint8)).findings
    assert json.loads(found.evidence) == {
        "inputs.x": ["uint8", [[1, 2]]],
        "baseline.y": ["float32", [1.0, 2.0]],
        "candidate.narrow": ["float32", [1.5]],
        "candidate.four": ["int8", [-3]],
        "candidate.words": ["text", ["a", "ß"]],
        "candidate.parts.length": ["int64", 2],
        "candidate.parts[0]": ["float32", [1.0, 2.0]],
        "candidate.parts[1].absent": ["bool", []],
        "candidate.whole": ["int64", [2**40]],
    }


def test_every_run_of_a_case_is_judged(folder: Path) -> None:
    """The worst is what counts."""
    run = run_of(
        side(folder, "candidate", {"y": Y}, {"y": Y}, {"y": 3 * Y}),
        side(folder, "baseline", {"y": Y}),
    )
    (found,) = judged(folder, [run]).findings
    assert found.outcome is Outcome.FAIL


@pytest.mark.parametrize("broken", ["baseline", "candidate"])
def test_a_case_that_did_not_run_is_judged_by_nobody(folder: Path, broken: str) -> None:
    """Its own finding says so; the judge's row is no pass."""
    sides = {
        name: observation(folder / name, failed_run("c", RunStatus.ERROR))
        if name == broken
        else side(folder, name, {"y": Y})
        for name in ("baseline", "candidate")
    }
    found = judged(folder, [run_of(sides["candidate"], sides["baseline"])])
    assert found.findings == ()
    assert [(row.outcome, row.cases) for row in found.rows] == [(Outcome.INCONCLUSIVE, 0)]


def test_a_side_that_did_not_load_is_judged_by_nobody(folder: Path) -> None:
    """Whatever cases it has."""
    candidate = dataclasses.replace(side(folder, "candidate", {"y": Y}), load=RunStatus.ERROR)
    found = judged(folder, [run_of(candidate, side(folder, "baseline", {"y": Y}))])
    assert (found.findings, found.rows[0].outcome) == ((), Outcome.INCONCLUSIVE)


def test_outputs_that_cannot_be_read_are_inconclusive(folder: Path) -> None:
    """A file that was cut short is no evidence."""
    run = run_of(side(folder, "candidate", {"y": Y}), side(folder, "baseline", {"y": Y}))
    (folder / "candidate" / "c_o0.bin").write_bytes(b"\0")
    (found,) = judged(folder, [run]).findings
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.evidence.startswith("no judgement: ")


def test_a_judge_that_is_not_there_is_inconclusive(folder: Path) -> None:
    """For every case."""
    (folder / "judge.py").unlink()
    run = run_of(side(folder, "candidate", {"y": Y}), side(folder, "baseline", {"y": Y}))
    found = judged(folder, [run])
    assert [f.outcome for f in found.findings] == [Outcome.INCONCLUSIVE]
    assert [row.outcome for row in found.rows] == [Outcome.INCONCLUSIVE]


def test_scratch_is_left_empty(folder: Path) -> None:
    """Arrays of one case are gone before the next."""
    run = run_of(side(folder, "candidate", {"y": Y}), side(folder, "baseline", {"y": Y}))
    judged(folder, [run])
    assert [path for path in (folder / "scratch").rglob("*") if path.is_file()] == []


def test_without_judges_nothing_happens(folder: Path) -> None:
    """Not even a folder."""
    fed = InputSet(folder=str(folder), source="fixtures", cases=())
    run = run_of(side(folder, "candidate", {"y": Y}), side(folder, "baseline", {"y": Y}))
    words = policy({"decisions": {"y": {"top_k": {}}}})
    assert run_judges([run], fed, words, folder / "scratch", SilentProgress()) == Checked()
    assert not (folder / "scratch").exists()
