"""The snippets of docs/reports.md are what the CI systems and our own commands take."""

import json
import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml

from ci_parity.cli import root

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NAMED = {
    text.partition("\n")[0].lstrip("#/ "): text for language, text in BLOCKS if language != "sh"
}
SCHEMAS = {
    ".gitlab-ci.yml": "gitlab-ci", "azure-pipelines.yml": "azure-pipelines",
    ".buildkite/pipeline.yml": "buildkite",
}  # fmt: skip
COMMANDS = [found for _, text in BLOCKS for found in re.findall(r"ci-parity [a-z][^'\n]*", text)]


def vendored(name: str) -> dict[str, Any]:
    """Return a CI system's schema, as check-jsonschema ships it."""
    folder = resources.files("check_jsonschema").joinpath("builtin_schemas", "vendor")
    loaded: dict[str, Any] = json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize(("file", "schema"), SCHEMAS.items())
def test_a_pipeline_is_what_its_system_takes(file: str, schema: str) -> None:
    """By the schema that editors use for it."""
    rules = vendored(schema)
    kind = jsonschema.validators.validator_for(rules)
    kind(rules).validate(yaml.safe_load(NAMED[file]))


@pytest.mark.parametrize("text", [text for language, text in BLOCKS if language == "yaml"])
def test_every_yaml_block_is_yaml(text: str) -> None:
    """With something in it."""
    assert yaml.safe_load(text)


def test_the_jenkinsfile_closes_what_it_opens() -> None:
    """Nothing here can run Groovy; braces and quotes are counted, stages and steps named."""
    text = NAMED["Jenkinsfile"]
    assert text.count("{") == text.count("}") > 5
    assert text.count("'") % 2 == 0
    assert all(word in text for word in ("pipeline {", "agent {", "stages {", "steps {", "post {"))


def test_gitlab_gets_the_file_that_is_written() -> None:
    """Its report is the one of the option, and it is taken from failed jobs as well."""
    job = yaml.safe_load(NAMED[".gitlab-ci.yml"])["parity"]
    assert f"--junit {job['artifacts']['reports']['junit']}" in job["script"][-1]
    assert job["artifacts"]["when"] == "always"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_taken(command: str) -> None:
    """By its own parser; nothing runs."""
    words = shlex.split(command.partition(" #")[0])[1:]
    with click.Context(root, info_name="ci-parity") as context:
        known = root.get_command(context, words[0])
        assert known is not None
        assert known.make_context(words[0], words[1:], parent=context).params


def test_the_commands_were_found() -> None:
    """Else the test above could not fail."""
    assert len(COMMANDS) >= 6
