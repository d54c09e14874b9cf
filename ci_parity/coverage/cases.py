"""Node tests on disk: a folder for each case, and one index that tells of them all.

A case's folder holds `model.onnx` and the value files of its inputs and outputs, as a worker reads
them. Cases are written once and never changed; an index is written last, so that a reader sees all
of its cases or none. Nothing is run or judged here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.records.codec import from_bytes, to_bytes, to_json
from ci_parity.records.coverage import NodeCase, Signature
from ci_parity.records.values import Value, ValueRecord, leaves, write_value

if TYPE_CHECKING:
    from onnx import ModelProto

MODEL = "model.onnx"
INDEX = "index.json"
FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """All cases below the folder that the index lies in; their paths start from it."""

    format: int
    cases: tuple[NodeCase, ...]


def write_case(
    case: str, model: "ModelProto", inputs: Mapping[str, Value], outputs: Mapping[str, Value],
    folder: Path, *, rtol: float, atol: float, oracle: str,
    signatures: tuple[Signature, ...] = (), disputed: str = "", undefined: str = "",
) -> NodeCase:  # fmt: skip
    """Write a case into a new folder and return it.

    Args:
        case: its id.
        model: is written as it is.
        inputs: by the model's names, in its order; an empty optional is None.
        outputs: what it must give, in the same way.
        folder: of this case alone; is made.
        rtol: relative tolerance of the test.
        atol: absolute tolerance of the test.
        oracle: what gave the outputs.
        signatures: what the test says something about.
        disputed: what two oracles gave that do not agree.
        undefined: why nothing can say what the outputs must be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = model.SerializeToString()
    (folder / MODEL).write_bytes(data)
    given = _written(inputs, folder, "i")
    wanted = _written(outputs, folder, "o")
    model_sha256 = sha256_bytes(data)
    return NodeCase(
        id=case,
        folder=folder,
        model=folder / MODEL,
        model_sha256=model_sha256,
        digest=_digest(folder, model_sha256, given, wanted, rtol, atol, disputed),
        inputs=given,
        outputs=wanted,
        rtol=rtol,
        atol=atol,
        oracle=oracle,
        signatures=signatures,
        disputed=disputed,
        undefined=undefined,
    )


def write_index(cases: Sequence[NodeCase], folder: Path) -> None:
    """Write the index of cases whose folders lie below `folder`."""
    relative = tuple(
        replace(
            case,
            folder=case.folder.relative_to(folder),
            model=case.model.relative_to(folder),
        )
        for case in cases
    )
    write_atomic(folder / INDEX, to_bytes(_Index(format=FORMAT, cases=relative)))


def read_cases(folder: Path) -> tuple[NodeCase, ...] | None:
    """Return the cases of a folder's index, None where there is none of this format."""
    try:
        data = (folder / INDEX).read_bytes()
        index = from_bytes(_Index, data, where=str(folder / INDEX))
    except (OSError, EvidenceError):
        return None
    if index.format != FORMAT:
        return None
    return tuple(
        replace(case, folder=folder / case.folder, model=folder / case.model)
        for case in index.cases
    )


def digest_of(case: NodeCase) -> str:
    """Return the digest of a case by its files as they are now.

    Raises:
        OSError: one cannot be read.
    """
    return _digest(
        case.folder, sha256_file(case.model), case.inputs, case.outputs, case.rtol, case.atol,
        case.disputed,
    )  # fmt: skip


def files_of(case: NodeCase) -> tuple[str, ...]:
    """Return the names of a case's files in its folder, its model's first."""
    records = leaves((*case.inputs, *case.outputs))
    return (MODEL, *dict.fromkeys(record.file for record in records if record.file))


def _written(values: Mapping[str, Value], folder: Path, stem: str) -> tuple[ValueRecord, ...]:
    return tuple(
        write_value(name, value, folder, f"{stem}{index}")
        for index, (name, value) in enumerate(values.items())
    )


def _digest(
    folder: Path, model_sha256: str, inputs: tuple[ValueRecord, ...],
    outputs: tuple[ValueRecord, ...], *judged_by: float | str,
) -> str:  # fmt: skip
    """Return one digest of everything that decides what a case says of a runtime."""
    records = leaves((*inputs, *outputs))
    files = {r.file: sha256_file(folder / r.file) for r in records if r.file}
    parts = [model_sha256, to_json(inputs), to_json(outputs), files, list(judged_by)]
    return sha256_bytes(canonical_bytes(parts))
