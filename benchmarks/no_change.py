"""What `ci-parity check` costs when nothing that matters changed, against `import onnxruntime`.

    python benchmarks/no_change.py [ROUNDS]

Both are started as whole processes, alternately, in one run; medians and ratio are printed. Both
have their bytecode, as what is installed has.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Make a repository whose last commit edits a README, and time both commands."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "user"
        shutil.copytree(PROJECT / "fixtures" / "digits", root / "digits")
        config = root / "digits" / "ci-parity.yml"
        config.write_text(config.read_text().partition("release:")[0])
        git(root, "init", "--quiet", "--initial-branch=main")
        commit(root, "first")
        git(root, "checkout", "--quiet", "-b", "change")
        (root / "README.md").write_text("words")
        commit(root, "words")
        check = [
            sys.executable, "-m", "ci_parity", "check", "--root", str(root / "digits"),
            "--report-dir", str(Path(scratch) / "report"),
        ]  # fmt: skip
        bare = [sys.executable, "-c", "import onnxruntime"]
        compiled = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(scratch) / "bytecode")}
        compiled.pop("PYTHONDONTWRITEBYTECODE", None)
        for command in (check, bare):
            subprocess.run(command, check=True, capture_output=True, cwd=PROJECT, env=compiled)
        times: dict[str, list[float]] = {"check": [], "bare": []}
        for _ in range(rounds):
            for name, command in (("check", check), ("bare", bare)):
                start = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True, cwd=PROJECT, env=compiled)
                times[name].append(time.perf_counter() - start)
    ours, theirs = (statistics.median(times[name]) for name in ("check", "bare"))
    print(f"check, nothing changed  {1000 * ours:7.0f} ms")
    print(f"import onnxruntime      {1000 * theirs:7.0f} ms")
    print(f"ratio                   {ours / theirs:7.2f}")


def commit(root: Path, message: str) -> None:
    """Commit everything."""
    git(root, "add", "--all")
    git(root, "-c", "user.name=b", "-c", "user.email=b@example.invalid", "commit", "-qm", message)


def git(root: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", *arguments], cwd=root, check=True)


if __name__ == "__main__":
    main()
