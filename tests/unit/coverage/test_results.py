"""Results of node tests from one run to the next."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.coverage.results import KeptResult, KeptResults, System
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult
from tests.support.node_cases import node_case

SYSTEM = System(
    label="onnxruntime==1.32.0", environment="e1", worker="w1", provider="CPUExecutionProvider",
    options="{}", host={"cpu.features": "avx2"},
)  # fmt: skip
FAILED = "y: 1 of 2 elements differ; „far“"


@pytest.fixture
def cases(tmp_path: Path) -> list[NodeCase]:
    """Return three cases."""
    return [node_case(tmp_path / "suite", name, {"y": np.array([1.0])}) for name in "abc"]


def result(case: NodeCase, outcome: NodeOutcome, evidence: str = "") -> KeptResult:
    """Return the result of a case."""
    shown = NodeResult(case=case.id, outcome=outcome, evidence=evidence)
    return KeptResult(digest=case.digest, result=shown)


def kept(folder: Path, **changes: Any) -> KeptResults:
    """Return the kept results of a system."""
    return KeptResults(folder, replace(SYSTEM, **changes))


@pytest.fixture
def folder(tmp_path: Path, cases: list[NodeCase]) -> Path:
    """Return a folder in which one pass, one failure and one refusal are kept."""
    outcomes = (NodeOutcome.PASS, NodeOutcome.FAIL, NodeOutcome.REFUSED)
    pairs = zip(cases, outcomes, ("", FAILED, "no kernel"), strict=True)
    kept(tmp_path / "kept").add([result(*pair) for pair in pairs])
    return tmp_path / "kept"


def test_what_was_found_is_known(folder: Path, cases: list[NodeCase]) -> None:
    """Outcome and words, to the letter."""
    known = kept(folder).known(cases)
    assert [known[case.id].outcome.value for case in cases] == ["pass", "fail", "refused"]
    assert known[cases[1].id].evidence == FAILED


@pytest.mark.parametrize(
    "change",
    [
        {"environment": "e2"}, {"worker": "w2"}, {"provider": "CUDAExecutionProvider"},
        {"options": '{"a":1}'}, {"host": {"cpu.features": "avx512"}},
    ],
)  # fmt: skip
def test_another_system_knows_nothing(
    change: dict[str, Any], folder: Path, cases: list[NodeCase]
) -> None:
    """A bump of the runtime runs everything again."""
    assert kept(folder, **change).known(cases) == {}


def test_another_name_of_a_system_changes_nothing(folder: Path, cases: list[NodeCase]) -> None:
    """Labels are for readers."""
    assert len(kept(folder, label="another").known(cases)) == len(cases)


def test_a_test_that_changed_is_not_known(folder: Path, cases: list[NodeCase]) -> None:
    """Only that one runs again."""
    changed = [replace(cases[0], digest="0" * 64), *cases[1:]]
    assert list(kept(folder).known(changed)) == [case.id for case in cases[1:]]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (NodeOutcome.TIMED_OUT, "no answer to 'run' within 30 s"),
        (NodeOutcome.CRASHED, "the worker took more than 0.5 GiB of memory, and was ended"),
        (NodeOutcome.CRASHED, "the worker was ended by SIGKILL during 'run'"),
        (NodeOutcome.CRASHED, "its outputs cannot be read: No space left on device"),
        (NodeOutcome.FAIL, "it ended with an error: std::bad_alloc"),
    ],
)
def test_what_may_be_the_machines_doing_is_not_kept(
    outcome: NodeOutcome, words: str, tmp_path: Path, cases: list[NodeCase]
) -> None:
    """A loaded machine, a small one, a full disk; the others of the same run are kept."""
    results = kept(tmp_path / "kept")
    results.add(
        [result(cases[0], outcome, words), result(cases[1], NodeOutcome.CRASHED, "SIGSEGV")]
    )
    assert list(results.known(cases)) == [cases[1].id]


def test_what_did_not_reach_the_runtime_is_kept(tmp_path: Path, cases: list[NodeCase]) -> None:
    """It would not the next time either."""
    results = kept(tmp_path / "kept")
    words = "it ran on CPUExecutionProvider, not on CUDAExecutionProvider"
    results.add([result(cases[0], NodeOutcome.SKIPPED, words)])
    assert results.known(cases)[cases[0].id].outcome is NodeOutcome.SKIPPED


@pytest.mark.parametrize("position", range(3))
def test_a_damaged_line_costs_its_test_alone(
    position: int, folder: Path, cases: list[NodeCase]
) -> None:
    """One letter of one line is enough; no line turns into another result."""
    file = kept(folder).file
    lines = [line for line in file.read_bytes().splitlines() if line]
    for at in range(len(lines[position])):
        line = bytearray(lines[position])
        line[at] ^= 1
        file.write_bytes(b"\n".join((*lines[:position], bytes(line), *lines[position + 1 :])))
        known = kept(folder).known(cases)
        assert set(known) == {case.id for case in cases} - {cases[position].id}


def test_a_line_that_was_cut_short_spares_the_next(folder: Path, cases: list[NodeCase]) -> None:
    """A run that was ended while it wrote."""
    file = kept(folder).file
    file.write_bytes(file.read_bytes().rstrip(b"\n")[:-20])
    kept(folder).add([result(cases[2], NodeOutcome.PASS)])
    known = kept(folder).known(cases)
    assert [known[case.id].outcome.value for case in cases] == ["pass", "fail", "pass"]


def test_the_last_word_counts(folder: Path, cases: list[NodeCase]) -> None:
    """A test that was run anew."""
    kept(folder).add([result(cases[0], NodeOutcome.FAIL)])
    assert kept(folder).known(cases)[cases[0].id].outcome is NodeOutcome.FAIL


def test_a_folder_that_cannot_be_written_costs_nothing(
    tmp_path: Path, cases: list[NodeCase], caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on; the next one starts from nothing."""
    (tmp_path / "file").write_text("")
    results = kept(tmp_path / "file")
    results.add([result(cases[0], NodeOutcome.PASS)])
    assert results.known(cases) == {}
    assert "not kept" in caplog.text
