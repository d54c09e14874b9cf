"""The source of a deployment, as ci-parity.yml names it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.load import load_deployment
from ci_parity.config.systems import Source

ENTRY = {"entry": "tools/reference.py:predict", "framework": "pytorch"}


def loaded(folder: Path, **source: Any) -> Source | None:
    """Load a config with that source."""
    path = folder / "ci-parity.yml"
    value: dict[str, Any] = {
        "version": 1, "variants": {"exported": {"path": "m.onnx"}}, "fixtures": "f",
    }  # fmt: skip
    if source:
        value["source"] = source
    path.write_text(json.dumps(value), encoding="utf-8")
    return load_deployment(path).source


def test_a_source_is_read_whole(tmp_path: Path) -> None:
    """Paths are below the root; what is not said has its default."""
    assert loaded(tmp_path) is None
    entry = tmp_path / "tools" / "reference.py"
    assert loaded(tmp_path, **ENTRY) == Source(entry=entry, function="predict", framework="pytorch")
    assert loaded(
        tmp_path, **ENTRY, requires="r.txt", checkpoint="models/w.pt", allow_onnx=True
    ) == Source(
        entry=entry, function="predict", framework="pytorch", requires=tmp_path / "r.txt",
        checkpoint=tmp_path / "models" / "w.pt", allow_onnx=True,
    )  # fmt: skip
    named = loaded(tmp_path, **ENTRY, python="/usr/bin/python3")
    assert named is not None
    assert named.python == "/usr/bin/python3"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"framework": "x"}, "'entry' is a required property"),
        ({"entry": "a.py:f"}, "'framework' is a required property"),
        (ENTRY | {"entry": "tools.reference:predict"}, "does not match"),
        (ENTRY | {"entry": "a.py"}, "does not match"),
        (ENTRY | {"entry": "a.py:f()"}, "does not match"),
        (ENTRY | {"entry": "a.py:f\n"}, "does not match"),
        (ENTRY | {"entry": "C:a.py:f"}, "does not match"),
        (ENTRY | {"framework": ""}, "does not match"),
        (ENTRY | {"framework": "a\nb"}, "does not match"),
        (ENTRY | {"checkpoints": "w.pt"}, "did you mean 'checkpoint'?"),
        (ENTRY | {"allow_onnx": "yes"}, "is not of type 'boolean'"),
        (ENTRY | {"entry": "../a.py:f"}, "leaves the deployment's folder"),
        (ENTRY | {"checkpoint": "/w.pt"}, "leaves the deployment's folder"),
        (ENTRY | {"requires": "../r.txt"}, "leaves the deployment's folder"),
        (ENTRY | {"requires": "r.txt", "python": "python3"}, "both an environment to build"),
    ],
)
def test_a_wrong_source_is_refused(tmp_path: Path, source: dict[str, Any], said: str) -> None:
    """With its place and the way out."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, **source)
    assert said in str(caught.value)
    assert "source" in str(caught.value)
    assert caught.value.remedy
