"""A throw-away repository of a user of ours: the digits model, its config, a remote, a history.

The deployment is `fixtures/digits`, under a config as a user writes it: main runs an older runtime
than a pull request asks for. `Checkout` knows git and the payloads GitHub sends, nothing of act.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

ROOT = Path(__file__).parents[3]
REPOSITORY = "acme/models"
PULL_REQUEST = 7
LOG_BRANCH = "ci-parity-log"
BASELINE_RUNTIME = "onnxruntime==1.31.1"
CANDIDATE_RUNTIME = "onnxruntime==1.32.0"
# What a container action is made of; the rest of our repository is not its business.
ACTION_PARTS = (
    "action.yml",
    "Dockerfile",
    "entrypoint.py",
    "requirements/runtime.txt",
    "ci_parity",
)

_CONFIG = f"""\
version: 1
deployment: digits
variants:
  exported: {{path: digits/model.onnx}}
targets:
  cpu: {{runtime: {BASELINE_RUNTIME}}}
fixtures: digits
policy:
  latency: {{sessions: 2, pairs: 2}}
"""
_AUTHOR = ("-c", "user.name=engineer", "-c", "user.email=engineer@localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A clone on its runner: `root` is the work tree, `remote` the bare repository it came from.

    `deployment` is the folder of ci-parity.yml, the root or one below it.
    """

    root: Path
    remote: Path
    deployment: Path

    @property
    def head(self) -> str:
        """The commit that is checked out."""
        return self._git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        """Start a branch at the commit that is checked out."""
        self._git("checkout", "--quiet", "-b", name)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace text in a file of the deployment that holds it."""
        file = self.deployment / path
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{path} does not hold {old!r}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def bump_runtime(self) -> None:
        """Ask for the newer runtime, as Renovate would."""
        self.edit("ci-parity.yml", BASELINE_RUNTIME, CANDIDATE_RUNTIME)

    def plant_fault(self) -> None:
        """Scale the last layer's weights by 1.01: every case's probabilities move."""
        path = self.deployment / "digits" / "model.onnx"
        model = onnx.load(path)
        weights = next(i for i in model.graph.initializer if i.name == "coefficient1")
        scaled = numpy_helper.to_array(weights) * numpy_helper.to_array(weights).dtype.type(1.01)
        weights.CopyFrom(numpy_helper.from_array(scaled, weights.name))
        onnx.save(model, path)

    def commit(self, message: str) -> str:
        """Commit what there is, if anything, push the branch, return the commit."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message", message)
        self._git("push", "--quiet", "origin", "HEAD")
        return self.head

    def shallow(self, folder: Path) -> "Checkout":
        """Return another clone of the checked-out branch, one commit deep."""
        branch = self._git("symbolic-ref", "--short", "HEAD")
        depth = ("--quiet", "--depth=1", f"--branch={branch}")
        git(self.root, "clone", *depth, self.remote.as_uri(), str(folder))
        below = self.deployment.relative_to(self.root)
        return Checkout(root=folder, remote=self.remote, deployment=folder / below)

    def pull_request_event(self, base: str) -> dict[str, Any]:
        """Return what GitHub sends for a pull request from the checked-out branch into main."""
        repository = {"full_name": REPOSITORY}
        return {
            "action": "synchronize",
            "number": PULL_REQUEST,
            "repository": repository | {"default_branch": "main"},
            "pull_request": {
                "number": PULL_REQUEST,
                "head": {"ref": "change", "sha": self.head, "repo": repository},
                "base": {"ref": "main", "sha": base, "repo": repository},
            },
        }

    def push_event(self, before: str) -> dict[str, Any]:
        """Return what GitHub sends for a push of the checked-out branch."""
        branch = self._git("symbolic-ref", "--short", "HEAD")
        return {
            "ref": f"refs/heads/{branch}",
            "before": before,
            "after": self.head,
            "forced": False,
            "repository": {"full_name": REPOSITORY, "default_branch": "main"},
        }

    def _git(self, *arguments: str) -> str:
        return git(self.root, *arguments)


def make_checkout(
    folder: Path, workflow: str = "", *, log: bool = False, below: str = ""
) -> Checkout:
    """Make a remote with one commit on main, and the clone of it.

    Args:
        folder: an empty folder for both.
        workflow: the text of the repository's workflow, with the action's own sources at the root,
            as `uses: ./` wants them; empty for neither.
        log: whether the config names a release log on a branch.
        below: the deployment's folder below the root.
    """
    root, remote = folder / "checkout", folder / "remote.git"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(folder, "init", "--quiet", "--initial-branch=main", str(root))
    git(root, "remote", "add", "origin", str(remote))
    if workflow:
        copy_action(root)
        path = root / ".github" / "workflows" / "parity.yml"
        path.parent.mkdir(parents=True)
        path.write_text(workflow, encoding="utf-8")
    checkout = Checkout(root=root, remote=remote, deployment=root / below)
    shutil.copytree(
        ROOT / "fixtures" / "digits", checkout.deployment / "digits",
        ignore=shutil.ignore_patterns("ci-parity.yml", "*.py", "__pycache__"),
    )  # fmt: skip
    config = _CONFIG + (f"release: {{log: 'branch:{LOG_BRANCH}'}}\n" if log else "")
    (checkout.deployment / "ci-parity.yml").write_text(config, encoding="utf-8")
    (checkout.deployment / "README.md").write_text("Reads digits.\n", encoding="utf-8")
    checkout.commit("the state production runs")
    return checkout


def copy_action(folder: Path) -> None:
    """Copy what git knows, or would take, of the action's sources."""
    listed = git(
        ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "--", *ACTION_PARTS
    )
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; return what it printed."""
    done = subprocess.run(
        ["git", "-C", str(folder), *_AUTHOR, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
