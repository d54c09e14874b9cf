"""A user's git repository around the digits deployment, as `check` meets it."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.models import save_linear

PROJECT = Path(__file__).resolve().parents[2]
DIGITS = PROJECT / "fixtures" / "digits"

CONFIG = """\
version: 1
deployment: linear
variants:
  exported: {{path: model.onnx}}
targets:
  cpu: {{runtime: "{runtime}"}}
fixtures: fixtures
policy: {{latency: {{measure: false}}}}
release: {{log: "file:release-log.jsonl"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRepository:
    """A work tree with a history."""

    root: Path

    def git(self, *arguments: str) -> str:
        """Run git here and return what it printed."""
        return self.git_with("", *arguments)

    def git_with(self, stdin: str, *arguments: str) -> str:
        """Run git here with a text to read, and return what it printed."""
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
            input=stdin,
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        """Commit everything and return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def write(self, name: str, text: str) -> None:
        """Write a file of the work tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def replace(self, name: str, before: str, after: str) -> None:
        """Replace text in a file of the work tree; it must be there."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert before in text
        self.write(name, text.replace(before, after))


def empty_repository(root: Path) -> UserRepository:
    """Make a repository on branch main without a commit."""
    root.mkdir(parents=True, exist_ok=True)
    repository = UserRepository(root=root)
    repository.git("init", "--quiet", "--initial-branch=main")
    return repository


def linear_repository(root: Path, *, runtime: str = "current") -> UserRepository:
    """Make a repository with y = 2 x, two stored cases with references, and one commit."""
    repository = empty_repository(root)
    model = save_linear(root / "model.onnx")
    repository.write("ci-parity.yml", CONFIG.format(runtime=runtime))
    repository.write(".gitignore", "ci-parity-report/\nrelease-log.jsonl*\n")
    store_linear_cases(root / "fixtures", model)
    repository.commit("first")
    return repository


def store_linear_cases(out: Path, model: Path) -> None:
    """Store two cases of y = 2 x with their references."""
    from ci_parity.fixtures.importer import import_arrays, parse_source
    from ci_parity.fixtures.signature import read_signature

    scratch = out.parent / "arrays"
    scratch.mkdir()
    for name, rows in (("one", 1), ("batch", 4)):
        x = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
        np.savez(scratch / f"{name}.npz", x=x, y=2 * x)
    sources = [parse_source(str(path)) for path in sorted(scratch.glob("*.npz"))]
    import_arrays(sources, read_signature(model), out)
    shutil.rmtree(scratch)


def digits_repository(root: Path, *, runtime: str) -> UserRepository:
    """Make a repository around a copy of fixtures/digits with one commit."""
    repository = empty_repository(root)
    shutil.copytree(DIGITS, root, dirs_exist_ok=True)
    repository.write(".gitignore", "ci-parity-report/\nrelease-log.jsonl*\n")
    repository.replace("ci-parity.yml", "onnxruntime==1.32.0", runtime)
    repository.commit("first")
    return repository


def add_submodule(repository: UserRepository, library: UserRepository, path: str) -> None:
    """Add another repository as a submodule; its address may be a folder, which git mistrusts."""
    allowed = ("-c", "protocol.file.allow=always")
    repository.git(*allowed, "submodule", "--quiet", "add", str(library.root), path)
