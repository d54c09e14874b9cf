"""Generated node tests end to end: models in, tests settled by real oracles out."""

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ci_parity.base.progress import PlainProgress
from ci_parity.coverage.signatures import used
from ci_parity.records.coverage import NodeCase
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.values import Value, read_value, write_value
from ci_parity.stages.coverage.made import made_cases, reached_by
from ci_parity.stages.coverage.observing import sightings_with_cases
from tests.integration.support.diff_command import environments
from tests.integration.support.published_models import PublishedModel, published_models
from tests.support.single_nodes import one_node

PROGRESS = PlainProgress()


@functools.cache
def published() -> Mapping[str, PublishedModel]:
    """Return the published models by name."""
    return {model.name: model for model in published_models()}


def input_set(folder: Path, *cases: Mapping[str, Value]) -> InputSet:
    """Write cases as exchange files."""
    written = [
        CaseInputs(
            case=f"c{at}",
            inputs=tuple(
                write_value(name, value, folder, f"c{at}_{place}")
                for place, (name, value) in enumerate(case.items())
            ),
        )
        for at, case in enumerate(cases)
    ]
    return InputSet(folder=str(folder), source="given", cases=tuple(written))


def output(case: NodeCase) -> np.ndarray:
    """Return the first output that a test must give."""
    return np.asarray(read_value(case.outputs[0], case.folder))


@pytest.mark.parametrize(
    ("shape", "target", "allowzero", "wanted"),
    [((0, 3, 4), [3, 0], 1, (3, 0)), ((2, 3, 4), [0, -1], 0, (2, 12))],
)
def test_a_zero_in_a_target_shape_gets_a_test_of_its_own(
    shape: tuple[int, ...], target: list[int], allowzero: int, wanted: tuple[int, ...],
    tmp_path: Path,
) -> None:  # fmt: skip
    """With `allowzero` it is a zero, without it a copied size: both are reached, and kept."""
    path = tmp_path / "model.onnx"
    model = one_node("Reshape", {"x": shape}, weights={"s": np.array(target)}, allowzero=allowzero)
    path.write_bytes(model.SerializeToString())
    sightings = sightings_with_cases(path, None, progress=PROGRESS)
    cases, reasons = made_cases(sightings, (), cache=tmp_path, progress=PROGRESS, third="")
    assert not reasons
    (asked,) = (one.signature for one in used(sightings))
    assert reached_by(cases, [asked]) == {asked}
    exact = next(case for case in cases if case.id.count("/") == 2)
    assert output(exact).shape == wanted
    assert "onnx==" in exact.oracle
    assert "onnxruntime" in exact.oracle
    again, _ = made_cases(sightings, (), cache=tmp_path, progress=PROGRESS, third="")
    assert again == cases
    assert made_cases(sightings, cases, cache=tmp_path, progress=PROGRESS) == ((), ())


def test_every_signature_of_a_published_model_is_reached(tmp_path: Path) -> None:
    """Magika on its own case: all of its signatures, with real sizes, but for what is disputed."""
    model = published()["magika"]
    inputs = input_set(tmp_path, model.cases[0])
    sightings = sightings_with_cases(model.path, inputs, progress=PROGRESS)
    asked = [one.signature for one in used(sightings)]
    assert all("?" not in port.shape for s in asked for port in s.inputs)
    cases, reasons = made_cases(sightings, (), cache=tmp_path, progress=PROGRESS, third="")
    reached = reached_by(cases, asked)
    assert set(asked) - reached == {signature for signature, _ in reasons}
    # Without a third oracle, GlobalMaxPool of rank 3 stays disputed: the reference evaluator errs.
    assert {signature.op_type for signature, _ in reasons} <= {"GlobalMaxPool"}
    shapes = {sighting.shapes for sighting in sightings if sighting.signature.op_type == "Conv"}
    assert shapes
    assert all(None not in (shape or (None,)) for sizes in shapes for shape in sizes)


def test_branches_that_ran_show_their_sizes(tmp_path: Path) -> None:
    """Silero's two rates take two branches; what neither takes is named, with the reason."""
    model = published()["silero-vad"]
    inputs = input_set(tmp_path, *model.cases[:2])
    sightings = sightings_with_cases(model.path, inputs, progress=PROGRESS)
    unknown = [s for s in sightings if any(p.shape == ("?",) for p in s.signature.inputs)]
    from_graph = sightings_with_cases(model.path, None, progress=PROGRESS)
    without = [s for s in from_graph if any(p.shape == ("?",) for p in s.signature.inputs)]
    assert len(unknown) < len(without)
    assert {s.name for s in sightings} >= {s.name for s in from_graph if "/Conv" in s.name}


def test_a_third_oracle_outvotes_the_reference_evaluator(tmp_path: Path) -> None:
    """It takes the maximum of a GlobalMaxPool of rank 3 over the wrong axes, in onnx 1.23."""
    path = tmp_path / "model.onnx"
    model = one_node("GlobalMaxPool", {"x": [1, 5, 9]})
    path.write_bytes(model.SerializeToString())
    sightings = sightings_with_cases(path, None, progress=PROGRESS)
    cases, _ = made_cases(sightings, (), cache=environments(), progress=PROGRESS)
    (case,) = cases
    assert not case.disputed
    assert output(case).shape == (1, 5, 1)
    assert "against onnx==" in case.oracle
