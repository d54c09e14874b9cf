"""The values a model carries, by the places where they enter its graph.

Filled by `detect.topology` on its walk. A place is one input of one live node, or one output; the
walk is canonical, so the list of contents by place is too. Each tensor is read once, however many
places share it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.digest import sha256_bytes
from ci_parity.detect.model_scope import Weight
from ci_parity.detect.model_tensors import content_sha256, dtype_of, is_external
from ci_parity.detect.model_words import label, tensor_text
from ci_parity.records.model_facts import WeightFact

if TYPE_CHECKING:
    from onnx import TensorProto


class WeightTable:
    """Every weight of the scopes a walk entered, those it met first, in the order it met them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._declared: list[Weight] = []
        self._met: dict[int, tuple[int, WeightFact]] = {}  # by id; `_declared` keeps ids alive
        self._by_place: list[str] = []

    def declare(self, weights: Iterable[Weight]) -> None:
        """Note weights that a scope defines, used or not."""
        self._declared.extend(weights)

    def enter(self, weight: Weight) -> tuple[int, WeightFact]:
        """Return the number of a weight and what it is, as it enters the graph at a place.

        Raises:
            EvidenceError: when its data is not what its type and shape ask for.
        """
        found = self._met.get(id(weight))
        if found is None:
            found = len(self._met), self._fact(weight, used=True)
            self._met[id(weight)] = found
        self._by_place.append(found[1].sha256)
        return found

    def contents(self) -> bytes:
        """Return the digests of the values by place, one a line."""
        return "\n".join(self._by_place).encode("ascii")

    def facts(self) -> tuple[WeightFact, ...]:
        """Return the weights in canonical order, then the unused ones by name."""
        unused = (w for w in self._declared if id(w) not in self._met)
        rest = [self._fact(weight, used=False) for weight in unused]
        used = [fact for _, fact in self._met.values()]
        return (*used, *sorted(rest, key=lambda fact: (fact.name, fact.sha256)))

    def _fact(self, weight: Weight, *, used: bool) -> WeightFact:
        parts = tuple(_parts(weight))
        contents = [content_sha256(part, self._folder) for part in parts]
        sparse = len(parts) > 1
        shape = weight.tensor.dims
        return WeightFact(
            name=label(weight.name),
            kind=weight.kind,
            storage="external" if any(map(is_external, parts)) else "inline",
            dtype=f"sparse {dtype_of(parts[0])}" if sparse else dtype_of(parts[0]),
            shape=tuple(shape),
            sha256=sha256_bytes("".join(contents).encode()) if sparse else contents[0],
            used=used,
        )


def weight_text(fact: WeightFact) -> str:
    """Return a weight's type and shape, such as `float32[64,3]`."""
    return tensor_text(fact.dtype, fact.shape)


def _parts(weight: Weight) -> "Iterator[TensorProto]":
    import onnx

    if isinstance(weight.tensor, onnx.SparseTensorProto):
        yield weight.tensor.values
        yield weight.tensor.indices
    else:
        yield weight.tensor
