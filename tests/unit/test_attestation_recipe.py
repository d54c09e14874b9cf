"""The job of docs/recipes/attestations.md, in the workflow that it is for, before every linter."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RECIPE = ROOT / "docs" / "recipes" / "attestations.md"


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    """Return the release gate with the recipe's job at its end, where a reader puts it."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", RECIPE.read_text("utf-8"), re.M | re.S)
    (job,) = [block for block in blocks if block.startswith("  attest:")]
    path = tmp_path / ".github" / "workflows" / "release.yml"
    path.parent.mkdir(parents=True)
    gate = (ROOT / "workflows" / "release-gate.yml").read_text("utf-8")
    path.write_text(gate + job, "utf-8")
    return path


def lint(*words: str | Path) -> None:
    """Run a linter that must find nothing."""
    done = subprocess.run(
        [BIN / words[0], *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_linters_find_nothing(workflow: Path) -> None:
    """As in `make lint`, shellcheck included."""
    lint(
        "actionlint", "-config-file", ROOT / ".github" / "actionlint.yaml", "-shellcheck",
        BIN / "shellcheck", workflow,
    )  # fmt: skip
    lint(
        "zizmor", "--offline", "--quiet", "--persona", "pedantic", "--config",
        ROOT / ".github" / "zizmor.yml", workflow,
    )  # fmt: skip
    lint("check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)


def test_the_permissions_to_sign_are_of_that_job_alone(workflow: Path) -> None:
    """It comes after what it signs, and nothing of the user's own runs in it."""
    read: dict[Any, Any] = yaml.safe_load(workflow.read_text("utf-8"))
    jobs = read["jobs"]
    assert read["permissions"] == {}
    attest = jobs.pop("attest")
    assert attest["permissions"] == {
        "attestations": "write", "contents": "read", "id-token": "write",
    }  # fmt: skip
    assert attest["needs"] == ["parity", "release"]
    assert "if" not in attest
    for job in jobs.values():
        assert not {"id-token", "attestations"} & job["permissions"].keys()
    used = [step.get("uses", "") for step in attest["steps"]]
    assert not [one for one in used if one and not re.search(r"@[0-9a-f]{40}$", one)]
    installs = [step["run"] for step in attest["steps"] if "pip" in step.get("run", "")]
    assert all("--require-hashes" in run for run in installs)
