"""How the deviation grows with depth: tensors on the way, candidate against baseline.

Both sides run the whole way here, so what is shown has come down from the inputs. Tensors are taken
a few at a time, as many as fit a memory budget, and looked at one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.compare import metrics
from ci_parity.compare.noise import NoiseFloor
from ci_parity.records.divergence import DepthPoint
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.values import Value, ValueRecord, element_type, read_value
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import MoreTime, Stretch
from ci_parity.stages.localising.noise import Noise
from ci_parity.stages.localising.sides import discard, size_bytes
from ci_parity.stages.value_distance import distance

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

POINTS = 48
"""The most tensors that are shown."""
SEEDS = 4
_FIRST = 4
_CASE = "depth"


def depth_of(
    handover: Handover, stretch: Stretch, cuts: Sequence[int], noise: Noise, memory_bytes: int,
    more_time: MoreTime,
) -> tuple[DepthPoint, ...]:  # fmt: skip
    """Return the deviation at tensors of the cuts, in the order of the graph.

    Args:
        handover: has both sides.
        stretch: what is at fault; the tensors behind it are among those shown.
        cuts: where tensors are taken from.
        noise: measures their floors.
        memory_bytes: how much the tensors of one run may hold.
        more_time: whether to go on.
    """
    guilty = set(handover.wanted(stretch.end)) - set(handover.given(stretch.start) or ())
    tensors = _chosen(handover, cuts, guilty)
    points: list[DepthPoint] = []
    count = memory_bytes // handover.cut_bytes if handover.cut_bytes else _FIRST
    while tensors and more_time():
        chunk, tensors = tensors[: max(1, count)], tensors[max(1, count) :]
        left = handover.baseline.compute({}, chunk)
        right = handover.candidate.compute({}, chunk)
        if left.ok and right.ok:
            floors = noise.floors(_CASE, {}, chunk, SEEDS)
            folder = handover.baseline.bench.folder
            for name in chunk:
                records = (left.tensors[name], right.tensors[name])
                points.extend(_point(handover, records, floors, folder, guilty=name in guilty))
            discard((*left.tensors.values(), *right.tensors.values()), folder, {})
            count = _next(left.tensors.values(), memory_bytes)
    return tuple(sorted(points, key=lambda point: point.position))


def _chosen(handover: Handover, cuts: Sequence[int], guilty: set[str]) -> list[str]:
    """Return tensors at even distances, those behind the stretch always among them."""
    graph = handover.baseline.graph
    known = dict.fromkeys(name for cut in cuts for name in graph.live(cut)[-1:])
    names = list(known | dict.fromkeys(handover.outputs))
    room = max(1, POINTS - len(guilty) - len(handover.outputs))
    step = max(1, -(-len(names) // room))
    shown = {*names[::step], *guilty, *handover.outputs}
    return sorted(shown, key=lambda name: graph.makers.get(name, -1))


def _point(
    handover: Handover, records: tuple[ValueRecord, ValueRecord], floors: NoiseFloors,
    folder: Path, *, guilty: bool,
) -> Iterator[DepthPoint]:  # fmt: skip
    graph, name = handover.baseline.graph, records[0].name
    position = graph.makers.get(name)
    if position is None:
        return
    try:
        left, right = (read_value(record, folder) for record in records)
    except EvidenceError:
        return
    apart = distance(left, right)
    largest, rms = _in_noise(name, left, right, floors)
    yield DepthPoint(
        tensor=name, position=position, op_type=graph.nodes[position].op_type, equal=apart == 0,
        max_abs=apart, max_noise=largest, rms_noise=rms, guilty=guilty,
    )  # fmt: skip


def _in_noise(
    name: str, left: Value, right: Value, floors: NoiseFloors
) -> tuple[float | None, float | None]:
    """Return the largest difference and the root mean square of all, in noise floors."""
    import numpy as np

    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray) or floors.failure:
        return None, None
    if left.shape != right.shape or left.dtype != right.dtype:
        return None, None
    found = next((one for one in floors.cases[0].outputs if one.output == name), None)
    try:
        floor = NoiseFloor(left, element_type(left), found, Path(floors.folder), rounding=False)
    except EvidenceError:
        return None, None
    measured = metrics.float_metrics(left, right, floor)
    score = floor.score(right, measured.excess)
    finite = np.isfinite([score.element, score.group]).all()
    return (score.element, score.group) if finite else (None, None)


def _next(records: Iterable[ValueRecord], memory_bytes: int) -> int:
    """Return how many tensors of the size of these fit the budget."""
    sizes = [size_bytes(record) for record in records]
    return max(1, memory_bytes // max(1, sum(sizes) // max(1, len(sizes))))
