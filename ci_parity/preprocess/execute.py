"""A pipeline carried out on one raw input: step by step, or at once to the model's inputs.

Deterministic and without network. A pipeline that is a function of the repository is not carried
out here: user code runs in a process of its own, whose answer `diagnose_rebuilt` takes.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError
from ci_parity.preprocess import audio, file_bytes, image, tabular, text
from ci_parity.preprocess.model import (
    AudioPipeline,
    BytesPipeline,
    Constant,
    EntryPipeline,
    ImagePipeline,
    Pipeline,
    TabularPipeline,
    TextPipeline,
    named_files,
)
from ci_parity.preprocess.places import MAX_NAMED_BYTES, read_raw, read_regular
from ci_parity.preprocess.planned import Begin, announced, unheard
from ci_parity.preprocess.steps import Array, Step

__all__ = ["apply", "digest", "facts", "read_raw", "walk"]


def apply(
    pipeline: Pipeline, raw: bytes, *, shared: "image.Shared | None" = None, begin: Begin = unheard
) -> dict[str, Array]:
    """Return the model's inputs by name; `shared` and `begin` are those of `walk`.

    Raises:
        ConfigError: the pipeline is a function of the repository, or its files cannot be used.
        EvidenceError: the raw input is refused.
        InfrastructureError: a library of the extra `preprocess` is not installed.
    """
    return {
        step.input: step.array
        for step in walk(pipeline, raw, shared=shared, begin=begin)
        if step.input and step.array is not None
    }


def walk(
    pipeline: Pipeline, raw: bytes, *, shared: "image.Shared | None" = None, begin: Begin = unheard
) -> Iterator[Step]:
    """Yield every step from the raw input to the tensors; those that name an input are tensors.

    Several pipelines of one picture decode it once where they are given one `shared` mapping;
    `begin` is told each step as it begins.

    Raises:
        ConfigError: as `apply`.
        EvidenceError: as `apply`.
        InfrastructureError: as `apply`.
    """
    yield from announced(_steps(pipeline, raw, shared), pipeline.kind, begin)
    yield from map(_constant, pipeline.constants)


def _steps(pipeline: Pipeline, raw: bytes, shared: "image.Shared | None") -> Iterator[Step]:
    kind = pipeline.kind
    match kind:
        case ImagePipeline():
            yield from image.steps(kind, raw, shared)
        case TextPipeline():
            yield from text.steps(kind, raw, pipeline.root)
        case BytesPipeline():
            yield from file_bytes.steps(kind, raw)
        case AudioPipeline():
            yield from audio.steps(kind, raw)
        case TabularPipeline():
            yield from tabular.steps(kind, raw)
        case EntryPipeline():
            raise ConfigError(
                f"{kind.script}:{kind.function} is code, which is not run in this process",
                where=pipeline.origin,
                remedy="let the worker of the source system run it",
            )


def facts(pipeline: Pipeline) -> Mapping[str, str]:
    """Return everything that gives the pipeline its meaning, flat, by dotted key.

    Files are there as `file.NAME` with their SHA-256. Where the pipeline's own file lies, and how
    it is written, does not matter.

    Raises:
        EvidenceError: a named file cannot be read.
    """
    kind = pipeline.kind
    name = type(kind).__name__.removesuffix("Pipeline").lower()
    found = dict(_flat(name, _plain(kind)))
    for constant in pipeline.constants:
        found |= dict(_flat(f"constant.{constant.name}", _plain(constant)))
    for file in named_files(kind):
        data = read_regular(pipeline.root / file, MAX_NAMED_BYTES)
        found[f"file.{file}"] = sha256_bytes(data)
    return dict(sorted(found.items()))


def digest(pipeline: Pipeline) -> str:
    """Return the SHA-256 of the pipeline's facts as canonical JSON (RFC 8785).

    Raises:
        EvidenceError: a named file cannot be read.
    """
    return sha256_bytes(canonical_bytes(dict(facts(pipeline))))


def _constant(constant: Constant) -> Step:
    import numpy as np

    values = np.array(constant.values, np.dtype(constant.dtype))
    made = np.empty(constant.shape, values.dtype)
    made[...] = values[0] if len(values) == 1 else values.reshape(constant.shape)
    return Step(
        name="constant", words=f"the same for every case, {constant.dtype}", array=made,
        input=constant.name,
    )  # fmt: skip


def _plain(value: Any) -> Any:  # noqa: ANN401 - records to plain values
    """Return a record as a mapping that names its class where a list could hold another."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        pairs = [_plain(item) for item in value]
        named = [dataclasses.is_dataclass(item) for item in value]
        return {
            f"{index}.{type(item).__name__.lower()}" if is_record else str(index): plain
            for index, (item, plain, is_record) in enumerate(zip(value, pairs, named, strict=True))
        }
    return value


def _flat(prefix: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        if not value:
            yield prefix, "none"
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}", item)
    else:
        yield prefix, "none" if value is None else str(value)
