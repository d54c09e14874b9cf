"""Which steps a pipeline will take, known before it is carried out.

A step tells of itself when it is done. Whoever waits for one that never is wants its name: so each
is announced as it begins. Nothing is executed here.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ci_parity.preprocess.model import (
    AudioPipeline,
    BytesPipeline,
    EntryPipeline,
    ImagePipeline,
    Kind,
    TabularPipeline,
    TextPipeline,
)
from ci_parity.preprocess.steps import Step

Begin: TypeAlias = Callable[[str], None]
"""Is told the name of each step as it begins."""


def unheard(_: str) -> None:
    """Let a step begin without telling anybody."""


def step_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of the steps in their order; a raw input may need fewer."""
    match kind:
        case ImagePipeline():
            own = (type(step).__name__.lower() for step in kind.steps)
            return ("decode", *own, "layout", "tensor")
        case TextPipeline():
            prompt = ("prompt",) if kind.prompt != "{text}" else ()
            return ("decode", *kind.normalise, *prompt, "tokens", *("tensor" for _ in kind.outputs))
        case BytesPipeline():
            sizes = {"beginning": kind.beginning, "middle": kind.middle, "end": kind.end}
            return (*(name for name, size in sizes.items() if size), "tensor")
        case AudioPipeline():
            wanted = {
                "resample": kind.rate is not None, "window": kind.window is not None,
                "scale": kind.scale != 1,
            }  # fmt: skip
            return ("decode", "channels", *(name for name in wanted if wanted[name]), "tensor")
        case TabularPipeline():
            columns = (f"column {column.name}" for column in kind.columns)
            return ("rows", *columns, *("tensor" for _ in kind.inputs))
        case EntryPipeline():
            return ("entry",)


def announced(steps: Iterator[Step], kind: Kind, begin: Begin) -> Iterator[Step]:
    """Yield steps as they are done, and say before each that it begins."""
    left = list(step_names(kind))
    begin(left[0])
    for step in steps:
        if step.name in left:
            del left[: left.index(step.name) + 1]
        yield step
        if left:
            begin(left[0])
