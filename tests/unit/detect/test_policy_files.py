"""The policy axis holds the bytes of every file a decision rests on."""

import json
from pathlib import Path

import pytest

from ci_parity.config.load import load_deployment
from ci_parity.detect.policy_files import policy_text

CONFIG = """\
version: 1
variants: {exported: {path: m.onnx}}
fixtures: cases
policy:
  decisions: {y: {top_k: {labels: names.txt}}, wer: {judge: {entry: "tools/judge.py:judge"}}}
"""
FILES = {
    "names.txt": "cat\ndog\n",
    "tools/judge.py": "import words\ndef judge(case): return words.of(case)\n",
    "tools/words.py": "def of(case): return {}\n",
    "tools/unrelated.py": "x = 1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a deployment with labels, and a judge that imports a module."""
    (tmp_path / "tools").mkdir()
    for name, text in {"ci-parity.yml": CONFIG, **FILES}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def text(folder: Path) -> str:
    """Return the policy of a deployment as an identity keeps it."""
    return policy_text(load_deployment(folder / "ci-parity.yml"))


@pytest.mark.parametrize("name", ["names.txt", "tools/judge.py", "tools/words.py"])
def test_a_byte_of_a_file_is_another_policy(folder: Path, name: str) -> None:
    """Labels, the judge, and what it imports; a file that is gone, too."""
    before = text(folder)
    assert name in json.loads(before)["files"]
    path = folder / name
    path.write_text(path.read_text(encoding="utf-8") + "# \n", encoding="utf-8")
    changed = text(folder)
    path.unlink()
    assert len({before, changed, text(folder)}) == 3


def test_other_files_are_none_of_it(folder: Path) -> None:
    """Whatever lies beside them."""
    before = text(folder)
    (folder / "tools/unrelated.py").write_text("x = 2\n", encoding="utf-8")
    assert text(folder) == before


def test_without_files_a_policy_is_its_words(folder: Path) -> None:
    """Nothing is added."""
    config = CONFIG.replace("labels: names.txt", "k: 2").partition(", wer:")[0] + "}\n"
    (folder / "ci-parity.yml").write_text(config, encoding="utf-8")
    deployment = load_deployment(folder / "ci-parity.yml")
    assert policy_text(deployment) == deployment.policy_json
