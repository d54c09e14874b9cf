"""Writing the perturbed twin of a model, in a process of its own: `python -m ci_parity.calibrate`.

Reading types out of a graph runs ONNX's shape inference, native code over an untrusted model: where
it crashes or does not end, this process is lost and the caller is told.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base import process
from ci_parity.base.errors import CiParityError
from ci_parity.records.noise import OutputStep, Precision

if TYPE_CHECKING:
    from onnx import ModelProto

_TIMEOUT_S = 600.0
_ANSWER = "twin.json"
_WRITE, _READ = "write", "read"
_MAX_WORDS = 300
_PACKAGE_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The perturbed twin of a model, and what was read of the graph.

    `model` is None where there is none: it was not asked for, or the graph is `exact`, nothing in
    it rounds, or for what `failure` says. `precisions` and `steps` are those of the outputs.
    """

    model: Path | None
    exact: bool = False
    rounding: bool = False
    steps: tuple[OutputStep, ...] = ()
    precisions: tuple[tuple[str, Precision], ...] = ()
    failure: str = ""

    @property
    def precision(self) -> Precision:
        """The coarsest effective precision of all outputs."""
        return Precision.coarsest({precision for _, precision in self.precisions})


def make_twin(
    model: Path, folder: Path, precision: Precision | None, *, write: bool = True,
    timeout_s: float = _TIMEOUT_S,
) -> Twin:  # fmt: skip
    """Write the twin of a model into a folder, beside copies of its external data.

    Args:
        model: path of the model.
        folder: an empty or new folder.
        precision: the other side's precision where it is coarser than the model's own.
        write: whether the twin itself is wanted, not only what is said of it.
        timeout_s: how long it may take.
    """
    folder.mkdir(parents=True, exist_ok=True)
    argv = [
        sys.executable, "-P", "-m", "ci_parity.calibrate", str(model.resolve()),
        str(folder.resolve()), precision.value if precision else "", _WRITE if write else _READ,
    ]  # fmt: skip
    env = process.worker_environment({"PYTHONPATH": str(_PACKAGE_ROOT)})
    try:
        done = process.run(argv, env=env, timeout_s=timeout_s, cwd=folder)
        if done.returncode != 0:
            words = done.last_words.splitlines() or [f"status {done.returncode}"]
            failure = f"the graph could not be perturbed: {words[-1]}"
            return Twin(model=None, failure=failure[:_MAX_WORDS])
        said = json.loads((folder / _ANSWER).read_bytes())
        return Twin(
            model=folder / said["model"] if said["model"] else None,
            exact=said["exact"],
            rounding=said["rounding"],
            steps=tuple(
                OutputStep(output=name, step=float(step)) for name, step in said["steps"].items()
            ),
            precisions=tuple((name, Precision(p)) for name, p in said["precisions"].items()),
            failure=said["failure"],
        )
    except CiParityError as error:
        return Twin(model=None, failure=error.what[:_MAX_WORDS])
    except (OSError, ValueError, KeyError) as error:
        return Twin(model=None, failure=(str(error) or type(error).__name__)[:_MAX_WORDS])


def write_twin(
    model: Path, folder: Path, precision: Precision | None, *, write: bool
) -> dict[str, object]:
    """Write the twin and return what `make_twin` reads; the work of the process."""
    from ci_parity.base.onnx_model import external_files, load_graph
    from ci_parity.calibrate.graph import perturb
    from ci_parity.calibrate.precision import graph_precisions, last_steps, rounds
    from ci_parity.calibrate.types import element_types

    said: dict[str, object] = {
        "model": "", "failure": "", "exact": False, "rounding": False, "steps": {},
        "precisions": {},
    }  # fmt: skip
    try:
        graph = _inlined(load_graph(model))
        types = element_types(graph)
        said |= {
            "rounding": rounds(graph), "steps": last_steps(graph),
            "precisions": {name: p.value for name, p in graph_precisions(graph, types).items()},
        }  # fmt: skip
        files = external_files(graph, model)
        if not perturb(graph, precision, types):
            return said | {"exact": True}
    except CiParityError as error:
        return said | {"failure": error.what}
    except ValueError as error:
        return said | {"failure": str(error)}
    return said | (_written(graph, files, model, folder) if write else {})


def _written(
    graph: "ModelProto", files: Sequence[Path], model: Path, folder: Path
) -> dict[str, object]:
    """Write a twin and the external data of its model; return where it is, or why it is not."""
    from google.protobuf.message import EncodeError

    try:
        data = graph.SerializeToString()
    except EncodeError:
        return {"failure": "the perturbed graph is more than a protobuf can hold (2 GiB)"}
    # A folder of its own: the model chooses the names of its external data.
    home = folder / "model"
    twin = home / _unused_name({file.relative_to(model.parent).parts[0] for file in files})
    home.mkdir()
    twin.write_bytes(data)
    for file in files:
        # No hard links: onnx refuses to read through one, the user's own file no less than ours.
        place = home / file.relative_to(model.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return {"model": str(twin.relative_to(folder))}


def _inlined(graph: "ModelProto") -> "ModelProto":
    """Return a graph without functions of its own, whose roundings would else stay as they are."""
    import onnx.inliner

    return onnx.inliner.inline_local_functions(graph) if graph.functions else graph


def _unused_name(names: set[str]) -> str:
    name = "noise.onnx"
    while name in names:
        name = f"_{name}"
    return name


def main(argv: list[str]) -> None:
    """Serve one request: model, folder, precision, and whether to write the twin.

    The answer is a JSON file in the folder.
    """
    model, folder, precision, wanted = argv
    asked = Precision(precision) if precision else None
    said = write_twin(Path(model), Path(folder), asked, write=wanted == _WRITE)
    (Path(folder) / _ANSWER).write_text(json.dumps(said), encoding="utf-8")
