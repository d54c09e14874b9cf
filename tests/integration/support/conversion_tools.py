"""Conversion tools of the corpus, each in an environment of its own; kept in the test cache.

Each is pinned to the version that a fault was observed in, with what it was observed beside: what a
tool does depends on the onnx and the NumPy it imports.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_parity.base.process import run, worker_environment
from ci_parity.run.requirement_environments import provide
from tests.integration.support.diff_command import environments

LIMIT_S = 120.0
_SCRIPT = Path(__file__).with_name("conversion_script.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pins:
    """What a tool's environment holds, and the last Python that all of it has wheels for."""

    packages: tuple[str, ...]
    last_python: tuple[int, int] = (3, 13)


_TOOLS: Mapping[str, _Pins] = {
    "onnxscript.rewrite 0.7.0": _Pins(
        packages=("onnxscript==0.7.0", "onnx-ir==1.1.0", "onnx==1.23.2", "numpy==2.2.6")
    ),
    "onnx.version_converter 1.23.2": _Pins(packages=("onnx==1.23.2", "numpy==2.2.6")),
    "onnxoptimizer 0.4.2": _Pins(packages=("onnxoptimizer==0.4.2", "onnx==1.19.1", "numpy==2.2.6")),
    # Without an onnxruntime it installs one when it is imported.
    "onnxsim 0.6.5": _Pins(
        packages=("onnxsim==0.6.5", "onnxruntime==1.23.2", "onnx==1.19.1", "numpy==2.2.6")
    ),
    "ort.quantize_static 1.19.2": _Pins(
        packages=("onnxruntime==1.19.2", "onnx==1.16.2", "numpy==1.26.4", "sympy==1.13.3"),
        last_python=(3, 12),
    ),
}


def lacks_tool(tool: str) -> str:
    """Say why a tool cannot be installed under this Python; empty if it can, or is none."""
    here = sys.version_info[:2]
    if not tool or here <= _TOOLS[tool].last_python:
        return ""
    return f"{tool} has no wheels for Python 3.{here[1]}: run with an older Python"


def convert(tool: str, options: Mapping[str, Any], model: Path, inputs: Path, target: Path) -> None:
    """Write what a tool makes of a model.

    Args:
        tool: name and version, as the corpus has them.
        options: what it is told.
        model: the original; left as it is.
        inputs: an .npz file, which a tool that calibrates does so with.
        target: the transformed model.
    """
    name, _, _ = tool.partition(" ")
    words = (_python(tool), _SCRIPT, name, model, target, inputs, json.dumps(dict(options)))
    done = run(words, env=worker_environment(), timeout_s=LIMIT_S, cwd=target.parent)
    assert done.returncode == 0, f"{tool}: {done.last_words}"


def _python(tool: str) -> Path:
    """Return the interpreter of a tool's environment, built at most once."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text("\n".join(_TOOLS[tool].packages) + "\n", encoding="utf-8")
        return provide(requirements, root=Path(folder), cache=environments()).python
