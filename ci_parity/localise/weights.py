"""Weights of a specimen: constants in place of those that do not matter, the rest taken along.

One weight is in memory at a time, and only to see its mean.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.onnx_model import element_name, external_files, external_tensors
from ci_parity.localise.ddmin import minimal
from ci_parity.localise.specimen import Specimen
from ci_parity.records.values import numpy_dtype

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from onnx import ModelProto, TensorProto

    Array = npt.NDArray[np.generic]

# Smaller ones do not make a file large.
_SMALL_BYTES = 1024
_INLINE_BYTES = 64 * 2**20
# What ConstantOfShape makes since operator set 9
# (https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html).
_FILLABLE = frozenset(
    {
        "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64",
    }
)  # fmt: skip
_FIRST_OPSET = 9


def check_files(specimen: Specimen) -> None:
    """Refuse external data outside the folder of weights.

    Raises:
        EvidenceError: it cannot be read, or leaves the folder.
    """
    for model in (specimen.baseline, specimen.candidate):
        if specimen.weights is not None:
            external_files(model, specimen.weights / "model.onnx")


def lighter(
    specimen: Specimen,
    holds: Callable[[Specimen], bool],
    more_time: Callable[[], bool],
) -> Specimen:
    """Return the specimen with as few large weights as it takes.

    A weight that goes is made by a ConstantOfShape node instead: of its mean, else of 1 or 0. Where
    the models differ, only weights that both have alike may go.
    """
    left: Sequence[str] = tuple(_replaceable(specimen))
    for fill in (_mean, _one, _zero):
        specimen, left = _replaced(specimen, left, fill, holds, more_time)
    return specimen


def inlined(specimen: Specimen) -> Specimen:
    """Return the specimen with its weights inside the models, where that is below 64 MB."""
    models = [specimen.baseline] if specimen.one_model else [specimen.baseline, specimen.candidate]
    tensors = [tensor for model in models for tensor in external_tensors(model)]
    if specimen.weights is None or sum(map(_size_bytes, tensors)) > _INLINE_BYTES:
        return specimen
    try:
        whole = [_inlined(model, specimen.weights) for model in models]
    except (ValueError, OSError):
        return specimen
    return replace(specimen, baseline=whole[0], candidate=whole[-1], weights=None)


def _replaced(
    specimen: Specimen,
    large: Sequence[str],
    fill: Callable[["TensorProto", Path | None], "Array"],
    holds: Callable[[Specimen], bool],
    more_time: Callable[[], bool],
) -> tuple[Specimen, Sequence[str]]:
    """Return the specimen with some large weights filled, and the names of the others."""
    if not large or not more_time():
        return specimen, large
    tensors = {tensor.name: tensor for tensor in specimen.baseline.graph.initializer}
    fills = {
        name: value for name in large
        if (value := _read(fill, tensors[name], specimen.weights)) is not None
    }  # fmt: skip

    def keeping(kept: Sequence[str]) -> Specimen:
        return _filled(specimen, {name: fills[name] for name in fills if name not in kept})

    left = minimal(list(fills), lambda kept: holds(keeping(kept)), more_time)
    smaller = keeping(left) if len(left) < len(fills) else specimen
    return smaller, [name for name in large if name in left or name not in fills]


def _replaceable(specimen: Specimen) -> Iterator[str]:
    """Yield the names of the large weights that both models have alike."""
    for model in (specimen.baseline, specimen.candidate):
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        if opsets.get("", opsets.get("ai.onnx", 0)) < _FIRST_OPSET:
            return
    others = {tensor.name: tensor for tensor in specimen.candidate.graph.initializer}
    for tensor in specimen.baseline.graph.initializer:
        fillable = (
            element_name(tensor.data_type) in _FILLABLE and tensor.name not in specimen.inputs
        )
        if not fillable or _size_bytes(tensor) <= _SMALL_BYTES or tensor.name not in others:
            continue
        other = others[tensor.name]
        if specimen.one_model or _alike(tensor, other, specimen.weights):
            yield tensor.name


def _alike(tensor: "TensorProto", other: "TensorProto", folder: Path | None) -> bool:
    if (tensor.data_type, tuple(tensor.dims)) != (other.data_type, tuple(other.dims)):
        return False
    left, right = _read(_array, tensor, folder), _read(_array, other, folder)
    return left is not None and right is not None and left.tobytes() == right.tobytes()


def _filled(specimen: Specimen, fills: Mapping[str, "Array"]) -> Specimen:
    baseline = _with_fills(specimen.baseline, fills)
    candidate = baseline if specimen.one_model else _with_fills(specimen.candidate, fills)
    return replace(specimen, baseline=baseline, candidate=candidate)


def _with_fills(model: "ModelProto", fills: Mapping[str, "Array"]) -> "ModelProto":
    """Return a model in which weights are made of one value each."""
    import numpy as np
    from onnx import ModelProto, helper, numpy_helper

    filled = ModelProto()
    filled.CopyFrom(model)
    graph = filled.graph
    tensors = list(model.graph.initializer)
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {tensor.name for tensor in tensors}
    makers = []
    del graph.initializer[:]
    for tensor in tensors:
        if tensor.name not in fills:
            graph.initializer.append(tensor)
            continue
        shape = _unused(f"{tensor.name}_shape", taken)
        graph.initializer.append(numpy_helper.from_array(np.array(tensor.dims, np.int64), shape))
        value = numpy_helper.from_array(fills[tensor.name].reshape(1))
        maker = helper.make_node("ConstantOfShape", [shape], [tensor.name], shape, value=value)
        makers.append(maker)
    _keep(graph.input, lambda port: port.name not in fills)
    nodes = [*makers, *model.graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return filled


def _keep(ports: Any, wanted: Callable[[Any], bool]) -> None:  # noqa: ANN401 - a repeated field
    kept = [port for port in ports if wanted(port)]
    del ports[:]
    ports.extend(kept)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _mean(tensor: "TensorProto", folder: Path | None) -> "Array":
    """Return the mean of a weight's finite elements in its own type; 0 where it has none."""
    import numpy as np

    array: npt.NDArray[np.floating] = _array(tensor, folder)  # type: ignore[assignment]
    real = array.dtype.kind == "f"
    finite = array[np.isfinite(array)] if real else array
    mean = np.mean(finite, dtype=np.float64) if finite.size else np.float64(0)
    return np.array(mean if real else np.rint(mean)).astype(array.dtype)


def _one(tensor: "TensorProto", folder: Path | None) -> "Array":  # noqa: ARG001 - as the others
    import numpy as np

    return np.ones((), numpy_dtype(element_name(tensor.data_type)))


def _zero(tensor: "TensorProto", folder: Path | None) -> "Array":  # noqa: ARG001 - as the others
    import numpy as np

    return np.zeros((), numpy_dtype(element_name(tensor.data_type)))


def _read(
    reader: Callable[["TensorProto", Path | None], "Array"],
    tensor: "TensorProto",
    folder: Path | None,
) -> "Array | None":
    """Return what is read of a weight; None where its data is not what it says."""
    try:
        return reader(tensor, folder)
    except (ValueError, OSError):
        return None


def _array(tensor: "TensorProto", folder: Path | None) -> "Array":
    from onnx import TensorProto, numpy_helper

    # Older versions of onnx leave external data that they read in the message.
    own = TensorProto()
    own.CopyFrom(tensor)
    array: Array = numpy_helper.to_array(own, base_dir=str(folder or ""))
    return array


def _inlined(model: "ModelProto", folder: Path) -> "ModelProto":
    import onnx

    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    onnx.load_external_data_for_model(whole, str(folder))
    return whole


def _size_bytes(tensor: "TensorProto") -> int:
    """Return the bytes of a weight's elements."""
    dtype = element_name(tensor.data_type)
    itemsize = numpy_dtype(dtype).itemsize if dtype else 1
    return int(math.prod(tensor.dims)) * itemsize
