from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.decisions import (
    Columns,
    Cosine,
    Decision,
    Detections,
    Divergence,
    Judge,
    NearTies,
    Text,
    Threshold,
    TopK,
)
from ci_parity.config.load import load_deployment, policy

SHOWN = NearTies(margin=None, fail=False)
FULL = """\
version: 1
variants: {exported: {path: m.onnx}}
fixtures: cases
policy:
  decisions:
    probs:
      top_k: {k: 5, axis: 1, order: true, max_flips: 2, near_tie: 1e-3, near_ties: fail,
        labels: names.txt}
      kl: {max: 0.001, axis: 1, softmax: true}
    score: {threshold: {at: 0.5, labels: names.json}}
    vector: {cosine: {min: 0.999}}
    boxes:
      detections: {scores: s, classes: c, count: n, per_row: [masks], format: cxcywh, iou: 0.6,
        score: 0.25, max_unmatched: 1, max_score_change: 0.1}
    packed: {detections: {columns: {box: 1, score: 6, class: 5, image: 0}}}
    ctc:
      text: {decode: ctc, blank: 96, alphabet: dict.txt, append_space: true, max_edit_distance: 1}
    wer: {judge: {entry: "tools/judge.py:word_error_rate", timeout_s: 9}}
"""


def decisions(words: Any, root: Path = Path()) -> Any:
    """Return decisions built from plain values."""
    return policy({"decisions": words}, root).decisions


def test_every_key_arrives_where_it_belongs(tmp_path: Path) -> None:
    """With defaults for those that are not written."""
    (tmp_path / "ci-parity.yml").write_text(FULL, encoding="utf-8")
    found = load_deployment(tmp_path / "ci-parity.yml").policy.decisions
    assert found["probs"] == Decision(
        top_k=TopK(
            k=5, axis=1, ordered=True, max_flips=2, near=NearTies(margin=1e-3, fail=True),
            labels=tmp_path / "names.txt",
        ),
        kl=Divergence(max_nats=0.001, axis=1, softmax=True),
    )  # fmt: skip
    assert found["score"].threshold == Threshold(
        at=0.5, axis=-1, max_flips=0, near=SHOWN, labels=tmp_path / "names.json"
    )
    assert found["vector"].cosine == Cosine(minimum=0.999, axis=-1)
    assert found["boxes"].detections == Detections(
        box_format="cxcywh", scores="s", classes="c", count="n", per_row=("masks",), columns=None,
        iou=0.6, score=0.25, max_unmatched=1, max_score_change=0.1, near=SHOWN, labels=None,
    )  # fmt: skip
    assert found["packed"].detections == Detections(
        box_format="xyxy", scores="", classes="", count="", per_row=(),
        columns=Columns(box=1, score=6, label=5, image=0), iou=0.5, score=None, max_unmatched=0,
        max_score_change=None, near=SHOWN, labels=None,
    )  # fmt: skip
    assert found["ctc"].text == Text(
        decode="ctc", axis=-1, time_axis=-2, blank=96, end=None, alphabet=tmp_path / "dict.txt",
        append_space=True, max_edit_distance=1, near=SHOWN,
    )  # fmt: skip
    script = tmp_path / "tools" / "judge.py"
    assert found["wer"].judge == Judge(script=script, function="word_error_rate", timeout_s=9)
    files = [path for decision in found.values() for path in decision.files]
    names = ["names.txt", "names.json", "dict.txt", "judge.py"]
    assert [path.name for path in files] == names


def test_argmax_is_what_is_left_of_top_k() -> None:
    """No key is needed."""
    found = decisions({"y": {"top_k": {}}})["y"].top_k
    assert found == TopK(k=1, axis=-1, ordered=False, max_flips=0, near=SHOWN, labels=None)


def test_no_decision_is_the_default() -> None:
    """Then the tensors alone decide."""
    assert policy({}).decisions == {}


def test_a_detections_decision_names_the_outputs_of_its_rows() -> None:
    """The boxes first, each once."""
    words = {"scores": "s", "classes": "c", "count": "n", "per_row": ["m", "s"]}
    found = decisions({"b": {"detections": words}})["b"].detections
    assert found.outputs("b") == ("b", "s", "c", "m")


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"topk": {}},
        {"top_k": {"k": 0}},
        {"top_k": {"near_ties": "pass"}},
        {"threshold": {}},
        {"kl": {"max": -1}},
        {"cosine": {"min": 2}},
        {"detections": {"iou": 0}},
        {"detections": {"format": "xyz"}},
        {"detections": {"columns": {"box": -1}}},
        {"text": {}},
        {"text": {"decode": "beam"}},
        {"judge": {}},
        {"judge": {"entry": "tools.judge:judge"}},
        {"judge": {"entry": "judge.py:not a name"}},
        {"judge": {"entry": "judge.py"}},
        {"judge": {"entry": "a.py:f", "timeout_s": 0}},
    ],
    ids=str,
)
def test_what_the_schema_does_not_know_is_refused(words: Any) -> None:
    """Each with its place."""
    with pytest.raises(ConfigError, match="problem"):
        decisions({"y": words})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"detections": {"columns": {"score": 4}, "scores": "s"}}, "other outputs cannot too"),
        ({"detections": {"score": 0.5}}, "'score' needs scores"),
        ({"detections": {"columns": {}, "score": 0.5}}, "'score' needs scores"),
        ({"detections": {"max_score_change": 0.5}}, "'max_score_change' needs scores"),
        ({"text": {"decode": "ctc", "axis": -1, "time_axis": -1}}, "along one axis"),
        ({"top_k": {"labels": "../names.txt"}}, "leaves the deployment's folder"),
        ({"threshold": {"at": 0, "labels": "/names.txt"}}, "leaves the deployment's folder"),
        ({"detections": {"labels": "../names.txt"}}, "leaves the deployment's folder"),
        ({"text": {"decode": "ids", "alphabet": "../dict.txt"}}, "leaves the deployment's folder"),
        ({"judge": {"entry": "../judge.py:judge"}}, "leaves the deployment's folder"),
    ],
    ids=str,
)
def test_keys_that_do_not_go_together_are_refused(words: Any, said: str, tmp_path: Path) -> None:
    """And files outside the repository; with the JSON path."""
    with pytest.raises(ConfigError, match=said) as caught:
        decisions({"y": words}, tmp_path)
    assert caught.value.where.startswith("$.policy.decisions.y.")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Wherever it leads."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "names.txt").write_text("a", encoding="utf-8")
    (inside / "names.txt").symlink_to(tmp_path / "names.txt")
    with pytest.raises(ConfigError, match="leaves"):
        decisions({"y": {"top_k": {"labels": "names.txt"}}}, inside)
