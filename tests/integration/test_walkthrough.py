"""What a new user does: from a repository with one model to the comment of a pull request.

Only what README says is typed, and of `init` only the lines that it prints. act is the runner, the
loopback server is GitHub. With CI_PARITY_RECORD_WALKTHROUGH=1 the transcript, with what each step
took, is written to docs/walkthrough.md; no assertion looks at a clock.
"""

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.support.act_runner import run_act
from tests.integration.support.cache import cache_dir
from tests.integration.support.product_repo import (
    REPOSITORY,
    ROOT,
    Checkout,
    git,
)
from tests.integration.support.workflow_runs import used_by
from tests.support.doc_pages import Shell
from tests.support.github_server import GitHubServer

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.usefixtures("base_image")]

CACHE_IN_CONTAINER = Path("/var/cache/ci-parity")
RECORD = "CI_PARITY_RECORD_WALKTHROUGH"
PAGE = ROOT / "docs" / "walkthrough.md"
HEAD = """\
# A walk-through

From a repository with one `.onnx` file to a green comment, as a new user does it: what was typed,
what came back, how long it took. `tests/integration/test_walkthrough.py` records it, on a machine
with two processor cores, with act as the runner and a loopback server as GitHub. Nothing but the
[README](../README.md) was read. Times are the machine's; typing and reading are not counted.
Runtimes and layers of the action's image were in caches already; a first run fills them.

The repository holds `models/reader.onnx` and a `requirements.txt` with `onnxruntime==1.32.0`, on
branch `main`.
"""


@dataclass(slots=True, kw_only=True)
class Transcript:
    """A shell whose commands, outputs and durations are kept as Markdown.

    `remote` is the folder that stands for GitHub's repository.
    """

    shell: Shell
    remote: str
    text: str = HEAD
    total_s: float = 0.0
    rows: list[str] = field(default_factory=list)

    def type(self, title: str, *commands: str) -> str:
        """Type commands as one step; each must succeed. Return what they print."""
        printed, lines, start = "", [], time.perf_counter()
        for command in commands:
            code, output = self.shell.run(command)
            assert code == 0, output
            lines += [f"$ {command}", *output.rstrip().splitlines()]
            printed += output
        self.step(title, start)
        body = "\n".join(line for line in lines if line and not line.startswith(" create mode"))
        body = body.replace(self.remote, f"https://github.com/{REPOSITORY}.git")
        self.text += f"\n<!-- not run here: a transcript -->\n```console\n{body}\n```\n"
        return printed

    def step(self, title: str, start: float) -> None:
        """Head a section with the time since `start`."""
        took = time.perf_counter() - start
        self.total_s += took
        self.rows.append(f"| {title} | {took:.0f} s |")
        self.text += f"\n## {title}: {took:.0f} s\n"

    def page(self) -> str:
        """Return the whole page: the table of times behind the head."""
        table = "\n".join(("| step | took |", "| --- | --- |", *self.rows))
        total = f"| **together** | **{self.total_s:.0f} s** |"
        return self.text.replace(HEAD, f"{HEAD}\n{table}\n{total}\n")


def repository_with_a_model(folder: Path) -> Checkout:
    """Make a repository with a model and a lock, whose pushes go to a bare one beside it."""
    root, remote = folder / "reader", folder / "remote.git"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(folder, "init", "--quiet", "--initial-branch=main", str(root))
    (root / "models").mkdir()
    shutil.copy(ROOT / "fixtures" / "digits" / "model.onnx", root / "models" / "reader.onnx")
    (root / "requirements.txt").write_text("onnxruntime==1.32.0\n", encoding="utf-8")
    git(root, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
    git(root, "remote", "set-url", "--push", "origin", str(remote))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "A model")
    git(root, "push", "--quiet", "origin", "main")
    return Checkout(root=root, remote=remote, deployment=root)


def test_from_one_model_to_a_green_comment(tmp_path: Path, github: GitHubServer) -> None:
    """Three commands, the lines that `init` prints, one pull request, one comment that passes."""
    checkout = repository_with_a_model(tmp_path)
    base = checkout.head
    home, cache = tmp_path / "home", cache_dir() / "action-environments"
    home.mkdir()
    cache.mkdir(exist_ok=True)
    typed = Transcript(
        shell=Shell(folder=checkout.root, home=home, cache=cache_dir() / "docs-environments"),
        remote=str(checkout.remote),
    )
    said = typed.type("Let it look", "ci-parity init")
    typed.type("Look yourself", "ci-parity check")
    _, _, behind = said.partition("then:\n")
    lines = [line.strip() for line in behind.splitlines() if line.startswith("  git ")]
    assert len(lines) == 3
    typed.type("Commit and push", *lines)
    start = time.perf_counter()
    done = run_act(
        checkout.root, "pull_request", checkout.pull_request_event(base), api_url=github.url,
        token="write-token",
        env={"GITHUB_RUN_ID": "1", "CI_PARITY_TEST_ARTIFACTS": str(tmp_path / "artifacts")},
        extra_mounts={cache: CACHE_IN_CONTAINER, checkout.remote: checkout.remote},
        local_repositories=used_by(checkout.root / ".github/workflows/ci-parity.yml"),
    )  # fmt: skip
    assert done.returncode == 0, done.log
    typed.step("The pull request's job, the action's image built from source", start)
    (body,) = github.bodies()
    comment = body.partition("\n")[2]
    assert comment.startswith("### ✅ PARITY PASS")
    assert "snapshot→exported" in comment
    quoted = "\n".join(f"> {line}".rstrip() for line in comment.split("<details>")[0].splitlines())
    typed.text += f"\nThe head of its comment:\n\n{quoted.rstrip('> ').rstrip()}\n"
    if os.environ.get(RECORD) == "1":
        PAGE.write_text(typed.page(), encoding="utf-8")
