"""Of every fault of the corpus the true node is named, and what is handed over shows it again.

Each case is searched once, on its stored inputs; the tests look at what came of it. Where a tool
made the candidate's model, the nodes named are the original's. Scripts run in environments that are
made for these tests and have nothing but the runtime.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.catalogue import Case, cases
from tests.integration.support.corpus_command import missing_for, words_of
from tests.integration.support.diff_command import diff
from tests.integration.support.reproduction_script import lines, run_script

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        platform.machine().lower() not in {"x86_64", "amd64"},
        reason="the corpus was observed on x86-64: kernels of other processors lack some faults",
    ),
]

CASES = tuple(case for case in cases() if case.regression and case.kind != "latency")
# What goes wrong only as the candidate optimizes it, and the optimization where it has a name.
FUSED: Mapping[str, tuple[str, ...] | None] = {
    "cast-f32-i32-bool": None,
    "cast-f64-f32-f64": None,
    "cast-mul-one-invalid-graph": ("CastElimination",),
    "layernorm-fusion-precision": ("LayerNormFusionL2",),
    "pad-avgpool-fusion": ("Pad_Fusion",),
    "pad-avgpool-fusion-upgrade": ("Pad_Fusion",),
    "qdq-resize-linear": ("QDQSelectorActionTransformer",),
    "qlinearconv-per-channel-output": ("QDQSelectorActionTransformer",),
}
# One node is named, or it and what was merged with it: these many beside the true ones at most.
MOST_BESIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A fault of the corpus, and what the search said of it."""

    case: Case
    found: Mapping[str, Any]
    reproductions: Path

    @property
    def named(self) -> list[str]:
        """The names of the baseline's nodes."""
        return [node["name"] for node in self.found["nodes"]]


@pytest.fixture(scope="module", params=CASES, ids=attrgetter("name"))
def located(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Located:
    """Compare the two sides of a case and let the search follow the fault."""
    case: Case = request.param
    if missing := missing_for(case):
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp(case.name)
    model, inputs = case.build(folder)
    words = words_of(case, model, inputs)
    repros = folder / "repros"
    result = diff(folder, *words, "--inputs", str(inputs), "--repro-dir", str(repros))
    assert result.code == 1
    (found,) = result.report["divergences"]
    return Located(case=case, found=found, reproductions=repros)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for environments that holds none."""
    return tmp_path_factory.mktemp("fresh")


def test_the_true_node_is_named(located: Located) -> None:
    """Alone, or with what cannot be told apart from it."""
    true = set(located.case.guilty)
    assert true & set(located.named), located.found["sentence"]
    assert len(set(located.named) - true) <= MOST_BESIDE, located.found["sentence"]


def test_a_fusion_is_told_from_a_node(located: Located) -> None:
    """With the optimization that makes it; nothing is left as a bracket."""
    name = located.case.name
    if name not in FUSED:
        assert located.found["conclusion"] == "here"
        return
    optimizers = FUSED[name]
    assert located.found["conclusion"] == "fused"
    assert located.found["optimizers"] == (optimizers and list(optimizers))


def test_what_is_handed_over_reproduces_in_a_fresh_environment(
    located: Located, fresh: Path
) -> None:
    """By its own script: the candidate's runtime shows the fault, the baseline's does not."""
    case = located.case
    assert located.found["reproduction"], located.found["sentence"]
    folder = located.reproductions / located.found["reproduction"]
    faulty = run_script(folder, case.candidate.requirement, fresh)
    assert faulty.returncode == 1, faulty
    assert lines(faulty)[-1].startswith("fault reproduced: ")
    sound = run_script(folder, case.baseline.requirement, fresh, "--side", "baseline")
    assert sound.returncode == 0, sound
    assert lines(sound)[-1].startswith("no fault: ")
