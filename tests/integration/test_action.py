"""The product as its users run it: the container action, built from this tree, in a workflow.

act is the runner, the loopback server is GitHub, a bare repository is the remote that holds the
release log. A step hands the checkout to a user that is not root, as a self-hosted runner has it;
another records the report and whatever that user does not own. Built environments are kept in the
test cache.
"""

import json
import os
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml
from docker.models.images import Image

from ci_parity.base.digest import sha256_bytes
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.store import open_log
from ci_parity.run.container import owners
from tests.integration.support.act_log import StepRun
from tests.integration.support.act_runner import ActRun, run_act
from tests.integration.support.cache import cache_dir
from tests.integration.support.product_repo import (
    BASELINE_RUNTIME,
    CANDIDATE_RUNTIME,
    LOG_BRANCH,
    REPOSITORY,
    ROOT,
    Checkout,
    make_checkout,
)
from tests.support.github_server import GitHubServer

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

CACHE_IN_CONTAINER = Path("/var/cache/ci-parity")
OWNER = 12345
WORKFLOW = """\
on: [pull_request, push]
jobs:
  parity:
    runs-on: [self-hosted]
    steps:
      - uses: actions/checkout@v7
      - run: chown -R OWNER:OWNER . "$HOME"
      - id: parity
        uses: ./
      - if: always()
        env: {REPORT: "${{ steps.parity.outputs.report }}"}
        run: |
          find . "$HOME" ! -user OWNER -o ! -group OWNER > "$CI_PARITY_TEST_RECORD/foreign"
          test -z "$REPORT" || cp -R "$(dirname "$REPORT")" "$CI_PARITY_TEST_RECORD/report"
""".replace("OWNER", str(OWNER))


def run(
    checkout: Checkout, event_name: str, event: dict[str, Any], github: GitHubServer, *,
    run_id: int = 1, token: str = "write-token", cache: Path | None = None,
) -> ActRun:  # fmt: skip
    """Run the checkout's workflow; nothing in its folders may end up root's."""
    cache = cache or cache_dir() / "action-environments"
    cache.mkdir(exist_ok=True)
    done = run_act(
        checkout.root, event_name, event, api_url=github.url, token=token,
        extra_mounts={cache: CACHE_IN_CONTAINER, checkout.remote: checkout.remote},
        local_repositories={"ci-parity/ci-parity@v1": ROOT}, env={"GITHUB_RUN_ID": str(run_id)},
    )  # fmt: skip
    assert done.recorded.get("foreign", b"") == b"", done.log
    return done


def result(step: StepRun) -> tuple[str, int, str]:
    """Return what a workflow sees of the action: outcome, exit code, output verdict."""
    return step.outcome, step.exit_code, step.outputs.get("verdict", "")


def title(body: str) -> str:
    """Return the first line of a comment that a reader sees."""
    marker, first, *_ = body.splitlines()
    assert marker.startswith("<!-- ci-parity:v1 ")
    return first


def released(checkout: Checkout) -> tuple[LogLine, ...]:
    """Return the release log on the remote, verified."""
    return open_log(f"branch:{LOG_BRANCH}", checkout.root).read()


def bump(checkout: Checkout) -> dict[str, Any]:
    """Open a pull request that asks for the newer runtime; return its event."""
    base = checkout.head
    checkout.branch("change")
    checkout.bump_runtime()
    checkout.commit("bump onnxruntime")
    return checkout.pull_request_event(base)


def test_good_pull_request_passes_with_comment_outputs_summary_and_report(
    tmp_path: Path, github: GitHubServer
) -> None:
    """One `uses:` line is enough: the job passes and every channel tells the same verdict."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    done = run(checkout, "pull_request", bump(checkout), github)
    step = done.step("parity")
    assert (done.returncode, *result(step)) == (0, "success", 0, "pass"), done.log
    (body,) = github.bodies()
    assert title(body).startswith("### ✅ PARITY PASS")
    assert f"| runtime | `cpu` `exported` | `{BASELINE_RUNTIME}` | `{CANDIDATE_RUNTIME}` |" in body
    assert step.outputs["comment_url"] == next(iter(github.comments.values()))["html_url"]
    assert step.summary.startswith(title(body))
    assert done.recorded["report/comment.md"].decode() == body.partition("\n")[2]
    assert step.outputs["report"] == "ci-parity-report/verdict.json"
    assert json.loads(done.recorded["report/verdict.json"])["outcome"] == "pass"
    digest = sha256_bytes(done.recorded["report/bundle.json"])
    assert step.outputs["bundle_digest"] == f"sha256:{digest}"


def test_next_push_updates_the_same_comment(tmp_path: Path, github: GitHubServer) -> None:
    """A later run of the same pull request changes its one comment and adds none."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    event = bump(checkout)
    run(checkout, "pull_request", event, github, run_id=41)
    (first,) = github.comments
    before = checkout.head
    checkout.edit("README.md", "digits", "handwritten digits")
    checkout.commit("say which digits")
    event["pull_request"]["head"]["sha"] = checkout.head
    done = run(checkout, "pull_request", event, github, run_id=42)
    assert done.returncode == 0, done.log
    assert list(github.comments) == [first]
    (body,) = github.bodies()
    assert f"commit `{checkout.head[:12]}`" in body
    assert f"commit `{before[:12]}`" not in body
    assert "/actions/runs/42/" in body


def test_planted_fault_fails_the_job_and_turns_the_comment(
    tmp_path: Path, github: GitHubServer
) -> None:
    """A model that no longer means the same exits 1; the comment names the output and a case."""
    checkout = make_checkout(tmp_path, WORKFLOW, log=True)
    event = bump(checkout)
    run(checkout, "pull_request", event, github, run_id=1)
    assert "PARITY PASS" in title(github.bodies()[0])
    checkout.plant_fault()
    checkout.commit("retrain")
    event["pull_request"]["head"]["sha"] = checkout.head
    done = run(checkout, "pull_request", event, github, run_id=2)
    assert (done.returncode, *result(done.step("parity"))) == (1, "failure", 1, "fail"), done.log
    (body,) = github.bodies()
    assert title(body).startswith("### ❌ PARITY FAIL")
    assert "| model | `cpu` `exported` |" in body
    assert "`baseline→candidate` `typical` `probabilities`" in body
    assert json.loads(done.recorded["report/verdict.json"])["outcome"] == "fail"
    assert released(checkout) == ()


def test_default_branch_is_recorded_other_branches_are_not(
    tmp_path: Path, github: GitHubServer
) -> None:
    """Pushes to the default branch write what was validated and what was blocked to the log."""
    checkout = make_checkout(tmp_path, WORKFLOW, log=True)
    base = checkout.head
    checkout.bump_runtime()
    checkout.commit("bump onnxruntime")
    good = run(checkout, "push", checkout.push_event(base), github, run_id=1)
    assert (good.returncode, *result(good.step("parity"))) == (0, "success", 0, "pass"), good.log
    (line,) = released(checkout)
    assert (line.entry.kind, line.entry.commit) == (EntryKind.VALIDATED, checkout.head)
    assert f"sha256:{line.entry.bundle}" == good.step("parity").outputs["bundle_digest"]
    assert [identity.runtime for identity in line.entry.identities] == [CANDIDATE_RUNTIME]

    before = checkout.head
    checkout.plant_fault()
    checkout.commit("retrain")
    bad = run(checkout, "push", checkout.push_event(before), github, run_id=2)
    assert (bad.returncode, *result(bad.step("parity"))) == (1, "failure", 1, "fail"), bad.log
    assert "since release log record 0, validated" in bad.summary
    kinds = [line.entry.kind for line in released(checkout)]
    assert kinds == [EntryKind.VALIDATED, EntryKind.BLOCKED]

    checkout.branch("main-of-tomorrow")
    checkout.commit("start")
    aside = run(checkout, "push", checkout.push_event(before), github, run_id=3)
    assert result(aside.step("parity")) == ("failure", 1, "fail"), aside.log
    assert len(released(checkout)) == 2
    assert github.bodies() == []


def test_untouched_model_runs_nothing(tmp_path: Path, github: GitHubServer) -> None:
    """A pull request that edits a README passes on the baseline's evidence; nothing is built."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    base = checkout.head
    checkout.branch("change")
    checkout.edit("README.md", "digits", "handwritten digits")
    checkout.commit("say which digits")
    cache = tmp_path / "cache"
    event = checkout.pull_request_event(base)
    done = run(checkout, "pull_request", event, github, cache=cache)
    assert (done.returncode, *result(done.step("parity"))) == (0, "success", 0, "pass"), done.log
    assert github.bodies() == []
    assert done.step("parity").summary.startswith("### ✅ PARITY UNCHANGED")
    assert json.loads(done.recorded["report/verdict.json"])["ran"] is False
    assert list(cache.iterdir()) == []


def test_read_only_token_costs_the_comment_and_not_the_verdict(
    tmp_path: Path, github: GitHubServer
) -> None:
    """A fork's token gets 403: the job passes, and a warning names the missing permission."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    done = run(checkout, "pull_request", bump(checkout), github, token="fork-token")
    step = done.step("parity")
    assert (done.returncode, *result(step)) == (0, "success", 0, "pass"), done.log
    assert github.count("POST", "/comments") == 1
    assert github.bodies() == []
    assert step.outputs["comment_url"] == ""
    assert step.summary.startswith("### ✅ PARITY PASS")
    (warning,) = [line for line in done.log.splitlines() if "::warning title=CI Parity::" in line]
    assert "the comment was not published: GitHub answered 403" in warning
    assert "pull-requests: write" in warning


def test_misspelt_key_ends_in_a_config_error_that_names_it(
    tmp_path: Path, github: GitHubServer
) -> None:
    """A wrong config exits 2 without a verdict; annotation, summary and comment say it."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    base = checkout.head
    checkout.branch("change")
    checkout.edit("ci-parity.yml", "fixtures:", "fixtrues:")
    checkout.commit("type fast")
    done = run(checkout, "pull_request", checkout.pull_request_event(base), github)
    step = done.step("parity")
    assert (done.returncode, *result(step)) == (1, "failure", 2, "inconclusive"), done.log
    (error,) = [line for line in done.log.splitlines() if "::error title=CI Parity::" in line]
    (comment,) = github.bodies()
    for text in (error, step.summary, comment):
        assert "unknown key 'fixtrues'; did you mean 'fixtures'?" in text


def test_repository_without_a_config_needs_none(tmp_path: Path, github: GitHubServer) -> None:
    """A model beside its fixtures and a pinned runtime are a deployment: no file is asked for."""
    checkout = make_checkout(tmp_path, WORKFLOW)
    (checkout.root / "ci-parity.yml").unlink()
    pins = checkout.root / "requirements.txt"
    pins.write_text(f"{BASELINE_RUNTIME}\n", encoding="utf-8")
    base = checkout.commit("pin the runtime")
    checkout.branch("change")
    pins.write_text(f"{CANDIDATE_RUNTIME}\n", encoding="utf-8")
    checkout.commit("bump onnxruntime")
    done = run(checkout, "pull_request", checkout.pull_request_event(base), github)
    assert (done.returncode, *result(done.step("parity"))) == (0, "success", 0, "pass"), done.log
    assert f"| `{BASELINE_RUNTIME}` | `{CANDIDATE_RUNTIME}` |" in github.bodies()[0]


def test_deployment_below_the_root_of_a_shallow_checkout(
    tmp_path: Path, github: GitHubServer
) -> None:
    """A monorepo, checked out one commit deep: the baseline is fetched from origin."""
    options = "uses: ./\n        with: {working_directory: apps/reader, report_dir: out/parity}"
    checkout = make_checkout(tmp_path, WORKFLOW.replace("uses: ./", options), below="apps/reader")
    event = bump(checkout)
    shallow = checkout.shallow(tmp_path / "shallow")
    done = run(shallow, "pull_request", event, github)
    step = done.step("parity")
    assert (done.returncode, *result(step)) == (0, "success", 0, "pass"), done.log
    assert step.outputs["report"] == "apps/reader/out/parity/verdict.json"
    assert f"since commit `{event['pull_request']['base']['sha'][:12]}`" in step.summary


def test_a_container_runs_beside_the_action(
    tmp_path: Path, github: GitHubServer, docker_client: docker.DockerClient, runtime_image: str
) -> None:
    """A target's image runs in a sibling: the model is bound from the workspace, the rest copied.

    Folders for temporary files lie in the action's own container, where the daemon sees nothing.
    """
    checkout = make_checkout(tmp_path, WORKFLOW)
    base = checkout.head
    checkout.branch("change")
    checkout.edit("ci-parity.yml", BASELINE_RUNTIME, f"{{image: '{runtime_image}'}}")
    checkout.commit("run in a container")
    done = run(checkout, "pull_request", checkout.pull_request_event(base), github)
    assert (done.returncode, *result(done.step("parity"))) == (0, "success", 0, "pass"), done.log
    (body,) = github.bodies()
    assert f"| `{BASELINE_RUNTIME}` | `image:{runtime_image[:19]}` |" in body
    assert docker_client.api.containers(all=True, filters={"label": owners.OWNER}) == []


def test_mounts_and_variables_of_the_real_runner(
    tmp_path: Path, github: GitHubServer, docker_client: docker.DockerClient, action_image: Image
) -> None:
    """With GitHub's mounts and variables, from what .dockerignore lets in: one verdict, no traces.

    The paths and variables are those of actions/runner, ContainerActionHandler.cs.
    """
    checkout = make_checkout(tmp_path)
    event = bump(checkout)
    folders = {"workspace": checkout.root}
    for name in ("home", "workflow", "file_commands"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
    (folders["workflow"] / "event.json").write_text(json.dumps(event), encoding="utf-8")
    for folder in folders.values():
        give_away(folder)
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    environment = {f"INPUT_{name.upper()}": given["default"] for name, given in inputs.items()}
    environment |= {
        "INPUT_GITHUB_TOKEN": "write-token", "INPUT_JOB_CONTAINER": "",
        "GITHUB_ACTIONS": "true", "CI": "true",
        "HOME": "/github/home", "GITHUB_WORKSPACE": "/github/workspace",
        "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": "/github/workflow/event.json",
        "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": github.url, "GITHUB_RUN_ID": "1",
        "GITHUB_OUTPUT": "/github/file_commands/output",
        "GITHUB_STEP_SUMMARY": "/github/file_commands/summary",
    }  # fmt: skip
    mounts = {str(path): f"/github/{name}" for name, path in folders.items()}
    mounts[str(cache_dir() / "action-environments")] = str(CACHE_IN_CONTAINER)
    docker_client.containers.run(
        action_image, environment=environment, working_dir="/github/workspace", network_mode="host",
        volumes=[f"{source}:{target}" for source, target in mounts.items()], remove=True,
    )  # fmt: skip
    outputs = (folders["file_commands"] / "output").read_text(encoding="utf-8")
    assert "\npass\n" in outputs
    assert "PARITY PASS" in title(github.bodies()[0])
    left = [*checkout.root.rglob("*"), *folders["home"].rglob("*")]
    assert checkout.root / "ci-parity-report" / "verdict.json" in left
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in left} == {(OWNER, OWNER)}


def give_away(folder: Path) -> None:
    """Make a folder and all in it another user's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OWNER, OWNER, follow_symlinks=False)
