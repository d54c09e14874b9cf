"""How far a rebuilt tensor may be from a stored one without meaning anything.

- Text, bytes and tables are whole numbers or copies: nothing beyond rounding.
- A lossless picture that is not resized: nothing beyond rounding.
- JPEG and WebP: two right decoders differ by one 8-bit level (the standard asks no more of an
  inverse DCT, ITU-T T.83). Resizing: libraries round their 8-bit results to one level apart.
  These levels go through the pipeline's own scale and std, and the differences must be scattered,
  as those of a shifted mean are not: half of the values differ by rounding at most, and the root
  mean square is half of the limit at most.
- Sound that is resampled or comes from a lossy format: one step of 16-bit sound, likewise.
- Rounding: a few units in the last place of the largest value on the way, as another order of
  multiplications and subtractions gives.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.preprocess.image import is_lossy
from ci_parity.preprocess.model import (
    AudioPipeline,
    ImagePipeline,
    Kind,
    Normalise,
    Resize,
    Scale,
)

if TYPE_CHECKING:
    from ci_parity.preprocess.steps import Array

_ULPS = 8
_SCATTERED = 0.5
_AUDIO_STEP = 2.0**-15
_LOSSLESS_AUDIO = (b"RIFF", b"fLaC", b"FORM", b".snd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is allowed beyond rounding, in the tensor's own unit, and the largest value on the way.

    At most `share` of the elements may differ by more than rounding. `why` says in words what the
    limit stands for.
    """

    value: float = 0.0
    share: float = 1.0
    largest: float = 0.0
    why: str = "rounding"

    @property
    def rounding(self) -> "Allowance":
        """What is left of it where nothing but rounding is allowed."""
        return Allowance(largest=self.largest)

    def limit(self, rebuilt: "Array", stored: "Array") -> float:
        """Return the limit of the absolute difference for tensors of one element type."""
        import numpy as np

        if rebuilt.dtype.kind != "f":
            return self.value
        coarse = max(float(np.finfo(rebuilt.dtype).eps), float(np.finfo(np.float32).eps))
        sizes = [
            float(np.abs(part).max())
            for part in (rebuilt[np.isfinite(rebuilt)], stored[np.isfinite(stored)])
            if part.size
        ]
        return self.value + _ULPS * coarse * max([self.largest, *sizes])


NOTHING = Allowance()


def allowance(kind: Kind, raw: bytes) -> Allowance:
    """Return what the tensors of a pipeline may differ by."""
    match kind:
        case ImagePipeline():
            return _image(kind, raw)
        case AudioPipeline():
            lossy = not raw.startswith(_LOSSLESS_AUDIO)
            if lossy or kind.rate is not None:
                return Allowance(value=_AUDIO_STEP * kind.scale, why="one step of 16-bit sound")
            return NOTHING
        case _:
            return NOTHING


def _image(kind: ImagePipeline, raw: bytes) -> Allowance:
    resizes = any(isinstance(step, Resize) for step in kind.steps)
    levels = is_lossy(raw) + resizes
    unit, largest = 1.0, 255.0
    for step in kind.steps:
        if isinstance(step, Scale):
            factor = 1 / step.factor if step.divided else step.factor
            unit, largest = unit * factor, largest * factor
        elif isinstance(step, Normalise):
            narrow = min(map(abs, step.std))
            largest = (largest + max(map(abs, step.mean))) / narrow
            unit /= narrow
    if not levels:
        return Allowance(largest=largest)
    if kind.dtype.startswith(("int", "uint")):
        unit = math.ceil(unit)
    named = " and ".join(
        words for words, there in (("decoding", is_lossy(raw)), ("resizing", resizes)) if there
    )
    plural = "levels" if levels > 1 else "level"
    return Allowance(
        value=levels * unit,
        largest=largest,
        share=_SCATTERED,
        why=f"{levels} 8-bit {plural}: {named}",
    )
