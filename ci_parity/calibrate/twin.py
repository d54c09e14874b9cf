"""Writing the perturbed twin of a model, in a process of its own: `python -m ci_parity.calibrate`.

Reading types out of a graph runs ONNX's shape inference, native code over an untrusted model: where
it crashes or does not end, this process is lost and the caller is told.
"""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base import process
from ci_parity.base.errors import CiParityError
from ci_parity.records.noise import Precision

_TIMEOUT_S = 600.0
_ANSWER = "twin.json"
_PACKAGE_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The perturbed twin of a model, and what was read of the graph.

    `model` is None where there is none: because the graph is `exact`, nothing in it rounds, or for
    what `failure` says. `precisions` and `steps` are those of the outputs.
    """

    model: Path | None
    exact: bool = False
    rounding: bool = False
    steps: tuple[tuple[str, float], ...] = ()
    precisions: tuple[tuple[str, Precision], ...] = ()
    failure: str = ""

    @property
    def precision(self) -> Precision:
        """The coarsest effective precision of all outputs."""
        return Precision.coarsest({precision for _, precision in self.precisions})


def make_twin(model: Path, folder: Path, precision: Precision | None) -> Twin:
    """Write the twin of a model into a folder, beside links to its external data.

    Args:
        model: path of the model.
        folder: an empty or new folder.
        precision: the other side's precision where it is coarser than the model's own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    argv = [
        sys.executable, "-P", "-m", "ci_parity.calibrate", str(model.resolve()),
        str(folder.resolve()), precision.value if precision else "",
    ]  # fmt: skip
    env = process.worker_environment({"PYTHONPATH": str(_PACKAGE_ROOT)})
    try:
        done = process.run(argv, env=env, timeout_s=_TIMEOUT_S, cwd=folder)
        if done.returncode != 0:
            words = done.last_words.splitlines() or [f"status {done.returncode}"]
            return Twin(model=None, failure=f"the graph could not be perturbed: {words[-1]}")
        said = json.loads((folder / _ANSWER).read_bytes())
        return Twin(
            model=folder / said["model"] if said["model"] else None,
            exact=said["exact"],
            rounding=said["rounding"],
            steps=tuple((name, float(step)) for name, step in said["steps"].items()),
            precisions=tuple((name, Precision(p)) for name, p in said["precisions"].items()),
            failure=said["failure"],
        )
    except (CiParityError, OSError, ValueError, KeyError) as error:
        return Twin(model=None, failure=str(error) or type(error).__name__)


def write_twin(model: Path, folder: Path, precision: Precision | None) -> dict[str, object]:
    """Write the twin and return what `make_twin` reads; the work of the process."""
    from ci_parity.base.onnx_model import external_files, load_graph
    from ci_parity.calibrate.graph import perturb
    from ci_parity.calibrate.precision import graph_precisions, last_steps, rounds

    graph = load_graph(model)
    said: dict[str, object] = {
        "model": "", "failure": "", "exact": False, "rounding": rounds(graph),
        "steps": last_steps(graph),
        "precisions": {name: p.value for name, p in graph_precisions(graph).items()},
    }  # fmt: skip
    try:
        if not perturb(graph, precision):
            return said | {"exact": True}
        (folder / "noise.onnx").write_bytes(graph.SerializeToString())
    except ValueError as error:
        return said | {"failure": str(error)}
    for file in external_files(graph, model):
        _bring(file, folder / file.relative_to(model.parent))
    return said | {"model": "noise.onnx"}


def _bring(file: Path, place: Path) -> None:
    """Put external data beside the twin, as a hard link where the file system allows it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def main(argv: list[str]) -> None:
    """Serve one request, model, folder and precision; the answer is a JSON file in the folder."""
    model, folder, precision = argv
    asked = Precision(precision) if precision else None
    said = write_twin(Path(model), Path(folder), asked)
    (Path(folder) / _ANSWER).write_text(json.dumps(said), encoding="utf-8")
