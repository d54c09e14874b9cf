"""The binary files of a reproduction: models, cases laid out as ONNX backend tests, archives."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ci_parity.base.canonical import Json
from ci_parity.base.onnx_model import external_files, external_tensors
from ci_parity.localise.handout import results
from ci_parity.records.messages import encode_proto
from ci_parity.records.values import Value, Values, element_type

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

_CHUNK_BYTES = 2**20


def write_model(model: "ModelProto", path: Path, weights: Path | None) -> None:
    """Write a model, its external data in one file of the same name that ends in `.weights`.

    Raises:
        EvidenceError: external data cannot be read or leaves its folder.
    """
    from onnx import ModelProto

    written = ModelProto()
    written.CopyFrom(model)
    tensors = list(external_tensors(written))
    if tensors:
        folder = weights or path.parent
        external_files(model, folder / path.name)
        with path.with_suffix(".weights").open("wb") as stream:
            for tensor in tensors:
                _move(tensor, folder, stream, path.with_suffix(".weights").name)
    path.write_bytes(written.SerializeToString(deterministic=True))


def write_case(model: "ModelProto", inputs: Values, outputs: Values, folder: Path) -> None:
    """Write values as `input_0.pb …` and `output_0.pb …`, in the order of the model.

    Raises:
        EvidenceError: ONNX has no form for a value.
    """
    folder.mkdir()
    for stem, ports, values in (
        ("input", model.graph.input, inputs),
        ("output", model.graph.output, outputs),
    ):
        names = [port.name for port in ports if port.name in values]
        for index, name in enumerate(names):
            (folder / f"{stem}_{index}.pb").write_bytes(encode_proto(name, values[name]))


def write_archive(values: Values, path: Path) -> list[Json]:
    """Write values as arrays that NumPy alone can read, and return their records."""
    import numpy as np

    arrays: dict[str, Any] = {}
    records: list[Json] = [
        results.write_value(name, plain(value), arrays) for name, value in values.items()
    ]
    np.savez_compressed(path, **arrays)
    return records


def plain(value: Value) -> Any:  # noqa: ANN401 - what `results` takes
    """Return a value without types that NumPy lacks: they become their bits."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if value is None:
        return None
    dtype = element_type(value)
    if dtype not in results.CARRIED:
        return value
    return results.Bits(dtype, value.view(results.CARRIED[dtype]))


def _move(tensor: "TensorProto", folder: Path, target: IO[bytes], name: str) -> None:
    """Copy the data of a tensor to the end of a file, and make the tensor point there."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    offset = int(entries.get("offset", 0))
    source = folder / entries["location"]
    length = int(entries.get("length", source.stat().st_size - offset))
    start = target.tell()
    with source.open("rb") as stream:
        stream.seek(offset)
        left = length
        while chunk := stream.read(min(left, _CHUNK_BYTES)):
            target.write(chunk)
            left -= len(chunk)
    del tensor.external_data[:]
    for key, value in _entries(name, start, length):
        tensor.external_data.add(key=key, value=value)


def _entries(name: str, start: int, length: int) -> Sequence[tuple[str, str]]:
    return (("location", name), ("offset", str(start)), ("length", str(length)))
