"""A declared pipeline as frozen records, every default already set.

Between the validated file and the code that executes it; every default comes from
`preprocess.schema.json`. Colours, sizes and values are what the raw input's own scale has at that
point of the pipeline. Sizes are (height, width).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Size: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How an encoded picture becomes pixels; `background` goes under what is transparent."""

    channels: str
    exif: bool
    background: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """To a size that `policy` finds: exact, shortest, longest, fit, height or width.

    `size` holds what the policy needs: both sides, or one number twice. The side that follows from
    the other is rounded by `rounding`, is at most `max_side`, and then both become multiples.
    """

    policy: str
    size: Size
    when: str
    filter: str
    antialias: bool
    rounding: str
    multiple: int
    multiple_rounding: str
    max_side: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crop:
    """The middle of the picture; smaller pictures are filled up with `fill` around.

    `rounding` says where the middle is when an odd number of pixels goes: floor or nearest.
    """

    size: Size
    rounding: str
    fill: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad:
    """Up to `size` or to multiples of `multiple`, exactly one of which is given.

    `side` says where the padding goes: end (right and bottom), start, or both, which centres.
    """

    size: Size | None
    multiple: int | None
    side: str
    fill: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Multiplies every value by `factor`, or divides it, which rounds otherwise."""

    factor: float
    divided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalise:
    """(value - mean) / std, one number for all channels or one each."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


ImageStep: TypeAlias = Resize | Crop | Pad | Scale | Normalise


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePipeline:
    """An encoded picture to one tensor: decode, `steps` in their order, layout, dtype."""

    input: str
    decode: Decode
    steps: tuple[ImageStep, ...]
    layout: str
    batch: bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """At most `length` tokens, special ones included; `side` is where tokens are dropped."""

    length: int
    side: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Up to `length`, or to a multiple of `multiple`; `id` and `token` None: as the file says."""

    length: int | None
    multiple: int | None
    side: str
    id: int | None
    token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPipeline:
    """UTF-8 text to the tensors that `outputs` maps to fields of the encoding.

    `normalise` applies before `prompt`, in which `{text}` stands for the text. `truncation` and
    `padding` are records, "none", or "file": what tokenizer.json itself says.
    """

    tokenizer: str
    normalise: tuple[str, ...]
    prompt: str
    special_tokens: bool
    truncation: Truncation | str
    padding: Padding | str
    outputs: tuple[tuple[str, str], ...]
    batch: bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesPipeline:
    """A file's own bytes from its beginning, middle and end, as magika takes them.

    The beginning comes from the first `block` bytes, the end from the last. `strip` is outer (white
    space before the beginning and after the end), both (on both sides of either block) or none.
    """

    input: str
    beginning: int
    middle: int
    end: int
    block: int
    strip: str
    padding: int
    batch: bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`length` samples from `offset` on, once, or every `hop` samples; short ones are padded.

    `partial` says what becomes of a last frame that is not full: pad or drop.
    """

    length: int
    offset: int
    hop: int | None
    side: str
    value: float
    partial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPipeline:
    """Encoded sound to samples in [-1, 1] times `scale`; `rate` None keeps the file's own rate.

    `channels` is mean, left, right or keep, which gives [channels, samples].
    """

    input: str
    channels: str
    rate: int | None
    quality: str
    window: Window | None
    scale: float
    batch: bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its type (number, integer, boolean, category, text) and what fills a gap.

    `missing` None refuses gaps, `unknown` None refuses values that are no category; a category's id
    is its place in `categories` plus `first_id`.
    """

    name: str
    type: str
    categories: tuple[str, ...]
    first_id: int
    missing: float | str | None
    unknown: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularInput:
    """One tensor [rows, columns] of columns in their order."""

    name: str
    columns: tuple[str, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularPipeline:
    """CSV or JSON rows to one or more tensors; `gaps` are the texts that stand for no value."""

    format: str
    delimiter: str
    gaps: tuple[str, ...]
    columns: tuple[Column, ...]
    inputs: tuple[TabularInput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPipeline:
    """The user's own function: SCRIPT.py:FUNCTION. Nothing here executes it.

    It takes {"raw": uint8 array of the file's bytes} and returns a mapping of input names to
    arrays, so the worker of the source system runs it as it is. `files` are what it reads beside
    its script; `requires` and `python` are as for `source`.
    """

    script: str
    function: str
    files: tuple[str, ...]
    requires: str
    python: str


Kind: TypeAlias = (
    ImagePipeline | TextPipeline | BytesPipeline | AudioPipeline | TabularPipeline | EntryPipeline
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """An input that no raw file feeds: `values` in row-major order, one value fills the shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What makes the model's inputs from one raw file.

    `root` is the folder that the named files lie in, `origin` the pipeline's own file below it.
    """

    root: Path
    origin: str
    kind: Kind
    constants: tuple[Constant, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it depends on, its own first; all of them belong into a bundle."""
        return (self.root / self.origin, *(self.root / name for name in named_files(self.kind)))


def named_files(kind: Kind) -> tuple[str, ...]:
    """Return the paths that a pipeline names, relative to its folder."""
    match kind:
        case TextPipeline():
            return (kind.tokenizer,)
        case EntryPipeline():
            return (kind.script, *kind.files, *([kind.requires] if kind.requires else []))
        case _:
            return ()
