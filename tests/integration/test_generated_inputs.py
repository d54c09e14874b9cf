"""Without a stored input, inputs made from the graph show the corpus' faults and nothing else.

Of every case only the model is taken, and what a conversion tool made of it where that is the
change; what is fed comes from the baseline's graph.
"""

import platform
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

import pytest

from tests.corpus.catalogue import Case, cases
from tests.integration.support.corpus_command import missing_for, words_of
from tests.integration.support.diff_command import Result, diff, lacks_wheels
from tests.integration.support.published_models import published_models

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        platform.machine().lower() not in {"x86_64", "amd64"},
        reason="the corpus was observed on x86-64: kernels of other processors lack some faults",
    ),
]

CASES = tuple(case for case in cases() if case.kind != "latency")
FAULTS = tuple(case for case in CASES if case.regression)
HARMLESS = tuple(case for case in CASES if not case.regression)
FOUND_AT_LEAST = 0.9
MOST_CASES = 24
OLD, NEW = "onnxruntime==1.20.1", "onnxruntime==1.32.0"
# Classes that show a fault which ordinary numbers do not, one for each family of the corpus.
TELLING: Mapping[str, frozenset[str]] = {
    "layernorm-fusion-precision": frozenset({"offset"}),
    "log-subnormal": frozenset({"subnormal"}),
    "int-div-by-zero": frozenset({"zero-divisor"}),
    "prelu-nan": frozenset({"nan", "infinite"}),
    "topk-nan-order": frozenset({"nan"}),
    "tree-shared-leaf-dag": frozenset({"thresholds", "codes"}),
}


def on_generated_inputs(case: Case, folder: Path) -> Result:
    """Run the two sides of a case on inputs made from its graph."""
    folder.mkdir(exist_ok=True)
    model, inputs = case.build(folder)
    words = words_of(case, model, inputs)
    inputs.unlink()
    return diff(folder, *words, "--no-localise")


def shown_by(result: Result) -> set[str]:
    """Return the cases of the binding failures."""
    return {finding["subject"]["case"] for finding in result.failures}


def test_nine_of_ten_faults_show(tmp_path: Path) -> None:
    """A verdict of fail for each; those that ordinary numbers miss by the class made for them."""
    runnable = [case for case in FAULTS if not missing_for(case)]
    if not runnable:
        pytest.skip(missing_for(FAULTS[0]))
    results = {case.name: on_generated_inputs(case, tmp_path / case.name) for case in runnable}
    missed = sorted(name for name, result in results.items() if result.code != 1)
    assert len(missed) <= (1 - FOUND_AT_LEAST) * len(runnable), missed
    for result in results.values():
        assert result.report["inputs"]["source"] == "generated"
        assert 0 < result.report["inputs"]["count"] <= MOST_CASES
    for name in TELLING.keys() & results.keys() - set(missed):
        assert TELLING[name] <= shown_by(results[name]), name


@pytest.mark.parametrize("case", HARMLESS, ids=attrgetter("name"))
def test_a_harmless_change_stays_harmless(case: Case, tmp_path: Path) -> None:
    """No class of inputs makes two correct systems differ; a refused one is no failure."""
    missing = missing_for(case)
    if missing:
        pytest.skip(missing)
    result = on_generated_inputs(case, tmp_path)
    assert result.failures == []
    assert result.code == 0


@pytest.mark.skipif(bool(lacks_wheels(OLD)), reason=lacks_wheels(OLD))
@pytest.mark.parametrize("name", ["magika", "silero-vad", "ppocr6-rec"])
def test_an_upgrade_of_a_published_model_passes(name: str, tmp_path: Path) -> None:
    """Text, speech and images: open sizes are found that the model runs on."""
    (model,) = (model for model in published_models() if model.name == name)
    words = [str(model.path), "--baseline-runtime", OLD, "--candidate-runtime", NEW]
    result = diff(tmp_path, *words)
    assert result.failures == []
    assert result.code == 0
    compared = {output["case"] for output in result.report["outputs"]}
    assert len(compared) >= result.report["inputs"]["count"] / 2
