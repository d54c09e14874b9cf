"""The cases of the corpus as records, and the files a case is run from.

A case's model and inputs are built when they are needed, by its own ``build.py``; nothing binary is
committed. What is run, on which environments, and what must come of it is the tests' to say.
"""

import json
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CASES = Path(__file__).with_name("cases")
_LEVELS = {
    "disable": "disable_all",
    "basic": "enable_basic",
    "extended": "enable_extended",
    "all": "enable_all",
}
_OPTIONS = {"level", "threads", "repeat"}
# The packages that runtimes of the corpus come in.
_PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "onnx.reference": "onnx"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a case: its runtime, and the tool that transforms the model first, if any."""

    runtime: str
    version: str
    options: Mapping[str, Any]
    tool: str
    tool_options: Mapping[str, Any]

    @property
    def requirement(self) -> str:
        """The runtime as the command takes it."""
        return f"{_PACKAGES[self.runtime]}=={self.version}"

    @property
    def session_options(self) -> tuple[str, ...]:
        """The options as NAME=VALUE; every case was observed with one thread unless it says so."""
        if self.runtime == "onnx.reference":
            return ()
        threads = f"intra_op_num_threads={self.options.get('threads', 1)}"
        if self.runtime == "openvino":
            return (threads,)
        return f"graph_optimization_level={_LEVELS[self.options.get('level', 'all')]}", threads

    @property
    def repeat(self) -> int:
        """How often the case was run on this side."""
        return int(self.options.get("repeat", 1))

    @property
    def lacking(self) -> str:
        """What it takes to run this side and the command does not have; empty if it has it all."""
        if self.runtime not in _PACKAGES:
            return f"runtime {self.runtime} {self.version}: there is no worker for it"
        unknown = sorted(self.options.keys() - _OPTIONS)
        return f"options {', '.join(unknown)}: diff has no flag for them" if unknown else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: two sides, what was expected of the pair, and the kinds of check that saw it.

    `guilty` are the nodes at fault, the most precise answer first; empty where it is not known.
    """

    name: str
    kind: str
    regression: bool
    baseline: Side
    candidate: Side
    detected_by: tuple[str, ...]
    guilty: tuple[str, ...]

    @property
    def lacking(self) -> str:
        """What it takes to run this case and the command does not have."""
        return self.baseline.lacking or self.candidate.lacking

    def build(self, folder: Path) -> tuple[Path, Path]:
        """Write the model and its inputs below ``folder`` and return both paths."""
        model, feeds = runpy.run_path(str(CASES / self.name / "build.py"))["build"]()
        paths = folder / "model.onnx", folder / "inputs.npz"
        paths[0].write_bytes(model.SerializeToString(deterministic=True))
        np.savez(paths[1], **feeds)
        return paths


def cases() -> Iterator[Case]:
    """Yield every case in the order of its name."""
    for path in sorted(CASES.glob("*/case.json")):
        raw = json.loads(path.read_text(encoding="utf-8"))
        node = raw.get("bad_node") or {}
        yield Case(
            name=raw["id"],
            kind=raw["kind"],
            regression=raw["expected"] == "regression",
            baseline=_side(raw["base"]),
            candidate=_side(raw["candidate"]),
            detected_by=tuple(raw["observed"]["detected_by"]),
            guilty=(node["name"], *node.get("also", ())) if node else (),
        )


def _side(raw: Mapping[str, Any]) -> Side:
    tool = raw.get("transform", {})
    return Side(
        runtime=raw["runtime"],
        version=raw["version"],
        options=raw["options"],
        tool=f"{tool['tool']} {tool['version']}" if tool else "",
        tool_options=tool.get("options", {}),
    )
