"""Decisions over whole checks: real models on the onnxruntime at hand, judges in a process."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ci_parity.cli import run
from ci_parity.fixtures.importer import import_arrays, parse_source
from ci_parity.fixtures.signature import read_signature
from ci_parity.report.json_v1 import schema
from tests.support.models import save, save_linear
from tests.support.user_repository import UserRepository, empty_repository

CONFIG = """\
version: 1
variants: {exported: {path: model.onnx}}
fixtures: fixtures
policy:
  latency: {measure: false}
  self_checks: {repeat: 1, rows: false, order: false, padding: false, threads: false}
"""
DETECTIONS = """\
  decisions:
    boxes: {detections: {scores: kept, score: 0.25}}
"""
JUDGE = """\
  decisions:
    mine: {judge: {entry: "tools/judge.py:judge"}}
"""
JUDGE_SCRIPT = """\
import numpy as np
from limits import LIMIT

def judge(case):
    moved = max(
        float(np.abs(np.load(case["baseline"][name]) - np.load(case["candidate"][name])).max())
        for name in case["baseline"]
    )
    fed = sorted(case["inputs"])
    words = f"{fed} moved the outputs by {moved:g}"
    outcome = "pass" if moved <= LIMIT else "fail"
    return {"outcome": outcome, "evidence": words, "measured": moved, "limit": LIMIT}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a check left behind."""

    code: int
    report: Mapping[str, Any]

    def findings(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the findings of one kind."""
        return [finding for finding in self.report["findings"] if finding["id"] == kind]


def check(repository: UserRepository) -> Result:
    """Run a check in a repository and read its report, which must fit the published schema."""
    folder = repository.root / "ci-parity-report"
    code = run(["check", "--root", str(repository.root), "--report-dir", str(folder)])
    report = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema("check-v1"))
    return Result(code=code, report=report)


def save_detector(path: Path, *, score: float = 0.25, moved: float = 0.0) -> Path:
    """Save a model that keeps the boxes [n, 4] whose score [n] is high enough."""
    nodes = [
        helper.make_node("Greater", ["scores", "at"], ["high"]),
        helper.make_node("Compress", ["candidates", "high"], ["some"], axis=0),
        helper.make_node("Add", ["some", "shift"], ["boxes"]),
        helper.make_node("Compress", ["scores", "high"], ["kept"], axis=0),
    ]
    initializers = [
        numpy_helper.from_array(np.array(score, np.float32), "at"),
        numpy_helper.from_array(np.array(moved, np.float32), "shift"),
    ]
    floats = TensorProto.FLOAT
    inputs: Any = {"candidates": (floats, ["n", 4]), "scores": (floats, ["n"])}
    outputs: Any = {"boxes": (floats, ["m", 4]), "kept": (floats, ["m"])}
    return save(path, nodes, inputs, outputs, initializers)


def store(repository: UserRepository, model: Path, **arrays: Any) -> None:
    """Store one case without references."""
    scratch = repository.root / "arrays"
    scratch.mkdir()
    np.savez(scratch / "street.npz", **arrays)
    source = parse_source(str(scratch / "street.npz"))
    import_arrays([source], read_signature(model), repository.root / "fixtures")
    shutil.rmtree(scratch)


def begun(repository: UserRepository, config: str) -> UserRepository:
    """Commit the deployment on main and leave main for a branch."""
    repository.write(".gitignore", "ci-parity-report/\n")
    repository.write("ci-parity.yml", config)
    repository.commit("first")
    repository.git("checkout", "--quiet", "-b", "change")
    return repository


@pytest.fixture
def detector(tmp_path: Path) -> UserRepository:
    """Return a detector with a case of three boxes, the last at the edge of its threshold."""
    made = empty_repository(tmp_path / "user")
    model = save_detector(made.root / "model.onnx")
    corner = np.array([[0, 0], [50, 0], [0, 50]], np.float32)
    boxes = np.concatenate([corner, corner + 40], axis=1)
    store(made, model, candidates=boxes, scores=np.array([0.9, 0.5, 0.251], np.float32))
    return begun(made, CONFIG + DETECTIONS)


def test_one_box_less_is_named(detector: UserRepository) -> None:
    """Two boxes against three: no failure of the shape, but one of the set."""
    save_detector(detector.root / "model.onnx", score=0.26)
    found = check(detector)
    assert found.code == 1
    binding = [f for f in found.report["findings"] if f["outcome"] == "fail" and not f["advisory"]]
    assert [f["id"] for f in binding] == ["decision.detections"]
    assert "2 of 3 detections pair up with the candidate's 2" in binding[0]["evidence"]
    assert [o["shape"] for o in found.report["outputs"]] == [[2, 4], [2]]


def test_a_box_at_the_threshold_may_be_a_near_tie(detector: UserRepository) -> None:
    """Where the policy says how near, and has said so before."""
    detector.replace("ci-parity.yml", "score: 0.25}", "score: 0.25, near_tie: 0.01}")
    detector.commit("near ties")
    detector.git("branch", "--force", "main", "HEAD")
    save_detector(detector.root / "model.onnx", score=0.26)
    found = check(detector)
    assert found.code == 0
    (finding,) = found.findings("decision.detections")
    assert "a near tie" in finding["evidence"]


def test_boxes_that_pair_up_are_still_compared(detector: UserRepository) -> None:
    """A pixel further they pair up; that they moved is the tolerance's."""
    save_detector(detector.root / "model.onnx", score=0.1, moved=1.0)
    found = check(detector)
    assert found.code == 1
    assert {f["outcome"] for f in found.findings("decision.detections")} == {"pass"}
    failed = [f for f in found.findings("output.values") if f["outcome"] == "fail"]
    assert [f["subject"]["output"] for f in failed] == ["boxes"]


@pytest.fixture
def judged(tmp_path: Path) -> UserRepository:
    """Return y = 2 x with a judge that imports its limit from a file beside it."""
    made = empty_repository(tmp_path / "user")
    model = save_linear(made.root / "model.onnx")
    store(made, model, x=np.ones((2, 3), np.float32))
    made.write("tools/judge.py", JUDGE_SCRIPT)
    made.write("tools/limits.py", "LIMIT = 0.5\n")
    return begun(made, CONFIG + "  tolerance: {atol: 9}\n" + JUDGE)


def test_a_judge_decides_beside_the_tensors(judged: UserRepository) -> None:
    """It passes what it may, and fails what every tolerance lets through."""
    save_linear(judged.root / "model.onnx", weight=2.25)
    near = check(judged)
    assert near.code == 0
    (finding,) = near.findings("decision.custom")
    assert finding["evidence"] == "['x'] moved the outputs by 0.25"
    assert finding["subject"]["output"] == "mine"
    assert "baseline→candidate, judge mine" in {row["boundary"] for row in near.report["rows"]}
    save_linear(judged.root / "model.onnx", weight=3.0)
    far = check(judged)
    assert far.code == 1
    (finding,) = far.findings("decision.custom")
    assert (finding["outcome"], finding["measured"], finding["limit"]) == ("fail", 1.0, 0.5)


def test_a_judge_that_breaks_is_inconclusive(judged: UserRepository) -> None:
    """Its words are in the report; what the baseline's judge says does not settle it."""
    judged.write("tools/limits.py", "raise ImportError('no limits')\n")
    found = check(judged)
    assert found.code == 3
    said = {f["outcome"]: f["evidence"] for f in found.findings("decision.custom")}
    assert "no limits" in said.pop("inconclusive")
    assert set(said) <= {"pass"}


def test_a_file_a_decision_rests_on_is_a_change_of_the_policy(judged: UserRepository) -> None:
    """Also one that the judge imports; without a change nothing runs."""
    judged.write("README.md", "words")
    judged.commit("words")
    assert not check(judged).report["ran"]
    judged.write("tools/limits.py", "LIMIT = 0.25\n")
    found = check(judged)
    assert found.report["ran"]
    changes = found.report["changes"]["changes"]
    assert [change["axis"] for change in changes] == ["policy"]
    assert "tools/limits.py" in changes[0]["after"]
