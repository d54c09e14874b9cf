"""What oracles that agree, disagree or say nothing come to."""

from pathlib import Path

import numpy as np
import pytest

from ci_parity.coverage.inference import whole_of
from ci_parity.coverage.made.make import drafts_of
from ci_parity.coverage.signatures import sightings_of
from ci_parity.stages.coverage.oracles import Answer, Court, Settled
from tests.support.single_nodes import one_node

FIRST, SECOND, THIRD = "reference", "onnxruntime", "openvino"


def settled(folder: Path, *answers: tuple[str, float | None]) -> Settled:
    """Return what oracles' answers to one test come to; None is an oracle that cannot answer."""
    (draft,), _ = drafts_of(sightings_of(whole_of(one_node("Tanh", {"x": [3]}))))
    court = Court({draft.id: draft}, folder)
    given = [
        Answer(oracle=name, trouble="no kernel")
        if value is None
        else Answer(oracle=name, outputs={"y0": np.full(3, value, np.float32)})
        for name, value in answers
    ]
    return court.settled(draft.id, given)


def test_two_that_agree_settle_it(tmp_path: Path) -> None:
    """Within the test's own tolerance; the first one's numbers count."""
    found = settled(tmp_path, (FIRST, 0.5), (SECOND, 0.5000001))
    assert (found.oracle, found.disputed) == ("reference and onnxruntime", "")
    assert np.asarray(found.outputs["y0"])[0] == 0.5
    assert 0 < found.rtol < 1e-5


@pytest.mark.parametrize(
    ("values", "wanted", "words"),
    [
        ((0.5, 0.6, 0.5), 0.5, "reference and openvino, against onnxruntime"),
        ((0.5, 0.6, 0.6), 0.6, "onnxruntime and openvino, against reference"),
    ],
)
def test_the_third_one_decides(
    values: tuple[float, ...], wanted: float, words: str, tmp_path: Path
) -> None:
    """Whoever stands alone is outvoted, and named."""
    found = settled(tmp_path, *zip((FIRST, SECOND, THIRD), values, strict=True))
    assert (found.oracle, found.disputed) == (words, "")
    assert np.asarray(found.outputs["y0"])[0] == np.float32(wanted)


def test_three_opinions_are_a_dispute(tmp_path: Path) -> None:
    """It says what each gave against each."""
    found = settled(tmp_path, (FIRST, 0.5), (SECOND, 0.6), (THIRD, 0.7))
    assert "reference against onnxruntime" in found.disputed
    assert "onnxruntime against openvino" in found.disputed


def test_two_without_a_third_are_a_dispute(tmp_path: Path) -> None:
    """Nobody is taken at his word where another contradicts."""
    assert settled(tmp_path, (FIRST, 0.5), (SECOND, 0.6)).disputed


def test_one_alone_is_said_to_be_alone(tmp_path: Path) -> None:
    """Why the other one is silent is said too."""
    found = settled(tmp_path, (FIRST, 0.5), (SECOND, None))
    assert found.oracle == "reference alone; onnxruntime cannot say: no kernel"
    assert not found.disputed


def test_none_is_no_test(tmp_path: Path) -> None:
    """Without any answer there is nothing to compare with."""
    found = settled(tmp_path, (FIRST, None), (SECOND, None))
    assert "reference cannot say" in found.trouble
    assert not found.outputs
