"""A file's own bytes to a tensor, as magika takes them from beginning and end.

magika 1.0 (`Magika._extract_features_from_seekable`): white space is stripped on the left of the
first block and on the right of the last one. `strip: both` is what versions before did.
"""

from collections.abc import Iterator

from ci_parity.base.errors import EvidenceError
from ci_parity.preprocess.model import BytesPipeline
from ci_parity.preprocess.steps import Array, Step, finished


def steps(pipeline: BytesPipeline, raw: bytes) -> Iterator[Step]:
    """Yield every step of a file's bytes; the last one is the tensor.

    Raises:
        EvidenceError: the file is empty.
    """
    import numpy as np

    if not raw:
        raise EvidenceError(
            "the file is empty: no byte to take",
            where="the raw input",
            remedy="replace the raw input of this case",
        )
    parts = []
    for name, part, size, side in _parts(pipeline, raw):
        if size:
            parts.append(_filled(part, size, side, pipeline.padding))
            words = f"{min(len(part), size)} of {size} bytes, padding {pipeline.padding} at {side}"
            yield Step(name=name, words=words, array=parts[-1])
    yield finished(
        pipeline.input, np.concatenate(parts), batch=pipeline.batch, dtype=pipeline.dtype
    )


def _parts(pipeline: BytesPipeline, raw: bytes) -> Iterator[tuple[str, bytes, int, str]]:
    """Yield name, bytes, size and the side that is padded of each part."""
    first, last = raw[: pipeline.block], raw[-pipeline.block :]
    if pipeline.strip == "both":
        first, last = first.strip(), last.strip()
    elif pipeline.strip == "outer":
        first, last = first.lstrip(), last.rstrip()
    start = max(0, (len(raw) - pipeline.middle) // 2)
    yield "beginning", first[: pipeline.beginning], pipeline.beginning, "end"
    yield "middle", raw[start : start + pipeline.middle], pipeline.middle, "both"
    yield "end", last[max(0, len(last) - pipeline.end) :], pipeline.end, "start"


def _filled(part: bytes, size: int, side: str, padding: int) -> Array:
    import numpy as np

    made = np.full(size, padding, np.int64)
    start = {"end": 0, "start": size - len(part)}.get(side, (size - len(part)) // 2)
    made[start : start + len(part)] = np.frombuffer(part, np.uint8)
    return made
