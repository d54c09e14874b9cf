"""Pages that could drift from the code do not."""

import importlib.util
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from ci_parity.cli import root
from ci_parity.config.filling import schema
from ci_parity.config.yaml_source import parse
from tests.support.doc_pages import blocks, pages

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    """Import docs/generate.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("generate", PROJECT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def action() -> Mapping[str, Any]:
    """Return action.yml."""
    loaded: Mapping[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text("utf-8"))
    return loaded


@pytest.mark.parametrize("name", ["config.md", "commands.md"])
def test_generated_pages_are_current(name: str) -> None:
    """The config reference and the command reference are what the code says; `make docs`."""
    pages = {path.name: text for path, text in generator().pages().items()}
    assert (PROJECT / "docs" / name).read_text(encoding="utf-8") == pages[name]


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_the_readme_lists_the_actions_ports(side: str) -> None:
    """Every input and output of action.yml has a row in the README, and no row has none."""
    heading = f"| {side.removesuffix('s')} |"
    table = README[README.index(heading) :].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)
    assert rows == list(action()[side])


def test_links_lead_somewhere() -> None:
    """Every relative link of the Markdown pages names a file that exists."""
    pages = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")]
    missing = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []


def test_decisions_are_numbered_without_gaps() -> None:
    """docs/adr counts from 1."""
    numbers = sorted(int(path.name[:4]) for path in (PROJECT / "docs" / "adr").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group of the command line by its name."""
    waiting: list[tuple[str, click.Command]] = [("ci-parity", root)]
    while waiting:
        name, command = waiting.pop()
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            below = (
                (word, command.get_command(context, word))
                for word in command.list_commands(context)
            )
            waiting += [(f"{name} {word}", child) for word, child in below if child is not None]


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_every_command_has_an_example(name: str) -> None:
    """One that begins with that command, groups included."""
    help_text = COMMANDS[name].get_help(click.Context(COMMANDS[name], info_name=name))
    _, _, examples = help_text.partition("Examples:")
    assert re.search(rf"^\s+.*{re.escape(name)} ", examples, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_examples_of_a_command_can_be_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a command line that the parser takes: no option is misspelt, no argument missing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    for line in example_lines(COMMANDS[name].epilog or ""):
        words = shlex.split(line)
        start = words.index("ci-parity")
        command, rest = named(words[start + 1 :])
        assert command is not None, line
        command.make_context("ci-parity", list(rest), resilient_parsing=False)


def example_lines(epilog: str) -> Iterator[str]:
    """Yield the command lines of an epilog, continued ones joined, up to a pipe."""
    _, _, text = epilog.partition("Examples:")
    for line in text.replace("\\\n", " ").splitlines():
        inside = re.search(r"\$\((ci-parity [^)]*)\)", line)
        plain = inside[1] if inside else re.split(r" [|>]", line)[0]
        if "ci-parity " in plain:
            yield plain


def named(words: Sequence[str]) -> tuple[click.Command | None, Sequence[str]]:
    """Return the command that words begin with, and the words behind its name."""
    command: click.Command | None = root
    while isinstance(command, click.Group) and words:
        command, words = command.get_command(click.Context(command), words[0]), words[1:]
    return command, words


def test_every_block_that_is_not_run_says_why() -> None:
    """A command block is run by the tests, or its page says what it would need."""
    silent = [
        f"{page.name}:{block.line}"
        for page in pages()
        for block in blocks(page)
        if block.is_command and len(block.not_run.split()) == 1
    ]
    assert silent == []
    assert any(not block.not_run for page in pages() for block in blocks(page))


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to all of them."""
    index = (PROJECT / "docs" / "README.md").read_text(encoding="utf-8")
    docs = PROJECT / "docs"
    found = [page.relative_to(docs).as_posix() for page in docs.rglob("*.md")]
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", index)}
    missing = [p for p in found if p not in linked | {"README.md"} and not p.startswith("adr/")]
    assert missing == []


def test_messages_in_the_troubleshooting_are_those_of_the_code() -> None:
    """Each heading in quotes is a part of a message that some module writes."""
    page = (PROJECT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| \"([^\"]+)\"", page, re.MULTILINE)
    sources = "\n".join(path.read_text("utf-8") for path in (PROJECT / "ci_parity").rglob("*.py"))
    whole = re.sub(r'"\s*\n\s*f?"', "", sources)
    assert quoted
    parts = [part.strip() for text in quoted for part in text.split("…") if part.strip(" ;?")]
    assert [part for part in parts if part not in whole] == []


def test_findings_in_the_troubleshooting_are_those_of_the_code() -> None:
    """Each name of a finding in its tables is one that some module gives."""
    page = (PROJECT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_]+\.[a-z_…]+`[^|]*)\|", page, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)}
    sources = "\n".join(path.read_text("utf-8") for path in (PROJECT / "ci_parity").rglob("*.py"))
    assert names
    assert [name for name in sorted(names) if not said_in(name, sources)] == []


def said_in(name: str, sources: str) -> bool:
    """Say whether a finding is named as a whole, or put together from a family and a word."""
    family, _, word = name.partition(".")
    return f'"{name}"' in sources or (f'"{family}.' in sources and f'"{word}"' in sources)


def config_blocks() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the YAML blocks of the documentation that are parts of a config."""
    known = set(schema()["properties"])
    for page in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]:
        for block in blocks(page):
            keys = set(re.findall(r"^([A-Za-z_]+):", block.text, re.MULTILINE))
            if block.language == "yaml" and keys and keys <= known:
                place = f"{page.name}:{block.line}"
                yield place, parse(block.text, where=place).value


CONFIG_BLOCKS = dict(config_blocks())


@pytest.mark.parametrize("name", sorted(CONFIG_BLOCKS))
def test_parts_of_a_config_are_valid(name: str) -> None:
    """Whoever copies one has nothing to correct: every key, value and type is the schema's."""
    rule = {key: part for key, part in schema().items() if key != "required"}
    # A part of a list of variants need not say all that one has; a placeholder is no digest.
    problems = [
        error.message
        for error in Draft202012Validator(rule).iter_errors(CONFIG_BLOCKS[name])
        if "is a required property" not in error.message and "…" not in str(error.instance)
    ]
    assert problems == []
