"""A judge of the repository is never ours to trust: whatever it does, it costs its case alone."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ci_parity.config.decisions import Judge
from ci_parity.records.outcome import Outcome
from ci_parity.run.custom_judge import JudgeProcess, Opinion

SCRIPT = """\
import os, sys, time
import helper

def judge(case):
    print("noise on standard output")
    what = case["case"]
    if what == "echo":
        return {"outcome": "pass", "evidence": sys.stdin.read() + repr(sorted(case))}
    if what == "numpy":
        import numpy as np
        numbers = {"measured": np.float32(0.5), "limit": np.int64(1)}
        return {"outcome": "fail", "evidence": "e", **numbers}
    if what == "place":
        return {"outcome": "pass", "evidence": f"{os.getcwd()} {helper.NAME} {sorted(os.environ)}"}
    if what == "raise":
        raise ValueError("no such word")
    if what == "exit":
        print("last words", file=sys.stderr)
        sys.exit(3)
    if what == "die":
        os.abort()
    if what == "hang":
        time.sleep(60)
    if what == "garbage":
        os.write(3, b"x")
    return ANSWERS[what]

ANSWERS = {
    "fine": {"outcome": "inconclusive", "evidence": "so"},
    "long": {"outcome": "pass", "evidence": "x" * 100_000},
    "none": None,
    "text": "pass",
    "bool": True,
    "empty": {},
    "silent": {"outcome": "pass"},
    "unknown": {"outcome": "pass", "evidence": "", "mesured": 1},
    "outcome": {"outcome": "ok", "evidence": ""},
    "upper": {"outcome": "PASS", "evidence": ""},
    "list": {"outcome": ["pass"], "evidence": ""},
    "nan": {"outcome": "pass", "evidence": "", "measured": float("nan")},
    "huge": {"outcome": "pass", "evidence": "", "measured": 10 ** 400},
    "number": {"outcome": "pass", "evidence": "", "limit": "1"},
    "truth": {"outcome": "pass", "evidence": "", "limit": True},
    "object": {"outcome": "pass", "evidence": object()},
    "surrogate": {"outcome": "pass", "evidence": "\\udc80"},
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a judge and a module beside it."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "judge.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "tools" / "helper.py").write_text("NAME = 'imported'\n", encoding="utf-8")
    (tmp_path / "work").mkdir()
    return tmp_path


def judge_in(folder: Path, function: str = "judge", timeout_s: float = 30) -> Judge:
    """Return the judge of a folder."""
    script = folder / "tools" / "judge.py"
    return Judge(script=script, function=function, timeout_s=timeout_s)


@pytest.fixture
def process(folder: Path) -> Iterator[JudgeProcess]:
    """Return a running judge."""
    with JudgeProcess(judge_in(folder), folder / "work") as started:
        yield started


def ask(process: JudgeProcess, case: str) -> Opinion:
    """Return what is said of a case that is named like what it makes the judge do."""
    return process.ask({"case": case, "inputs": {}})


def test_an_answer_is_an_opinion(process: JudgeProcess) -> None:
    """It gets the case whole, and an empty standard input."""
    found = ask(process, "echo")
    assert found == Opinion(outcome=Outcome.PASS, evidence="['case', 'inputs']")
    assert ask(process, "fine") == Opinion(outcome=Outcome.INCONCLUSIVE, evidence="so")
    assert len(ask(process, "long").evidence) == 1000


def test_numbers_of_numpy_are_numbers(process: JudgeProcess) -> None:
    """Judges compute with it."""
    found = ask(process, "numpy")
    assert (found.outcome, found.measured, found.limit) == (Outcome.FAIL, 0.5, 1.0)


@pytest.mark.parametrize(
    "case",
    ["none", "text", "bool", "empty", "silent", "unknown", "outcome", "upper", "list", "nan",
     "huge", "number", "truth", "object", "surrogate", "raise", "no such answer"],
)  # fmt: skip
def test_any_other_answer_is_inconclusive(process: JudgeProcess, case: str) -> None:
    """And the next case is judged all the same."""
    found = ask(process, case)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.evidence.startswith("no judgement: ")
    json.dumps(found.evidence).encode("utf-8")
    assert ask(process, "fine").evidence == "so"


def test_an_exception_says_its_words(process: JudgeProcess) -> None:
    """The judge's own."""
    assert "ValueError: no such word" in ask(process, "raise").evidence


@pytest.mark.parametrize(
    ("case", "said"), [("exit", "status 3"), ("exit", "last words"), ("die", "SIGABRT")]
)
def test_a_judge_that_dies_costs_its_case(process: JudgeProcess, case: str, said: str) -> None:
    """Its last words are kept; a fresh process takes the next case."""
    assert ask(process, "fine").evidence == "so"
    found = ask(process, case)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert said in found.evidence
    assert ask(process, "fine").evidence == "so"


def test_a_judge_that_hangs_is_ended(folder: Path) -> None:
    """Two of them are enough to know: each costs a whole time limit."""
    with JudgeProcess(judge_in(folder, timeout_s=0.5), folder / "work") as process:
        for _ in range(2):
            found = ask(process, "hang")
            assert found.outcome is Outcome.INCONCLUSIVE
            assert "within 0.5 s" in found.evidence
        assert "given up" in ask(process, "hang").evidence


def test_a_judge_that_always_dies_is_given_up(process: JudgeProcess) -> None:
    """Ten processes are enough to know."""
    for _ in range(10):
        assert "exited with status 3" in ask(process, "exit").evidence
    assert "given up" in ask(process, "fine").evidence


def test_it_runs_apart_from_us(
    folder: Path, process: JudgeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its folder, with its neighbours importable, without our secrets; it leaves nothing."""
    before = set(sys.modules)
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    evidence = ask(process, "place").evidence
    assert str(folder / "work") in evidence
    assert "imported" in evidence
    assert "PATH" in evidence
    assert "GITHUB_TOKEN" not in evidence
    assert "judge" not in set(sys.modules) - before
    assert not list(folder.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("text", "function", "said"),
    [
        (None, "judge", "no such script judge.py"),
        ("def judge(:\n", "judge", "SyntaxError"),
        ("import no_such_module\n", "judge", "no_such_module"),
        ("x = 1\n", "judge", "judge"),
        ("judge = 1\n", "judge", "not callable"),
        ("raise SystemExit(4)\n", "judge", "status 4"),
    ],
)
def test_a_judge_that_cannot_be_loaded_is_inconclusive(
    folder: Path, text: str | None, function: str, said: str
) -> None:
    """For every case."""
    script = folder / "tools" / "judge.py"
    script.unlink()
    if text is not None:
        script.write_text(text, encoding="utf-8")
    with JudgeProcess(judge_in(folder, function), folder / "work") as process:
        for _ in range(2):
            found = ask(process, "fine")
            assert found.outcome is Outcome.INCONCLUSIVE
            assert said in found.evidence


def test_a_judge_reads_plain_files(folder: Path) -> None:
    """What it needs is NumPy."""
    np.save(folder / "a.npy", np.arange(3))
    (folder / "tools" / "judge.py").write_text(
        "import numpy as np\n"
        "def total(case):\n"
        "    value = np.load(case['candidate']['y']).sum()\n"
        "    return {'outcome': 'fail', 'evidence': 'sum', 'measured': value, 'limit': 1}\n",
        encoding="utf-8",
    )
    with JudgeProcess(judge_in(folder, "total"), folder / "work") as process:
        found = process.ask({"candidate": {"y": str(folder / "a.npy")}})
    assert found == Opinion(outcome=Outcome.FAIL, evidence="sum", measured=3.0, limit=1.0)
