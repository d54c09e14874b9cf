"""The workflow that `init` writes, as the platform's own readers see it."""

from typing import Any

import pytest
import yaml

from ci_parity.base.errors import CiParityError
from ci_parity.config.starter_workflow import StarterWorkflow, starter_workflow, workflow_template

PLAIN = StarterWorkflow(platform="github", branch="main", runs_on=("self-hosted",))


def made(wanted: StarterWorkflow) -> dict[Any, Any]:
    """Return the workflow as YAML; `on` is read as true."""
    loaded: dict[Any, Any] = yaml.safe_load(starter_workflow(workflow_template(), wanted))
    return loaded


def test_what_is_usual_is_the_template() -> None:
    """Only the comment at its head is another."""
    assert made(PLAIN) == yaml.safe_load(workflow_template())


def test_what_is_known_is_put_in() -> None:
    """Branch, labels, folder, config, Git LFS, and the rights that a log needs."""
    found = made(
        StarterWorkflow(
            platform="github", branch="release/1.x", runs_on=("self-hosted", "gpu #1"),
            configs=("ocr.ci-parity.yml",), folder="services/ocr", lfs=True, appends=True,
        )
    )  # fmt: skip
    job = found["jobs"]["parity"]
    _, checkout, action, _ = job["steps"]
    assert found[True]["push"]["branches"] == ["release/1.x"]
    assert job["runs-on"] == ["self-hosted", "gpu #1"]
    assert job["permissions"]["contents"] == "write"
    assert checkout["with"] == {"fetch-depth": 0, "lfs": True, "persist-credentials": True}
    assert action["with"] == {"working_directory": "services/ocr", "config": "ocr.ci-parity.yml"}


def test_several_configs_are_a_matrix() -> None:
    """One job each, and none stops the others."""
    wanted = StarterWorkflow(
        platform="github", branch="main", runs_on=("x",), configs=("a.yml", "b.yml")
    )
    job = made(wanted)["jobs"]["parity"]
    assert job["strategy"] == {"fail-fast": False, "matrix": {"config": ["a.yml", "b.yml"]}}
    assert job["steps"][2]["with"] == {"config": "${{ matrix.config }}"}


@pytest.mark.parametrize("platform", ["forgejo", "gitea"])
def test_other_platforms_are_told_where_actions_are(platform: str) -> None:
    """A short name is looked up elsewhere there."""
    steps = made(StarterWorkflow(platform=platform, branch="main", runs_on=("x",)))
    uses = [step["uses"] for step in steps["jobs"]["parity"]["steps"] if "uses" in step]
    assert all(name.startswith("https://github.com/") for name in uses)


def test_a_step_that_has_inputs_keeps_them() -> None:
    """Those of ours are put beside."""
    step = "      - uses: ci-parity/ci-parity@v1\n"
    template = workflow_template().replace(step, f"{step}        with:\n          record: never\n")
    wanted = StarterWorkflow(platform="github", branch="main", runs_on=("x",), folder="sub")
    text = starter_workflow(template, wanted)
    action = yaml.safe_load(text)["jobs"]["parity"]["steps"][2]
    assert action["with"] == {"working_directory": "sub", "record": "never"}


def test_a_template_that_lost_a_line_is_our_bug() -> None:
    """A workflow that was only half fitted is not written."""
    with pytest.raises(CiParityError, match="no longer has"):
        starter_workflow("name: x\n", PLAIN)
