"""Real faults are found, harmless changes pass: the corpus through the command, on real runtimes.

Where the change is a conversion tool, the candidate's model is what the tool makes of it. Which
node went wrong is asked in `test_localise_corpus`. Of the latency cases only the numbers are
judged: a timed assertion would fail on busy machines.
"""

import platform
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

import onnx
import pytest

from tests.corpus.catalogue import Case, cases
from tests.integration.support.corpus_command import missing_for, words_of
from tests.integration.support.diff_command import Result, diff

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        platform.machine().lower() not in {"x86_64", "amd64"},
        reason="the corpus was observed on x86-64: kernels of other processors lack some faults",
    ),
]

CASES = tuple(cases())
FAULTS = tuple(case for case in CASES if case.regression and case.kind != "latency")
HARMLESS = tuple(case for case in CASES if not case.regression and case.kind != "latency")
LATENCY = tuple(case for case in CASES if case.kind == "latency")
# What the corpus saw, as findings; every other kind of difference is one of values.
FINDINGS: Mapping[str, frozenset[str]] = {
    "load or run failure": frozenset({"load.error", "case.error"}),
    "process crash": frozenset({"case.crash"}),
}
VALUES = frozenset({"output.values"})


def run_case(case: Case, folder: Path) -> Result:
    """Build a case and run its two sides, or skip it and say what is missing."""
    missing = missing_for(case)
    if missing:
        pytest.skip(missing)
    model, inputs = case.build(folder)
    words = words_of(case, model, inputs)
    return diff(folder, *words, "--inputs", str(inputs), "--no-localise")


@pytest.mark.parametrize("case", FAULTS, ids=attrgetter("name"))
def test_a_fault_fails(case: Case, tmp_path: Path) -> None:
    """The verdict is fail, for what the corpus saw, and each finding names its place."""
    result = run_case(case, tmp_path)
    assert result.code == 1
    assert result.failures
    expected = next((FINDINGS[kind] for kind in case.detected_by if kind in FINDINGS), VALUES)
    outputs = [port.name for port in onnx.load(tmp_path / "model.onnx").graph.output]
    for finding in result.failures:
        assert finding["id"] in expected
        place = finding["subject"]["case"], finding["subject"]["output"]
        if finding["id"] == "output.values":
            assert place in {("inputs", output) for output in outputs}
        else:
            assert place == ("" if finding["id"].startswith("load.") else "inputs", "")


@pytest.mark.parametrize("case", HARMLESS, ids=attrgetter("name"))
def test_a_harmless_change_passes(case: Case, tmp_path: Path) -> None:
    """The verdict is pass, over every output of the case."""
    result = run_case(case, tmp_path)
    assert result.code == 0
    assert result.report["inputs"] == {"source": "given", "count": 1}
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert {o["name"] for o in result.report["outputs"]} == {o.name for o in graph.output}


@pytest.mark.parametrize("case", LATENCY, ids=attrgetter("name"))
def test_a_slower_runtime_computes_the_same(case: Case, tmp_path: Path) -> None:
    """The latency cases differ in speed alone: without timing, the verdict is pass."""
    result = run_case(case, tmp_path)
    assert result.code == 0
    assert result.report["latency"] is None


def test_the_corpus_is_whole() -> None:
    """No case disappears unseen: the folder holds these many, and the command runs them all."""
    assert (len(FAULTS), len(HARMLESS), len(LATENCY)) == (32, 10, 3)
    assert [case.lacking for case in CASES if case.lacking] == []


def test_the_readme_lists_every_case() -> None:
    """The table names each case, in order."""
    text = (Path(__file__).parents[1] / "corpus" / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == [case.name for case in CASES]
