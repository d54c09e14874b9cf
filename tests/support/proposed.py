"""A deployment whose rollbacks go by pull request: a remote, GitHub beside it, two releases."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_parity.cli import run
from tests.support.github_server import GitHubServer
from tests.support.released import Releasing, releasing

REPOSITORY = "acme/models"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """A user's repository with its remote and the GitHub that shows it."""

    made: Releasing
    remote: Path
    server: GitHubServer

    def git(self, *arguments: str) -> str:
        """Run git on the remote; return what it printed, nothing where it fails."""
        done = subprocess.run(
            ["git", "-C", str(self.remote), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    def tip(self, branch: str) -> str:
        """Return the commit of a branch of the remote, empty where there is none."""
        return self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")

    def branches(self) -> list[str]:
        """Return the branches of the remote."""
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()

    def show(self, branch: str, path: str) -> str:
        """Return a file as a branch of the remote has it."""
        return self.git("show", f"{branch}:{path}")

    def push(self) -> None:
        """Push the branch that ships."""
        self.made.repository.git("push", "--quiet", "origin", "main")

    def put_out(self) -> str:
        """Push, validate and release the state as it is; return its digest."""
        self.push()
        self.made.validate()
        assert run(["release", "--root", str(self.made.root)]) == 0
        return self.made.digest()

    def merge(self, branch: str, *how: str) -> None:
        """Merge a branch of the remote into the one that ships, as GitHub would."""
        git = self.made.repository.git
        git("fetch", "--quiet", "origin")
        git("merge", "--quiet", *(how or ("--no-ff",)), f"origin/{branch}")
        if "--squash" in how:
            self.made.repository.commit("merged")
        self.push()

    def rollback(self, *words: object) -> int:
        """Run `ci-parity rollback`."""
        return run(["rollback", "--root", str(self.made.root), *map(str, words)])

    def titles(self) -> list[str]:
        """Return the titles of the pull requests that were opened, in their order."""
        return [texts["title"] for _, texts in sorted(self.server.texts.items())]

    def body(self) -> str:
        """Return the body of the one that was opened."""
        (texts,) = self.server.texts.values()
        return texts["body"]


def proposing(folder: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Proposing:
    """Make a deployment of which two states were released; the second is out."""
    for name, value in {
        "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": server.url,
        "GITHUB_TOKEN": "write-token", "CI_PARITY_CACHE": str(folder / "cache"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CI_PARITY_SIGNING_KEY", raising=False)
    made = releasing(folder / "user")
    made.repository.replace("ci-parity.yml", "store:", "rollback: pull_request, store:")
    made.repository.commit("rollbacks by pull request")
    remote = folder / "remote.git"
    made.repository.git("init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    made.repository.git("remote", "add", "origin", str(remote))
    found = Proposing(made=made, remote=remote, server=server)
    server.remote = found.tip
    found.put_out()
    made.next_state()
    found.put_out()
    return found
