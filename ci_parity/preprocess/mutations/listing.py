"""All single changes of a pipeline, whatever its kind."""

from collections.abc import Iterator

from ci_parity.preprocess.model import (
    AudioPipeline,
    BytesPipeline,
    EntryPipeline,
    ImagePipeline,
    Kind,
    TabularPipeline,
    TextPipeline,
)
from ci_parity.preprocess.mutations import audio, file_bytes, image, tabular, text
from ci_parity.preprocess.mutations.mutation import Mutation, distinct


def mutations(kind: Kind) -> tuple[Mutation, ...]:
    """Return every change that is tried, no two alike; a function of the repository has none."""
    return tuple(distinct(_all(kind), kind))


def _all(kind: Kind) -> Iterator[Mutation]:
    match kind:
        case ImagePipeline():
            yield from image.mutations(kind)
        case TextPipeline():
            yield from text.mutations(kind)
        case BytesPipeline():
            yield from file_bytes.mutations(kind)
        case AudioPipeline():
            yield from audio.mutations(kind)
        case TabularPipeline():
            yield from tabular.mutations(kind)
        case EntryPipeline():
            return
