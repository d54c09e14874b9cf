"""Where the taking apart of a model stands between two rounds of questions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattened:
    """A model taken apart as far as is known.

    Every node of its main graph has a unique name, and no graph inside it defines a name that a
    graph around it defines too.

    Args:
        model: to be read only; its external data is not loaded.
        origin: where each node of the main graph stood in the first model, by its name, such as
            `If_12/then_branch/Conv_3` or `Loop_5[2]/body/Add`.
        left: why a node stays as it is, in words, by its name.
        copied_bytes: how much the copies hold that unrolling has made so far.
    """

    model: "ModelProto"
    origin: Mapping[str, str]
    left: Mapping[str, str]
    copied_bytes: int = 0
