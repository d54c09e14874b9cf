"""Opening an ONNX file without trusting it: the graph, and the external data it points to.

Everything that reads a model begins here: signatures, digests, bundles. A graph is parsed without
its external data; a file that is not a whole ONNX model is refused with the way out (a Git LFS
pointer most of all). External data stays inside the model's own folder: a location that is
absolute, climbs with `..`, or passes through a symbolic link is refused, because whoever wrote the
model would else choose which files of this machine are read, hashed and shipped. A graph that was
compiled for one machine is refused too: what its engines compute is not in the graph.
"""

import hashlib
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

MAX_PROTOBUF_BYTES = 2**31 - 1
"""What one protobuf message can hold (https://protobuf.dev/programming-guides/proto-limits)."""

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
_FETCH_LFS = "fetch the content: 'git lfs pull', or 'lfs: true' in the checkout step"
_EXPORT_AGAIN = "export the model again, or name the .onnx file itself"
_UNSIGNED = re.compile(r"[0-9]{1,18}", re.ASCII)
_DRIVE = re.compile(r"[A-Za-z]:")
_SPELT_OUT = {"float": "float32", "double": "float64"}
# onnxruntime takes such a location for an address in its own memory.
_ADDRESS = "_MEM_ADDR_"
_COMPILED = "EPContext"
_PACKED_BITS = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """The bytes of one external file that one tensor claims; without a length, all that follow.

    `needed` is how many its type and shape take, `checksum` the SHA-1 of the file, or empty.
    """

    tensor: str
    location: str
    offset: int
    length: int | None
    needed: int
    checksum: str


def load_graph(path: Path) -> "ModelProto":
    """Parse the model at `path`; its external data is neither read nor looked for.

    Raises:
        EvidenceError: for a missing file, a folder, an empty or truncated file, a Git LFS pointer,
            a protobuf beyond 2 GiB, anything else that is not an ONNX model, and a model with
            compiled engines in it.
    """
    import onnx

    model = onnx.ModelProto()
    data = _read(path)
    whole = decode_into(model, data)
    if not whole or not model.ir_version or not model.HasField("graph"):
        raise EvidenceError(
            "not an ONNX model, or a truncated one", where=str(path), remedy=_EXPORT_AGAIN
        )
    if not model.opset_import:
        raise EvidenceError(
            "the model imports no operator set: it is truncated, or older than ONNX 1.0",
            where=str(path),
            remedy=_EXPORT_AGAIN,
        )
    if _COMPILED.encode() in data and any(node.op_type == _COMPILED for node in _nodes(model)):
        raise EvidenceError(
            "the model holds engines that were compiled for one machine (EPContext): "
            "they are programs, and say nothing of what they compute",
            where=str(path),
            remedy="name the model that they were compiled from; engines are built for each run",
        )
    return model


def external_files(model: "ModelProto", path: Path) -> tuple[Path, ...]:
    """Return every external data file that `model`, read from `path`, refers to; sorted, unique.

    Initializers, sparse initializers, attributes, subgraphs, local functions and training graphs
    are searched.

    Raises:
        EvidenceError: when a location is missing, is given twice, leaves the model's folder, is or
            passes a symbolic link, is no regular file, is too short for what a tensor claims or its
            shape takes, or has another checksum than is stated.
    """
    slices: dict[PurePosixPath, list[_Slice]] = {}
    for tensor in external_tensors(model):
        part = _slice(tensor, path)
        slices.setdefault(_plain_location(part, path), []).append(part)
    return tuple(
        _checked_file(location, slices[location], path) for location in sorted(slices, key=str)
    )


def external_tensors(model: "ModelProto") -> "Iterator[TensorProto]":
    """Yield every tensor of a model, wherever it stands, whose data lies in another file."""
    import onnx

    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor


def artifact_digest_files(path: Path) -> tuple[Path, ...]:
    """Return the files that make up the model at `path`: the graph, then its external data."""
    return (path, *external_files(load_graph(path), path))


def subgraphs(node: "NodeProto") -> "Iterator[GraphProto]":
    """Yield the graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def element_name(code: int) -> str:
    """Return our name of an ONNX element type, such as `float32`; empty for UNDEFINED or unknown.

    Args:
        code: a value of `TensorProto.DataType`.
    """
    import onnx

    if code not in onnx.TensorProto.DataType.values() or code == onnx.TensorProto.UNDEFINED:
        return ""
    name: str = onnx.TensorProto.DataType.Name(code).lower()
    return _SPELT_OUT.get(name, name)


def decode_into(message: "Message", data: bytes) -> bool:
    """Parse protobuf `data` into an empty `message`; false when it is not such a message."""
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except DecodeError:
        return False
    return True


def refuse_pointer(start: bytes, path: Path) -> None:
    """Refuse a file whose first bytes say that Git LFS has not fetched its content.

    Raises:
        EvidenceError: naming `path` and how to fetch.
    """
    if start.startswith(_LFS_POINTER):
        raise EvidenceError(
            "this is a Git LFS pointer, not the content it stands for",
            where=str(path),
            remedy=_FETCH_LFS,
        )


def _read(path: Path) -> bytes:
    """Return the bytes of a file that may be a model; what it cannot be is said precisely."""
    try:
        _refuse_other_than_file(path)
        with path.open("rb") as stream:
            start = stream.read(len(_LFS_POINTER))
            refuse_pointer(start, path)
            data = start + stream.read()
    except FileNotFoundError as error:
        raise EvidenceError(
            "there is no such model", where=str(path), remedy="correct the path, or build the model"
        ) from error
    except OSError as error:
        raise EvidenceError(
            f"the model cannot be read: {error.strerror or error}", where=str(path)
        ) from error
    if not data:
        raise EvidenceError("the model is empty", where=str(path), remedy=_EXPORT_AGAIN)
    return data


def _refuse_other_than_file(path: Path) -> None:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise EvidenceError(
            "a folder is not a model", where=str(path), remedy="name the .onnx file inside it"
        )
    if not stat.S_ISREG(status.st_mode):
        raise EvidenceError("not a regular file", where=str(path), remedy=_EXPORT_AGAIN)
    if status.st_size > MAX_PROTOBUF_BYTES:
        raise EvidenceError(
            f"{status.st_size:,} bytes are more than a protobuf can hold (2 GiB)",
            where=str(path),
            remedy="save the weights as external data: "
            "onnx.save(model, path, save_as_external_data=True)",
        )


def _nodes(model: "ModelProto") -> "Iterator[NodeProto]":
    """Yield every node that could run, inside functions and subgraphs too."""
    left = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while left:
        node = left.pop()
        yield node
        left.extend(inner for graph in subgraphs(node) for inner in graph.node)


def _tensors(model: "ModelProto") -> "Iterator[TensorProto]":
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _attribute_tensors(function.attribute_proto)
        yield from _node_tensors(function.node)
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: "GraphProto") -> "Iterator[TensorProto]":
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: "Iterable[NodeProto]") -> "Iterator[TensorProto]":
    for node in nodes:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: "Iterable[AttributeProto]") -> "Iterator[TensorProto]":
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g)
        yield from attribute.tensors
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph)


def _slice(tensor: "TensorProto", path: Path) -> _Slice:
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        # What is not UTF-8, protobuf returns as bytes.
        if not isinstance(entry.key, str) or not isinstance(entry.value, str):
            raise _refused(tensor.name, path, "an entry is not UTF-8")
        if entry.key in entries:
            raise _refused(tensor.name, path, f"{entry.key!r} is given twice")
        entries[entry.key] = entry.value
    if not entries.get("location"):
        raise _refused(tensor.name, path, "no location is given")
    return _Slice(
        tensor=tensor.name,
        location=entries["location"],
        offset=_unsigned(entries, "offset", tensor.name, path) or 0,
        length=_unsigned(entries, "length", tensor.name, path),
        needed=_needed_bytes(tensor, path),
        checksum=entries.get("checksum", ""),
    )


def _needed_bytes(tensor: "TensorProto", path: Path) -> int:
    """Return the bytes that a tensor's type and shape take; 0 for a type of unknown width."""
    if any(size < 0 for size in tensor.dims):
        raise _refused(tensor.name, path, f"its shape is {list(tensor.dims)}")
    name = element_name(tensor.data_type)
    bits = _PACKED_BITS.get(name) or _whole_bits(tensor.data_type)
    return math.ceil(bits * math.prod(tensor.dims) / 8) if bits else 0


def _whole_bits(code: int) -> int:
    import onnx

    try:
        return 8 * int(onnx.helper.tensor_dtype_to_np_dtype(code).itemsize)
    except (KeyError, TypeError, ValueError):
        return 0


def _unsigned(entries: Mapping[str, str], key: str, tensor: str, path: Path) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not _UNSIGNED.fullmatch(text):
        raise _refused(tensor, path, f"{key} {text!r} is not a count of bytes")
    return int(text)


def _plain_location(part: _Slice, path: Path) -> PurePosixPath:
    """Return the location as a relative path that only descends."""
    location = PurePosixPath(part.location)
    if "\\" in part.location or "\0" in part.location or _DRIVE.match(part.location):
        raise _refused(part.tensor, path, f"location {part.location!r} is not a portable path")
    if _ADDRESS in part.location:
        raise _refused(part.tensor, path, f"location {part.location!r} is an address in memory")
    if location.is_absolute() or ".." in location.parts:
        raise _refused(part.tensor, path, f"location {part.location!r} leaves the model's folder")
    return location


def _checked_file(location: PurePosixPath, parts: list[_Slice], path: Path) -> Path:
    """Return the external file after checking what it is and that every slice lies inside it."""
    file = path.parent
    tensor = parts[0].tensor
    status = _status(file, tensor, path)
    for component in location.parts:
        file = file / component
        status = _status(file, tensor, path)
        if stat.S_ISLNK(status.st_mode):
            raise _refused(tensor, path, f"{str(location)!r} is reached through a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise _refused(tensor, path, f"{str(location)!r} is not a regular file")
    refuse_pointer(_first_bytes(file, tensor, path), file)
    for part in parts:
        end = part.offset + (part.length or 0)
        if end > status.st_size:
            reason = f"it ends at byte {end} of {str(location)!r}, which has {status.st_size}"
            raise _refused(part.tensor, path, reason)
        held = status.st_size - part.offset if part.length is None else part.length
        if held < part.needed:
            reason = f"it has {held} bytes in {str(location)!r}, its shape takes {part.needed}"
            raise _refused(part.tensor, path, reason)
        if part.checksum and part.checksum.lower() != _sha1(
            file, status.st_mtime_ns, status.st_size
        ):
            raise _refused(part.tensor, path, f"the checksum of {str(location)!r} is another one")
    return file


@lru_cache(maxsize=64)
def _sha1(file: Path, changed_ns: int, size_bytes: int) -> str:  # noqa: ARG001 - what was hashed
    """Return what ONNX's external data calls `checksum`: the SHA-1 of the whole file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()


def _first_bytes(file: Path, tensor: str, path: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(len(_LFS_POINTER))
    except OSError as error:
        raise _refused(tensor, path, f"{file.name!r}: {error.strerror or error}") from error


def _status(file: Path, tensor: str, path: Path) -> os.stat_result:
    try:
        return file.lstat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise EvidenceError(
            f"external data {file.name!r} of tensor {tensor!r} is missing",
            where=str(path),
            remedy=f"put it back beside the model; {_FETCH_LFS}",
        ) from error
    except OSError as error:
        raise _refused(tensor, path, f"{file.name[:80]!r}: {error.strerror or error}") from error


def _refused(tensor: str, path: Path, reason: str) -> EvidenceError:
    return EvidenceError(
        f"external data of tensor {tensor!r} is refused: {reason}",
        where=str(path),
        remedy="save the model again with its data in one plain file beside it",
    )
