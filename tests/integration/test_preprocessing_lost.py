"""What a case's raw text does to the library that reads it: its case alone pays."""

import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from ci_parity.base.progress import SilentProgress
from ci_parity.cli import run
from ci_parity.pipeline import CheckOptions, check
from ci_parity.records.finding import Finding
from ci_parity.records.outcome import Outcome
from tests.support.models import save
from tests.support.raw_inputs import write_tokenizer
from tests.support.user_repository import UserRepository, empty_repository

CONFIG = """\
version: 1
deployment: words
variants:
  exported: {path: model.onnx}
targets:
  cpu: {runtime: current}
fixtures: fixtures
preprocess: preprocess.yml
policy: {latency: {measure: false}, timeout_s: 15}
"""
PIPELINE = """\
version: 1
text: {tokenizer: tokenizer.json, outputs: {x: input_ids}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a model that hands its tokens on, and one case, made of a text."""
    made = empty_repository(tmp_path / "user")
    tokens: tuple[int, list[str | int]] = (onnx.TensorProto.INT64, ["batch", "length"])
    node = onnx.helper.make_node("Identity", ["x"], ["y"], name="same")
    save(made.root / "model.onnx", [node], {"x": tokens}, {"y": tokens})
    write_tokenizer(made.root)
    made.write("ci-parity.yml", CONFIG)
    made.write("preprocess.yml", PIPELINE)
    made.write("text.txt", "the same")
    words = ["fixtures", "add", "good", "--raw", str(made.root / "text.txt"), "--snapshot"]
    assert run([*words, "--root", str(made.root)]) == 0
    made.commit("words")
    return made


def with_case(repository: UserRepository, name: str, text: str) -> None:
    """Store a case with the tensors of the good one, and another text."""
    folder = repository.root / "fixtures"
    shutil.copytree(folder / "good", folder / name)
    (folder / name / "text.txt").write_text(text, encoding="utf-8")
    path = folder / "fixtures.yml"
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    (good,) = value["cases"]
    value["cases"] = [{**good, "name": name}, good]
    path.write_text(yaml.safe_dump(value), encoding="utf-8")


def with_tokenizer(repository: UserRepository, **changes: Any) -> None:
    """Change what tokenizer.json says."""
    path = repository.root / "tokenizer.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(value | changes), encoding="utf-8")


def rebuilt(repository: UserRepository) -> tuple[Outcome, dict[str, Finding]]:
    """Check, and return the outcome and what is said of each case's raw text."""
    found = check(CheckOptions(root=repository.root, force=True), SilentProgress()).verdict
    return found.outcome, {
        f.subject.case: f for f in found.findings if f.id == "preprocess.rebuilt"
    }  # fmt: skip


def test_71_a_text_that_takes_for_ever_costs_its_case_alone(repository: UserRepository) -> None:
    """A pattern that tries every way through a run of one letter, and a text of many runs."""
    pattern = {"type": "Split", "pattern": {"Regex": "(e+)+$|the|same|."}, "behavior": "Isolated",
               "invert": False}  # fmt: skip
    with_tokenizer(repository, pre_tokenizer=pattern)
    with_case(repository, "bad", ("e" * 20 + "! ") * 5000)
    outcome, said = rebuilt(repository)
    assert outcome is Outcome.INCONCLUSIVE
    assert said["good"].outcome is Outcome.PASS
    assert said["bad"].outcome is Outcome.INCONCLUSIVE
    assert "at step 'tokens': no answer to 'compare' within 15 s" in said["bad"].evidence
    assert "(preprocess.yml, case bad, text.txt)" in said["bad"].evidence
    assert "policy.timeout_s" in said["bad"].remedy


def test_73_a_text_that_crashes_the_library_costs_its_case_alone(
    repository: UserRepository,
) -> None:
    """Padding to 2^46 tokens ends the whole process; a text without tokens is not padded."""
    padding = {
        "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": 2**46,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    with_tokenizer(repository, padding=padding, post_processor=None)
    with_case(repository, "bad", "the same")
    (repository.root / "fixtures" / "good" / "text.txt").write_text("", encoding="utf-8")
    outcome, said = rebuilt(repository)
    assert outcome is Outcome.FAIL
    assert said["bad"].outcome is Outcome.INCONCLUSIVE
    assert "at step 'tokens': the worker was ended by SIGABRT" in said["bad"].evidence
    # It was read, and is not the text that its tensor was made of.
    assert said["good"].outcome is Outcome.FAIL
