"""A repository around the shapes deployment: pictures, their preprocessing, a model, labels."""

import shutil
from pathlib import Path

from tests.support.user_repository import PROJECT, UserRepository, empty_repository

SHAPES = PROJECT / "fixtures" / "shapes"


def shapes_repository(root: Path) -> UserRepository:
    """Make a repository of the shapes with one commit: untimed, on our runtime, without a log."""
    made = empty_repository(root)
    shutil.copytree(SHAPES, root, dirs_exist_ok=True)
    (root / "generate.py").unlink()
    made.replace("ci-parity.yml", "runtime: onnxruntime==1.32.0", "runtime: current")
    made.replace("ci-parity.yml", "{max_regression: 5%, cases: 1}", "{measure: false}")
    made.replace("ci-parity.yml", "release:\n  log: file:release-log.jsonl\n", "")
    made.commit("shapes")
    return made
