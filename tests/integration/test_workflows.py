"""The workflows that users copy, each as it is, through act against the loopback GitHub.

GitHub's artifact service is stood in for by folders; everything else of the steps is real: the
action's container, the runtimes, the repository's remote, the release log on its branch.
"""

import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from ci_parity import cli
from ci_parity.records.release import EntryKind
from ci_parity.release.store import open_log
from tests.integration.support.act_runner import ActRun
from tests.integration.support.cache import cache_dir
from tests.integration.support.product_repo import (
    BASELINE_RUNTIME,
    CANDIDATE_RUNTIME,
    LOG_BRANCH,
    PULL_REQUEST,
    REPOSITORY,
    ROOT,
    Checkout,
    git,
    make_checkout,
)
from tests.integration.support.workflow_runs import (
    TEMPLATES,
    Runner,
    finished_event,
    fork_event,
    index_settings,
)
from tests.support.github_repository import Head
from tests.support.github_server import GitHubServer

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

RUN_HERE = {
    "pull-request.yml", "pull-request-matrix.yml", "fork-comment.yml", "release-gate.yml",
    "drift.yml", "macos-coreml.yml", "edge-validate.yml", "rollback.yml",
}  # fmt: skip
REPOSITORY_EVENT = {"repository": {"full_name": REPOSITORY, "default_branch": "main"}}


def runner(checkout: Checkout, github: GitHubServer, folder: Path) -> Runner:
    """Return what runs a workflow on a checkout."""
    return Runner(checkout=checkout, github=github, artifacts=folder / "artifacts")


def title(body: str) -> str:
    """Return the first line of a comment that a reader sees."""
    return body.splitlines()[1]


def test_every_template_is_run_here() -> None:
    """A workflow that nothing runs is not handed out."""
    assert {path.name for path in TEMPLATES.iterdir()} == RUN_HERE


def test_strangers_commit_waits_for_a_label_and_is_commented_on_by_another_run(
    tmp_path: Path, github: GitHubServer
) -> None:
    """Unlabelled, nothing of it runs and the job fails; labelled, it does, and another run tells.

    The fork's own token may not comment; the second run has nothing but the first one's artifact.
    """
    checkout = make_checkout(tmp_path)
    base = checkout.head
    checkout.branch("change")
    checkout.bump_runtime()
    checkout.commit("bump onnxruntime")
    here = runner(checkout, github, tmp_path)
    key = (REPOSITORY, PULL_REQUEST)
    github.heads[key] = Head(sha=checkout.head, ref="change", repository="stranger/models")

    refused = here.run("pull-request.yml", "pull_request", fork_event(checkout, base))
    assert refused.returncode == 1
    assert "add the label run-parity" in refused.log
    assert "PARITY" not in refused.log
    assert here.names() == []

    label = {"action": "labeled", "label": {"name": "run-parity"}}
    event = fork_event(checkout, base, **label)
    ran = here.run("pull-request.yml", "pull_request", event, token="fork-token", run_id=2)
    assert ran.returncode == 0, ran.log
    assert github.bodies() == []
    assert [name.startswith("parity-report-") for name in here.names()] == [True]

    ended = finished_event(checkout, "success", 2)
    told = here.run("fork-comment.yml", "workflow_run", ended, run_id=3)
    assert told.returncode == 0, told.log
    (body,) = github.bodies()
    assert "PARITY PASS" in title(body)
    assert checkout.head[:12] in body


def test_run_that_failed_is_never_told_as_a_pass(tmp_path: Path, github: GitHubServer) -> None:
    """A report that says pass, of a run that GitHub says failed, is not believed."""
    checkout = make_checkout(tmp_path)
    base = checkout.head
    checkout.branch("change")
    checkout.bump_runtime()
    checkout.commit("bump onnxruntime")
    here = runner(checkout, github, tmp_path)
    key = (REPOSITORY, PULL_REQUEST)
    github.heads[key] = Head(sha=checkout.head, ref="change", repository="stranger/models")
    event = fork_event(checkout, base, action="labeled", label={"name": "run-parity"})
    here.run("pull-request.yml", "pull_request", event, token="fork-token", run_id=2)
    here.run("fork-comment.yml", "workflow_run", finished_event(checkout, "failure", 2), run_id=3)
    (body,) = github.bodies()
    assert "PARITY PASS" not in body


def releasing_checkout(folder: Path, more: str = "") -> tuple[Checkout, Path]:
    """Return a checkout with a log, a store in a folder beside it, and a way to publish.

    `more` is what else its config says of releases.
    """
    checkout = make_checkout(folder, log=True)
    store = folder / "store"
    store.mkdir()
    log = f"log: 'branch:{LOG_BRANCH}'"
    checkout.edit("ci-parity.yml", log, f"{log}, store: 'file:{store}'{more}")
    script = checkout.root / "publish.sh"
    script.write_text('#!/bin/sh\necho "$BUNDLE_DIGEST" > "$CI_PARITY_TEST_RECORD/published"\n')
    script.chmod(0o755)
    checkout.commit("a way to publish")
    return checkout, store


def test_release_is_published_after_a_pass_and_not_after_a_fail(
    tmp_path: Path, github: GitHubServer
) -> None:
    """The last job runs with the validated bundle's digest; after a planted fault it does not.

    Before it publishes, the bundle is kept and recorded as released. What was released first comes
    back by the rollback's workflow; what was out is then refused, however often it is asked for.
    """
    checkout, store = releasing_checkout(tmp_path)
    here = runner(checkout, github, tmp_path)
    tag = REPOSITORY_EVENT | {"ref": "refs/tags/v1.0.0", "before": "0" * 40}

    def release(run_id: int) -> ActRun:
        event = tag | {"after": checkout.head}
        return here.run("release-gate.yml", "push", event, run_id=run_id, store=store)

    good = release(1)
    assert good.returncode == 0, good.log
    first = good.step("parity").outputs["bundle_digest"]
    assert good.recorded["published"].decode().strip() == first
    log = open_log(f"branch:{LOG_BRANCH}", checkout.root)
    assert [line.entry.kind for line in log.read()] == [EntryKind.VALIDATED, EntryKind.RELEASED]

    checkout.plant_fault()
    checkout.commit("retrain")
    bad = release(2)
    assert bad.returncode == 1
    assert "published" not in bad.recorded
    kinds = [line.entry.kind for line in log.read()]
    assert kinds[2:] == [EntryKind.BLOCKED]

    checkout.root.joinpath("digits", "LICENSE").write_text("another licence\n")
    git(checkout.root, "checkout", "--quiet", "HEAD~1", "--", "digits/model.onnx")
    checkout.commit("restore the model, with another licence")
    assert release(3).returncode == 0
    inputs = {"to": "", "reason": "$(touch pwned)", "dry_run": "true"}
    asked = REPOSITORY_EVENT | {"inputs": inputs}
    dry = here.run("rollback.yml", "workflow_dispatch", asked, run_id=4, store=store)
    assert dry.returncode == 0, dry.log
    assert [line.entry.kind for line in log.read()][3:] == [EntryKind.VALIDATED, EntryKind.RELEASED]
    asked = REPOSITORY_EVENT | {"inputs": inputs | {"dry_run": "false"}}
    done = here.run("rollback.yml", "workflow_dispatch", asked, run_id=5, store=store)
    assert done.returncode == 0, done.log
    assert done.step("rollback").outputs["bundle_digest"] == first
    newest = log.read()[-1].entry
    assert (newest.kind, f"sha256:{newest.bundle}") == (EntryKind.ROLLED_BACK, first)
    assert newest.findings_failed == ("$(touch pwned)",)
    again = here.run("rollback.yml", "workflow_dispatch", asked, run_id=5, store=store)
    assert again.returncode == 0, again.log
    assert log.read()[-1].entry == newest


def test_rollback_by_pull_request_is_run_again_when_it_is_merged(
    tmp_path: Path, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run bars what is out and opens it; the second one records and moves the pointer."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(cache_dir() / "workflow-rollback"))
    checkout, store = releasing_checkout(tmp_path, ", rollback: pull_request")
    root = str(checkout.root)

    def put_out() -> None:
        assert cli.run(["check", "--root", root, "--force", "--record", "always"]) == 0
        assert cli.run(["release", "--root", root]) == 0

    put_out()
    log = open_log(f"branch:{LOG_BRANCH}", checkout.root)
    first = log.read()[0].entry.bundle
    checkout.root.joinpath("digits", "LICENSE").write_text("another licence\n")
    checkout.commit("another licence")
    put_out()

    github.remote = lambda name: git(checkout.remote, "rev-parse", name)
    here = runner(checkout, github, tmp_path)
    inputs = {"to": "", "reason": "`touch pwned`", "dry_run": "false"}
    asked = REPOSITORY_EVENT | {"inputs": inputs}
    proposed = here.run("rollback.yml", "workflow_dispatch", asked, run_id=3, store=store)
    assert proposed.returncode == 0, proposed.log
    said = proposed.step("rollback").outputs
    assert said["bundle_digest"] == ""
    assert said["pull_request"] == f"{github.url}/{REPOSITORY}/pull/8"
    assert [line.entry.kind for line in log.read()][4:] == [EntryKind.REVOKED]
    ((key, texts),) = github.texts.items()
    assert texts["title"] == f"Roll digits back to sha256:{first[:16]}"

    git(checkout.root, "fetch", "--quiet", "origin")
    git(checkout.root, "merge", "--quiet", "--no-ff", f"origin/{github.heads[key].ref}")
    git(checkout.root, "push", "--quiet", "origin", "main")
    done = here.run("rollback.yml", "workflow_dispatch", asked, run_id=4, store=store)
    assert done.returncode == 0, done.log
    assert done.step("rollback").outputs["bundle_digest"] == f"sha256:{first}"
    newest = log.read()[-1].entry
    assert (newest.kind, newest.bundle) == (EntryKind.ROLLED_BACK, first)
    assert len(github.texts) == 1


def test_schedule_looks_at_every_machine(tmp_path: Path, github: GitHubServer) -> None:
    """Each host has a job of its own and its line in the log."""
    checkout = make_checkout(tmp_path, log=True)
    here = runner(checkout, github, tmp_path)
    done = here.run("drift.yml", "schedule", REPOSITORY_EVENT)
    assert done.returncode == 0, done.log
    verdicts = [step.outputs.get("verdict") for step in done.steps if "verdict" in step.outputs]
    assert verdicts == ["pass", "pass"]
    kinds = {line.entry.kind for line in open_log(f"branch:{LOG_BRANCH}", checkout.root).read()}
    assert kinds == {EntryKind.VALIDATED}


def with_our_wheel(folder: Path) -> dict[str, str]:
    """Build our wheel; return the environment in which pip finds it, in a runner's own folder."""
    wheels = folder / "wheels"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        check=True, cwd=ROOT, capture_output=True,
    )  # fmt: skip
    links = " ".join(filter(None, (str(wheels), index_settings().get("PIP_FIND_LINKS"))))
    return index_settings() | {"PIP_FIND_LINKS": links, "RUNNER_TEMP": str(folder / "temp")}


def test_device_validates_a_bundle_of_the_released_digest_and_no_other(
    tmp_path: Path, github: GitHubServer
) -> None:
    """It has the archive and the log's digest, and nothing else of the repository."""
    checkout = make_checkout(tmp_path)
    archive = tmp_path / "artifacts" / "release-bundle" / "digits.tar"
    archive.parent.mkdir(parents=True)
    built = ["bundle", "build", "--root", str(checkout.root), "--out", str(archive)]
    assert cli.run(built) == 0
    digest = f"sha256:{read_digest(archive)}"
    here = runner(checkout, github, tmp_path)
    settings = with_our_wheel(tmp_path)
    event = REPOSITORY_EVENT | {"inputs": {"run_id": "1", "digest": digest}}
    done = here.run("edge-validate.yml", "workflow_dispatch", event, env=settings)
    assert done.returncode == 0, done.log
    assert "PARITY PASS" in done.log
    other = REPOSITORY_EVENT | {"inputs": {"run_id": "1", "digest": f"sha256:{'0' * 64}"}}
    refused = here.run("edge-validate.yml", "workflow_dispatch", other, env=settings, run_id=2)
    assert refused.returncode == 1
    assert "PARITY PASS" not in refused.log


def read_digest(archive: Path) -> str:
    """Return the SHA-256 of the manifest in an archive."""
    with tarfile.open(archive) as tar:
        manifest = tar.extractfile("bundle.json")
        assert manifest is not None
        return sha256(manifest.read()).hexdigest()


def test_command_does_the_same_where_there_is_no_docker(
    tmp_path: Path, github: GitHubServer
) -> None:
    """The wheel is installed by its name and judges the change; the summary has the comment."""
    checkout = make_checkout(tmp_path)
    config = checkout.root / "ci-parity.yml"
    config.rename(checkout.root / "ci-parity-macos.yml")
    base = checkout.commit("a config for macOS")
    checkout.branch("change")
    checkout.edit("ci-parity-macos.yml", BASELINE_RUNTIME, CANDIDATE_RUNTIME)
    checkout.commit("bump onnxruntime")
    here = runner(checkout, github, tmp_path)
    settings = with_our_wheel(tmp_path)
    event = checkout.pull_request_event(base)
    done = here.run("macos-coreml.yml", "pull_request", event, env=settings)
    assert done.returncode == 0, done.log
    assert "PARITY PASS" in done.summary
    assert f"| `{BASELINE_RUNTIME}` | `{CANDIDATE_RUNTIME}` |" in done.summary
