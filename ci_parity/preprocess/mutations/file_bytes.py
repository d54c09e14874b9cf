"""What goes wrong between a file's bytes and their tensor."""

from collections.abc import Iterator
from dataclasses import replace

from ci_parity.preprocess.model import BytesPipeline
from ci_parity.preprocess.mutations.mutation import Mutation, ending

_PADDINGS = (0, 255, 256, -1)


def mutations(pipeline: BytesPipeline) -> Iterator[Mutation]:
    """Yield every single change of a bytes pipeline that is tried."""
    for strip in ("outer", "both", "none"):
        words = f"white space stripped: {strip} instead of {pipeline.strip}"
        yield _changed(pipeline, "strip", words, strip=strip)
    for padding in _PADDINGS:
        words = f"padding {padding} instead of {pipeline.padding}"
        yield _changed(pipeline, "padding", words, padding=padding)
    yield _changed(
        pipeline, "beginning", "sizes of beginning and end exchanged",
        beginning=pipeline.end, end=pipeline.beginning,
    )  # fmt: skip
    total = pipeline.beginning + pipeline.end
    yield _changed(pipeline, "end", "the beginning alone", beginning=total, end=0)
    yield _changed(pipeline, "beginning", "the end alone", beginning=0, end=total)
    for block in (max(pipeline.beginning, pipeline.end, 1), 512, 1024, 4096, 8192):
        words = f"blocks of {block} bytes instead of {pipeline.block}"
        yield _changed(pipeline, "block", words, block=block)
    yield from ending("bytes", pipeline)


def _changed(pipeline: BytesPipeline, key: str, words: str, **fields: object) -> Mutation:
    kind = replace(pipeline, **fields)  # type: ignore[arg-type]
    return Mutation(key=f"bytes.{key}", words=words, kind=kind)
