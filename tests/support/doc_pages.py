"""The command blocks of a documentation page, and running them as a reader would.

Every fenced block whose language is `sh` or `console` is a command block. All of a page run in
order, in one work tree, and must end with exit code 0. HTML comments before a block say otherwise;
they show in the source, where a writer looks:

    <!-- starts from: NAME -->     once a page: the repository it starts in (`STATES`)
    <!-- setup                     lines for a shell, which a reader has done in another way
    … -->
    <!-- file: PATH -->            the next block, of any language, is this file
    <!-- exits N -->               the next block ends with that exit code
    <!-- not run here: REASON -->  the next block is not run

In a `console` block commands follow `$ `; the other lines are what they print, in that order, with
`…` for what differs from run to run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
DEFAULT_STATE = "deployment"
_PART = re.compile(
    r"^<!--(?P<comment>.*?)-->|^```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_STATE = re.compile(r"<!-- starts from: ([\w-]+) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a page with what its comments say of it."""

    line: int
    language: str
    text: str
    setup: str = ""
    file: str = ""
    exits: int = 0
    not_run: str = ""

    @property
    def is_command(self) -> bool:
        """Whether a reader would type it."""
        return self.language in ("sh", "console", "bash", "shell") and not self.file

    @property
    def shows_output(self) -> bool:
        """Whether commands stand behind a prompt, and what they print below."""
        return (
            self.language == "console" and re.search(r"^\$ ", self.text, re.MULTILINE) is not None
        )

    @property
    def script(self) -> str:
        """What is typed."""
        if not self.shows_output:
            return self.text
        return "".join(
            f"{line[2:]}\n" for line in self.text.splitlines() if line.startswith(("$ ", "> "))
        )

    @property
    def printed(self) -> tuple[str, ...]:
        """The lines of a `console` block that its commands print."""
        if not self.shows_output:
            return ()
        lines = self.text.splitlines()
        return tuple(line for line in lines if line and not line.startswith(("$ ", "> ")))


def pages() -> tuple[Path, ...]:
    """Return every page with command blocks, apart from the generated ones."""
    found = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
    return tuple(page for page in found if any(block.is_command for block in blocks(page)))


def state_of(page: Path) -> str:
    """Return the name of the repository that a page starts in."""
    named = _STATE.search(page.read_text(encoding="utf-8"))
    return named[1] if named else DEFAULT_STATE


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    said: dict[str, str] = {}
    for part in _PART.finditer(text):
        if part["comment"] is not None:
            said |= _said(part["comment"].strip())
            continue
        yield Block(
            line=text.count("\n", 0, part.start()) + 1,
            language=part["language"],
            text=part["text"],
            setup=said.get("setup", ""),
            file=said.get("file", ""),
            exits=int(said.get("exits", "0")),
            not_run=said.get("not run here", ""),
        )
        said = {}


def _said(comment: str) -> dict[str, str]:
    for key, separator in (("setup", "\n"), ("file", ":"), ("exits", " "), ("not run here", ":")):
        if comment.startswith(f"{key}{separator}"):
            return {key: comment.removeprefix(f"{key}{separator}").strip()}
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A reader's shell in a work tree; `home` is theirs, `cache` keeps runtimes between runs."""

    folder: Path
    home: Path
    cache: Path

    def run(self, script: str) -> tuple[int, str]:
        """Run lines of shell, stopping at the first that fails; return exit code and output."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GITHUB_", "GIT_", "CI_PARITY_"))
        }
        environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home), "CI_PARITY_CACHE": str(self.cache), "COLUMNS": "100",
            "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script], cwd=self.folder, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout

    def follow(self, block: Block) -> str:
        """Do what a block says; return what went otherwise, empty where nothing did."""
        if block.setup:
            code, output = self.run(block.setup)
            if code:
                return f"line {block.line}: its setup exits {code}:\n{output}"
        if block.file:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if not block.is_command or block.not_run:
            return ""
        code, output = self.run(block.script)
        if code != block.exits:
            return f"line {block.line}: exits {code}, not {block.exits}:\n{output}"
        missing = _missing(block.printed, output)
        return f"line {block.line}: does not print {missing!r}:\n{output}" if missing else ""


def _missing(printed: tuple[str, ...], output: str) -> str:
    """Return the first line that the output lacks, in order."""
    lines = iter(output.splitlines())
    for wanted in printed:
        words = r".*?".join(re.escape(part) for part in wanted.split("…"))
        pattern = re.compile(words)
        if wanted.strip() != "…" and not any(pattern.fullmatch(line) for line in lines):
            return wanted
    return ""
