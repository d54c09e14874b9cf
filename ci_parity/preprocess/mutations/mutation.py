"""One change of a pipeline, and what the pipelines of all kinds share of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ci_parity.preprocess.model import (
    AudioPipeline,
    BytesPipeline,
    ImagePipeline,
    Kind,
    TextPipeline,
)

Batched: TypeAlias = ImagePipeline | TextPipeline | BytesPipeline | AudioPipeline
DTYPES = ("float32", "float16", "float64", "uint8", "int8", "int16", "int32", "int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A changed pipeline; `words` complete "the stored tensor is what … gives"."""

    key: str
    words: str
    kind: Kind


def ending(name: str, pipeline: Batched) -> Iterator[Mutation]:
    """Yield the changes of a tensor's outer form: its element type and its batch axis."""
    for dtype in DTYPES:
        if dtype != pipeline.dtype:
            yield Mutation(
                key=f"{name}.dtype", words=f"{dtype} instead of {pipeline.dtype}",
                kind=replace(pipeline, dtype=dtype),
            )  # fmt: skip
    words = "no batch axis" if pipeline.batch else "a batch axis in front"
    yield Mutation(
        key=f"{name}.batch", words=words, kind=replace(pipeline, batch=not pipeline.batch)
    )


def distinct(mutations: Iterable[Mutation], original: Kind) -> Iterator[Mutation]:
    """Drop changes that change nothing, or the same as an earlier one."""
    seen = {original}
    for mutation in mutations:
        if mutation.kind not in seen:
            seen.add(mutation.kind)
            yield mutation
