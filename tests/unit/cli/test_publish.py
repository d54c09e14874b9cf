import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_parity.cli import run
from ci_parity.records.outcome import Outcome
from ci_parity.stages.report_folder import Origin, write_report
from ci_parity.stages.stored_report import RECORD
from tests.unit.report.samples import SAMPLES

FORMS = ("junit", "sarif", "prometheus", "badge", "markdown")


def stored(folder: Path, name: str = "pass") -> Path:
    """Return a report folder as a check leaves it."""
    write_report(SAMPLES[name], b"{}\n", folder, Origin(commit="c0ffee"))
    return folder


def publish(folder: Path, *words: str) -> tuple[int, dict[str, str]]:
    """Publish every form; return the exit code and what was written."""
    files = {form: folder.parent / f"published.{form}" for form in FORMS}
    named = [word for form, path in files.items() for word in (f"--{form}", str(path))]
    code = run(["publish", "--from", str(folder), *named, *words])
    texts = {form: p.read_text(encoding="utf-8") for form, p in files.items() if p.is_file()}
    return code, texts


def is_inconclusive(texts: dict[str, str]) -> None:
    """Assert that nobody who reads one of the files takes it for a pass, or for nothing."""
    assert set(texts) == set(FORMS)
    assert re.search(r'<testsuites [^>]*errors="[1-9]', texts["junit"])
    (run_of,) = json.loads(texts["sarif"])["runs"]
    assert [result["level"] for result in run_of["results"]] == ["error"]
    assert run_of["invocations"][0]["executionSuccessful"] is False
    assert 'outcome="inconclusive"} 1.0' in texts["prometheus"]
    assert 'ci_parity_verdict{deployment="",outcome="pass"} 0.0' in texts["prometheus"]
    assert json.loads(texts["badge"])["message"] == "inconclusive"
    assert "INCONCLUSIVE" in texts["markdown"].splitlines()[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_it_ends_as_the_check_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """And says in a line what that was, and which files there are."""
    outcome = SAMPLES[name].outcome
    code, texts = publish(stored(tmp_path / "out", name))
    assert code == outcome.exit_code
    assert set(texts) == set(FORMS)
    assert json.loads(texts["badge"])["message"].startswith(outcome.value)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(FORMS)
    assert publish(tmp_path / "out", "--exit-zero")[0] == 0


def test_only_what_is_named_is_written(tmp_path: Path) -> None:
    """In a folder that need not be there yet."""
    folder = stored(tmp_path / "out")
    target = tmp_path / "new" / "parity.xml"
    assert run(["publish", "--from", str(folder), "--junit", str(target)]) == 0
    assert [path.name for path in target.parent.iterdir()] == ["parity.xml"]


def test_nothing_to_write_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that publishes nothing would be green."""
    assert run(["publish", "--from", str(stored(tmp_path / "out"))]) == 2
    assert "no file to write is named" in capsys.readouterr().err


def is_missing(folder: Path) -> None:
    """Leave no folder."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def is_empty(folder: Path) -> None:
    """Leave an empty folder."""
    for path in folder.iterdir():
        path.unlink()


def lost_the_record(folder: Path) -> None:
    """Leave what a run writes before it ends."""
    (folder / RECORD).unlink()


def lost_the_report(folder: Path) -> None:
    """Leave a record of a report that is not there."""
    (folder / "verdict.json").unlink()


def is_torn(folder: Path) -> None:
    """Cut the record off, as a full disk does."""
    record = folder / RECORD
    record.write_bytes(record.read_bytes()[:-100])


def is_of_two_runs(folder: Path) -> None:
    """Lay the report of another run beside the record."""
    other = stored(folder.parent / "other", "fail")
    (folder / "verdict.json").write_bytes((other / "verdict.json").read_bytes())


def is_forged(folder: Path) -> None:
    """Turn a failure into a pass by its outcome alone."""
    stored(folder, "fail")
    record = folder / RECORD
    text = record.read_text(encoding="utf-8")
    assert '"deployment": "digits", "outcome": "fail"' in text
    forged = text.replace('"digits", "outcome": "fail"', '"digits", "outcome": "pass"')
    record.write_text(forged, encoding="utf-8")


def is_linked(folder: Path) -> None:
    """Let the record lead elsewhere."""
    record = folder / RECORD
    elsewhere = folder.parent / "elsewhere.json"
    record.rename(elsewhere)
    record.symlink_to(elsewhere)


def is_a_pipe(folder: Path) -> None:
    """Let the record be something that never ends."""
    (folder / RECORD).unlink()
    os.mkfifo(folder / RECORD)


def is_a_folder(folder: Path) -> None:
    """Let the record be a folder."""
    (folder / RECORD).unlink()
    (folder / RECORD).mkdir()


BROKEN: tuple[Callable[[Path], None], ...] = (
    is_missing, is_empty, lost_the_record, lost_the_report, is_torn, is_of_two_runs, is_forged,
    is_linked, is_a_pipe, is_a_folder,
)  # fmt: skip


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda breaks: breaks.__name__)
@pytest.mark.parametrize("words", [(), ("--exit-zero",)], ids=["plain", "exit zero"])
def test_a_folder_without_a_whole_verdict_is_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], breaks: Callable[[Path], None],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    """By exit code, by message and in every file; nothing excuses it."""
    folder = stored(tmp_path / "out")
    breaks(folder)
    code, texts = publish(folder, *words)
    assert code == Outcome.INCONCLUSIVE.exit_code
    is_inconclusive(texts)
    printed = capsys.readouterr()
    assert printed.out.startswith("⚠️ PARITY INCONCLUSIVE")
    assert "there is no verdict to publish" in printed.err
    assert "Traceback" not in printed.err


def test_a_file_that_cannot_be_written_ends_a_pass_and_changes_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are written all the same."""
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    for name, code in (("pass", 6), ("fail", 1)):
        folder, badge = stored(tmp_path / name, name), tmp_path / f"{name}.badge"
        words = ["--junit", str(in_the_way / "parity.xml"), "--badge", str(badge)]
        assert run(["publish", "--from", str(folder), *words]) == code
        assert run(["publish", "--from", str(folder), *words, "--exit-zero"]) == (
            6 if code == 6 else 0
        )
        assert badge.is_file()
        assert "1 of 2 reports were not written" in capsys.readouterr().err


def test_a_device_is_not_replaced_by_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor a link to one; a link to a file stays, and its end is written."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "target").touch()
    (tmp_path / "alias").symlink_to(tmp_path / "target")
    folder = stored(tmp_path / "out")
    for name in ("pipe", "link"):
        assert run(["publish", "--from", str(folder), "--junit", str(tmp_path / name)]) == 6
        assert "not a plain file" in capsys.readouterr().err
    assert run(["check", "--root", str(tmp_path), "--junit", str(tmp_path / "link")]) == 2
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert run(["publish", "--from", str(folder), "--badge", str(tmp_path / "alias")]) == 0
    assert (tmp_path / "alias").is_symlink()
    assert json.loads((tmp_path / "target").read_text(encoding="utf-8"))["message"] == "pass"


def test_a_check_that_reaches_no_verdict_leaves_none_of_the_one_before(tmp_path: Path) -> None:
    """Else a broken config would publish the last pass."""
    folder = stored(tmp_path / "out")
    (tmp_path / "ci-parity.yml").write_text("version: 9\n", encoding="utf-8")
    assert run(["check", "--root", str(tmp_path), "--report-dir", str(folder)]) == 2
    code, texts = publish(folder)
    assert code == Outcome.INCONCLUSIVE.exit_code
    is_inconclusive(texts)


def test_a_run_without_a_verdict_says_so_in_its_files(tmp_path: Path) -> None:
    """Where it was asked for them; what an earlier run wrote there is gone."""
    files = {form: tmp_path / form for form in FORMS if form != "markdown"}
    for path in files.values():
        path.write_text("of an earlier run", encoding="utf-8")
    words = [word for form, path in files.items() for word in (f"--{form}", str(path))]
    (tmp_path / "ci-parity.yml").write_text("version: 9\n", encoding="utf-8")
    for command in (["check", "--root", str(tmp_path)], ["diff", str(tmp_path / "none.onnx")]):
        assert run([*command, *words]) in {2, 4}
        texts = {form: path.read_text(encoding="utf-8") for form, path in files.items()}
        assert json.loads(texts["badge"])["message"] == "inconclusive"
        assert re.search(r'<testsuites [^>]*errors="[1-9]', texts["junit"])
        assert "there is no verdict: " in texts["sarif"]
        assert 'outcome="inconclusive"} 1.0' in texts["prometheus"]
