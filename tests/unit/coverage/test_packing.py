"""One node test as a line, carried and written again: whole, or not at all."""

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.coverage.packing import packed, unpacked
from ci_parity.records.coverage import NodeCase
from ci_parity.records.values import read_value
from tests.support.node_cases import node_case


@pytest.fixture
def case(tmp_path: Path) -> NodeCase:
    """Return a case with strings, a sequence and an empty optional beside floats."""
    texts = np.array(["a", "\u00e9"], dtype=object)
    return node_case(
        tmp_path / "suite", "one", {"y": [np.array([1.5], np.float32), texts]},
        {"x": np.array([1, 2], np.float32), "none": None, "s": texts},
    )  # fmt: skip


def test_what_is_unpacked_is_what_was_packed(case: NodeCase, tmp_path: Path) -> None:
    """The model to the byte, the values to the bit, and all that is said of it."""
    data = packed(case)
    assert b"\n" not in data
    assert str(tmp_path).encode() not in data
    made = unpacked(data, tmp_path / "other")
    assert made.model.read_bytes() == case.model.read_bytes()
    for ours, theirs in zip(
        (*case.inputs, *case.outputs), (*made.inputs, *made.outputs), strict=True
    ):  # fmt: skip
        assert ours == theirs
        assert str(read_value(ours, case.folder)) == str(read_value(theirs, made.folder))
    assert (made.digest, made.oracle, made.rtol) == (case.digest, case.oracle, case.rtol)
    assert packed(made) == data


def model_of_another(said: Any) -> None:
    """The model is another one."""
    said["files"]["model.onnx"] = "AAAA"


def other_outputs(said: Any) -> None:
    """What it must give is something else."""
    name = said["case"]["outputs"][0]["items"][0]["file"]
    said["files"][name] = "AAAAAA=="


def no_base64(said: Any) -> None:
    """A file is no base64."""
    said["files"]["model.onnx"] = "!"


def missing(said: Any) -> None:
    """A file that it names is not there."""
    said["files"].popitem()


def more(said: Any) -> None:
    """It brings a file that it does not name."""
    said["files"]["more"] = "AAAA"


def escaping(said: Any) -> None:
    """A name leads elsewhere."""
    record = said["case"]["inputs"][0]
    said["files"]["../../x"] = said["files"].pop(record["file"])
    record["file"] = "../../x"


def looser(said: Any) -> None:
    """Its tolerance is another than its digest says."""
    said["case"]["rtol"] = 1.0


def unknown(said: Any) -> None:
    """It has a key that no case has."""
    said["verdict"] = "pass"


@pytest.mark.parametrize(
    "change",
    [model_of_another, other_outputs, no_base64, missing, more, escaping, looser, unknown],
)
def test_what_is_not_whole_is_refused(
    change: Callable[[Any], None], case: NodeCase, tmp_path: Path
) -> None:
    """Nothing is written outside of its folder."""
    said = json.loads(zlib.decompress(base64.b64decode(packed(case))))
    change(said)
    data = base64.b64encode(zlib.compress(json.dumps(said).encode()))
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(EvidenceError):
        unpacked(data, tmp_path / "a" / "b" / "c")
    assert {path.name for path in tmp_path.iterdir()} <= before | {"a"}


@pytest.mark.parametrize(
    "data",
    [
        b"!", base64.b64encode(b"no stream"), base64.b64encode(zlib.compress(b"{}")[:-1]),
        base64.b64encode(zlib.compress(bytes(33 << 20))),
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_refused(data: bytes, tmp_path: Path) -> None:
    """Garbage, one that was cut off, and one that would fill the memory."""
    with pytest.raises(EvidenceError):
        unpacked(data, tmp_path / "a")


def test_a_large_one_is_not_packed(tmp_path: Path) -> None:
    """It is made again instead."""
    noise = np.random.default_rng(7).random(1_000_000).astype(np.float32)
    large = node_case(tmp_path, "large", {"y": noise})
    with pytest.raises(EvidenceError, match="too large"):
        packed(large)
