"""Making a model ready to be taken apart, in a process of its own: `python -m ci_parity.localise`.

Shape inference and the inlining of functions are native code over an untrusted model: where they
crash or do not end, this process is lost and the caller is told.

The prepared model computes the same. Its nodes have names of their own, its tensors have the types
that could be inferred, and its larger weights lie in files beside it, where every part made of it
finds them.
"""

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base import process
from ci_parity.base.errors import CiParityError, EvidenceError

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from ci_parity.localise.flatten import Flattened

PREPARED = "prepared.onnx"
_TIMEOUT_S = 600.0
_ANSWER = "prepared.json"
_WEIGHTS = "weights"
_BEGIN, _FINISH = "begin", "finish"
# Shapes, axes and other small integers stay in the graph: runtimes read them while they load it.
_INLINE_BYTES = 1024
_ALIGNMENT = 64
_MAX_WORDS = 300
_PACKAGE_ROOT = Path(__file__).parents[2]


def prepare(model: Path, folder: Path, timeout_s: float = _TIMEOUT_S) -> "Flattened":
    """Write the prepared model, `PREPARED`, into a new folder, and return it.

    Where it asks questions it is not flat yet: `finish` writes it once it is.

    Raises:
        EvidenceError: the model cannot be read or prepared.
        InfrastructureError: no answer in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return _asked(_BEGIN, model, folder, timeout_s)


def finish(flat: "Flattened", folder: Path, timeout_s: float = _TIMEOUT_S) -> "Flattened":
    """Write a model that was flattened since into the folder of the prepared one, and return it.

    Raises:
        EvidenceError: it cannot be prepared.
        InfrastructureError: no answer in time.
    """
    file = folder / "flat.onnx"
    file.write_bytes(flat.model.SerializeToString())
    done = _asked(_FINISH, file, folder, timeout_s)
    file.unlink()
    return type(flat)(model=done.model, origin=flat.origin, left=flat.left)


def _asked(verb: str, model: Path, folder: Path, timeout_s: float) -> "Flattened":
    from ci_parity.base.onnx_model import load_graph
    from ci_parity.localise.flatten import Flattened

    paths = (str(model.resolve()), str(folder.resolve()))
    argv = [sys.executable, "-P", "-m", "ci_parity.localise", verb, *paths]
    env = process.worker_environment({"PYTHONPATH": str(_PACKAGE_ROOT)})
    done = process.run(argv, env=env, timeout_s=timeout_s, cwd=folder)
    said: dict[str, Any] = {"failure": f"status {done.returncode}: {done.last_words[-_MAX_WORDS:]}"}
    if done.returncode == 0:
        said = json.loads((folder / _ANSWER).read_bytes())
    if said["failure"]:
        raise EvidenceError(
            f"the model cannot be taken apart: {said['failure']}"[:_MAX_WORDS], where=str(model)
        )
    whole = load_graph(folder / PREPARED)
    return Flattened(model=whole, origin=said["origin"], left=said["left"])


def begin_in(model: Path, folder: Path) -> "Flattened":
    """Write the prepared model beside copies of its external data; the work of the process."""
    from ci_parity.base.onnx_model import external_files, load_graph
    from ci_parity.localise.flatten import Flattened, begin

    graph = load_graph(model)
    for file in external_files(graph, model):
        place = folder / file.relative_to(model.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    if (folder / PREPARED).exists():
        raise ValueError(f"external data is called {PREPARED}")
    _move_weights(graph, folder)
    flat = begin(graph)
    _write(flat.model, folder)
    return Flattened(model=flat.model, origin=flat.origin, left=flat.left)


def finish_in(model: Path, folder: Path) -> "Flattened":
    """Write a flattened model, which lies in the folder, anew; the work of the process."""
    from ci_parity.base.onnx_model import load_graph
    from ci_parity.localise.flatten import Flattened

    graph = load_graph(model)
    _write(graph, folder)
    return Flattened(model=graph, origin={}, left={})


def _write(graph: "ModelProto", folder: Path) -> None:
    """Write a model with its larger weights beside it and the types that can be inferred."""
    import onnx

    _constants_to_weights(graph)
    _see_through_identities(graph)
    _move_weights(graph, folder)
    # Where types cannot be inferred those it declares must do.
    with contextlib.suppress(onnx.shape_inference.InferenceError):
        graph = onnx.shape_inference.infer_shapes(graph, data_prop=True)
    (folder / PREPARED).write_bytes(graph.SerializeToString())


def _constants_to_weights(graph: "ModelProto") -> None:
    """Turn Constant nodes that hold a tensor into initializers, as runtimes do."""
    kept, known = [], {tensor.name for tensor in graph.graph.initializer}
    for node in graph.graph.node:
        value = next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
        own = node.op_type == "Constant" and node.domain in {"", "ai.onnx"}
        if not own or value is None or len(node.output) != 1 or node.output[0] in known:
            kept.append(node)
            continue
        tensor = graph.graph.initializer.add()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
    del graph.graph.node[:]
    graph.graph.node.extend(kept)


def _see_through_identities(graph: "ModelProto") -> None:
    """Let what reads a copy read the original; copies that are outputs of the graph stay.

    A tensor under two names could be paired with either.
    """
    from ci_parity.localise.flatten.names import rename

    outputs = {port.name for port in graph.graph.output}
    originals: dict[str, str] = {}
    kept = []
    for node in graph.graph.node:
        rename(node, originals)
        own = node.op_type == "Identity" and node.domain in {"", "ai.onnx"}
        if own and len(node.input) == 1 and node.output[0] not in outputs:
            originals[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    del graph.graph.node[:]
    graph.graph.node.extend(kept)


def _move_weights(graph: "ModelProto", folder: Path) -> None:
    """Move the larger initializers into a new file of raw little-endian elements."""
    name = _WEIGHTS
    while (folder / name).exists():
        name = f"{name}_"
    with (folder / name).open("wb") as stream:
        for tensor in graph.graph.initializer:
            if tensor.data_location == tensor.EXTERNAL or tensor.ByteSize() <= _INLINE_BYTES:
                continue
            data = _raw(tensor)
            if data is None:
                continue
            stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))
            offset = stream.tell()
            stream.write(data)
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data"):
                tensor.ClearField(field)
            tensor.ClearField("uint64_data")
            tensor.data_location = tensor.EXTERNAL
            entries = {"location": name, "offset": str(offset), "length": str(len(data))}
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=value)


def _raw(tensor: "TensorProto") -> bytes | None:
    """Return a tensor's elements as ONNX has them in `raw_data`; None for strings."""
    from onnx import numpy_helper

    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    if tensor.data_type == tensor.STRING:
        return None
    again = numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)
    return bytes(again.raw_data) if again.data_type == tensor.data_type else None


_WORK: "dict[str, Callable[[Path, Path], Flattened]]" = {_BEGIN: begin_in, _FINISH: finish_in}


def main(argv: Sequence[str]) -> None:
    """Serve one request: a verb, a model, a folder; the answer is a JSON file in the folder."""
    verb, model, folder = argv
    said: dict[str, object] = {"failure": "", "origin": {}, "left": {}}
    try:
        flat = _WORK[verb](Path(model), Path(folder))
        said |= {"origin": dict(flat.origin), "left": dict(flat.left)}
    except CiParityError as error:
        said["failure"] = error.what
    except (OSError, ValueError) as error:
        said["failure"] = str(error) or type(error).__name__
    (Path(folder) / _ANSWER).write_text(json.dumps(said), encoding="utf-8")
