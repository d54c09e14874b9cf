"""Real runs on the digits model, published in every form; and what a terminal really gets."""

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmlschema
from prometheus_client.parser import text_string_to_metric_families

from ci_parity.cli import run
from tests.integration.support.in_process import Runner
from tests.support.github_server import GitHubServer
from tests.support.models import scale_initializer
from tests.support.user_repository import (
    DIGITS,
    PROJECT,
    UserRepository,
    digits_repository,
    linear_repository,
)

STANDARDS = PROJECT / "tests" / "unit" / "report" / "standards"
DIRECT = ("junit", "sarif", "prometheus", "badge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What one command wrote in the forms that are asked for on the command line."""

    folder: Path

    def words(self, *forms: str) -> list[str]:
        """Return the options that ask for them."""
        return [word for form in forms for word in (f"--{form}", str(self.folder / form))]

    def text(self, form: str) -> str:
        """Return the text of one."""
        return (self.folder / form).read_text(encoding="utf-8")

    def results(self) -> list[Any]:
        """Return the results of the SARIF file; every file must be valid."""
        xmlschema.XMLSchema(STANDARDS / "junit-10.xsd").validate(self.text("junit"))
        rules = json.loads((STANDARDS / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
        document = json.loads(self.text("sarif"))
        jsonschema.Draft4Validator(rules).validate(document)
        assert any(text_string_to_metric_families(self.text("prometheus")))
        assert json.loads(self.text("badge"))["schemaVersion"] == 1
        results: list[Any] = document["runs"][0]["results"]
        return results


def place_of(result: Any) -> tuple[str, int | None]:
    """Return file and line of a result."""
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical.get("region", {}).get("startLine")


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return the digits deployment on a branch, without latency and without a log."""
    made = digits_repository(tmp_path / "user", runtime="current")
    text = (made.root / "ci-parity.yml").read_text(encoding="utf-8").partition("policy:")[0]
    made.write("ci-parity.yml", f"{text}policy: {{latency: {{measure: false}}}}\n")
    made.commit("quick")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def check(repository: UserRepository, files: Files) -> int:
    """Run a check that writes its forms at once."""
    folder = repository.root / "ci-parity-report"
    words = ["--root", str(repository.root), "--report-dir", str(folder), *files.words(*DIRECT)]
    return run(["check", *words])


def test_a_failed_check_is_published_in_every_form(
    repository: UserRepository, tmp_path: Path
) -> None:
    """At once and from the report folder: the same bytes, the same exit code."""
    model = repository.root / "model.onnx"
    scale_initializer(model, model, 1.01)
    repository.commit("fault")
    now, later = Files(folder=tmp_path / "now"), Files(folder=tmp_path / "later")
    assert check(repository, now) == 1
    results = now.results()
    assert {place_of(result) for result in results if result["level"] == "error"} == {
        ("model.onnx", None)
    }
    assert re.search(r'<testsuites [^>]*failures="[1-9]', now.text("junit"))
    assert 'ci_parity_verdict{deployment="digits",outcome="fail"} 1.0' in now.text("prometheus")
    assert json.loads(now.text("badge"))["message"] == "fail"
    publish = ["publish", "--from", str(repository.root / "ci-parity-report")]
    forms = (*DIRECT, "markdown", "html")
    assert run([*publish, *later.words(*forms)]) == 1
    assert [later.text(form) for form in DIRECT] == [now.text(form) for form in DIRECT]
    assert later.text("markdown").startswith("### ❌ PARITY FAIL")
    assert "PARITY FAIL" in later.text("html")
    assert run([*publish, *later.words("badge"), "--exit-zero"]) == 0


def test_a_passed_check_has_a_test_for_every_case(
    repository: UserRepository, tmp_path: Path
) -> None:
    """And no result that blocks; an option that changed is named by its line."""
    repository.replace(
        "ci-parity.yml", "    provider:",
        "    session_options: {graph_optimization_level: disable_all}\n    provider:",
    )  # fmt: skip
    repository.commit("option")
    files = Files(folder=tmp_path / "files")
    assert check(repository, files) == 0
    assert [result for result in files.results() if result["level"] == "error"] == []
    cases = [path.name for path in DIGITS.iterdir() if (path / "input_0.pb").is_file()]
    assert len(cases) > 4
    for case in cases:
        assert f'<testcase name="{case}"' in files.text("junit")
    assert re.search(r'failures="0" errors="0"', files.text("junit"))
    record = (repository.root / "ci-parity-report" / "verdict.record.json").read_text("utf-8")
    options = [p for p in json.loads(record)["verdict"]["places"] if p["part"] == "options"]
    assert [(place["path"], place["line"]) for place in options] == [("ci-parity.yml", 9)]


def test_nothing_changed_is_published_as_what_it_is(
    repository: UserRepository, tmp_path: Path
) -> None:
    """A pass that rests on another run, with a test so that no viewer calls it empty."""
    repository.write("README.md", "words")
    repository.commit("words")
    files = Files(folder=tmp_path / "files")
    assert check(repository, files) == 0
    assert files.results() == []
    assert json.loads(files.text("badge"))["message"] == "pass (unchanged)"
    assert 'tests="1" failures="0" errors="0"' in files.text("junit")


def test_a_diff_writes_its_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the candidate's model as the file."""
    monkeypatch.chdir(tmp_path)
    scale_initializer(DIGITS / "model.onnx", tmp_path / "candidate.onnx", 1.01)
    files = Files(folder=tmp_path / "files")
    words = [str(DIGITS / "model.onnx"), "candidate.onnx", "--no-localise"]
    assert run(["diff", *words, *files.words(*DIRECT)]) == 1
    places = {place_of(result) for result in files.results() if "locations" in result}
    assert places == {("candidate.onnx", None)}


def test_the_action_annotates_the_file_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One error for each boundary that failed, however many cases did, and the record beside."""
    made = linear_repository(tmp_path / "user")
    made.git("checkout", "--quiet", "-b", "change")
    scale_initializer(made.root / "model.onnx", made.root / "model.onnx", 1.01)
    made.commit("fault")
    with GitHubServer() as server:
        assert Runner(made, server, tmp_path).pull_request() == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::error")]
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("::error title=parity fail%3A output.values,file=model.onnx::")
        assert "%0Aalso in " in line
    assert (made.root / "ci-parity-report" / "verdict.record.json").is_file()


def on_a_terminal(words: list[str], columns: int, **environ: str) -> tuple[int, str]:
    """Run a command on a terminal of its own; return its exit code and all it got."""
    main, side = pty.openpty()
    inherited = {k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR", "COLUMNS"}}
    done = subprocess.Popen(
        [sys.executable, "-m", "ci_parity", *words], stdout=side, stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**inherited, "TERM": "xterm-256color", "COLUMNS": str(columns), **environ},
    )  # fmt: skip
    os.close(side)
    parts = []
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        parts.append(part)
    os.close(main)
    return done.wait(), b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("environ", "table", "colour"),
    [
        ({}, True, True), ({"NO_COLOR": "1"}, True, False), ({"CI": "true"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_terminal_gets_tables_and_colours_where_it_can(
    tmp_path: Path, environ: dict[str, str], table: bool, colour: bool
) -> None:
    """Elsewhere the plain lines; the exit code is the same."""
    candidate = tmp_path / "candidate.onnx"
    scale_initializer(DIGITS / "model.onnx", candidate, 1.01)
    words = ["diff", str(DIGITS / "model.onnx"), str(candidate), "--no-localise"]
    code, text = on_a_terminal(words, 90, **environ)
    assert code == 1
    assert "PARITY FAIL" in text.partition("\n")[0]
    assert ("───" in text) is table
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]m", text)) is colour
    assert bool("\x1b" in text) is table
