"""Ten thousand edits of each sort on random graphs: which change a digest, and which do not."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from ci_parity.detect.model import facts_of
from ci_parity.detect.model_changes import MAX_SENTENCES, explain_models
from ci_parity.records.model_facts import GraphFacts, ModelFacts
from tests.unit.detect.model_edits_harmful import HARMFUL
from tests.unit.detect.model_edits_harmless import HARMLESS, Chance
from tests.unit.detect.model_graphs import random_model, seeded
from tests.unit.detect.model_terms import Terms

GRAPHS = 250
EDITS = 40
SAME_TOPOLOGY = {"weight_bit", "swapped_weights", "function_weight"}


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that can be edited."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied


def meaning(facts: ModelFacts) -> GraphFacts:
    """Return the graph, which was asked for."""
    assert facts.graph is not None
    return facts.graph


def contents(graph: GraphFacts) -> Counter[tuple[str, tuple[int, ...], str]]:
    """Return the weights in use, without names."""
    return Counter((w.dtype, w.shape, w.sha256) for w in graph.weights if w.used)


def run(model: onnx.ModelProto, folder: Path) -> list[np.ndarray]:
    """Run a model as it stands, every runtime optimization off."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in model.graph.input]
    values = np.random.default_rng(0).uniform(0.5, 2, (len(names), 2, 4)).astype(np.float32)
    return list(session.run(None, dict(zip(names, values, strict=True))))


@pytest.mark.parametrize("part", range(5))
def test_ten_thousand_harmless_edits_never_change_the_meaning(part: int, tmp_path: Path) -> None:
    """Names, order, docs, storage and unused parts leave topology, meaning and weights alone."""
    for seed in range(part, GRAPHS, 5):
        model = random_model(seed)
        before = facts_of(model, tmp_path)
        for number in range(EDITS):
            rng = seeded(seed * EDITS + number)
            names = rng.sample(sorted(HARMLESS), rng.randint(1, 4))
            edited = copy_of(model)
            for name in names:
                HARMLESS[name](edited, Chance(rng, tmp_path))
            after = facts_of(edited, tmp_path)
            where = f"graph {seed}, edit {number}: {names}"
            assert meaning(after).topology_sha256 == meaning(before).topology_sha256, where
            assert meaning(after).semantic_sha256 == meaning(before).semantic_sha256, where
            assert contents(meaning(after)) == contents(meaning(before)), where
            words = explain_models(before, after)
            assert "equal" in words[0], where
            assert len(words) <= MAX_SENTENCES, where


@pytest.mark.parametrize("part", range(5))
def test_ten_thousand_harmful_edits_always_change_the_meaning(part: int, tmp_path: Path) -> None:
    """What an independent reading calls another meaning changes the digest, and has words."""
    kinds: Counter[str] = Counter()
    for seed in range(part, GRAPHS, 5):
        model = random_model(seed)
        before = facts_of(model, tmp_path)
        terms = Terms()
        unchanged = terms.meaning(model)
        rng = seeded(seed)
        made = 0
        while made < EDITS:
            name = rng.choice(sorted(HARMFUL))
            edited = copy_of(model)
            if not HARMFUL[name](edited, rng) or terms.meaning(edited) == unchanged:
                continue
            made += 1
            kinds[name] += 1
            after = facts_of(edited, tmp_path)
            where = f"graph {seed}, edit {made}: {name}"
            assert meaning(after).semantic_sha256 != meaning(before).semantic_sha256, where
            kept = meaning(after).topology_sha256 == meaning(before).topology_sha256
            assert kept == (name in SAME_TOPOLOGY), where
            words = explain_models(before, after)
            assert 0 < len(words) <= MAX_SENTENCES, where
            assert "equal" not in words[0], where
    assert kinds.keys() == HARMFUL.keys()
    assert sum(kinds.values()) == EDITS * GRAPHS / 5
    assert min(kinds.values()) >= 10


def test_the_random_graphs_are_models_and_harmless_edits_keep_their_outputs(tmp_path: Path) -> None:
    """A runtime accepts them, and computes the same bits before and after all edits at once."""
    for seed in range(60):
        model = random_model(seed)
        onnx.checker.check_model(model, full_check=True)
        expected = run(model, tmp_path)
        edited = copy_of(model)
        rng = seeded(seed)
        for name in sorted(HARMLESS):
            HARMLESS[name](edited, Chance(rng, tmp_path))
        for before, after in zip(expected, run(edited, tmp_path), strict=True):
            np.testing.assert_array_equal(before, after)
