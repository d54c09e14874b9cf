"""Further inputs made of stored ones: batches, single rows, rows in another order, padded inputs.

Between the stored cases and the runs of self-checks. Everything is cut, stacked or padded from
stored values, and written beside their files; how many is bounded, however large the fixture set
is. What cannot be made is said, for the caller to judge. Nothing is run here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import ConfigError
from ci_parity.compare.contract_values import bound_sizes
from ci_parity.compare.self_checks import Agreement, Part
from ci_parity.config.model import Contract
from ci_parity.records.observation import CaseInputs, InputSet
from ci_parity.records.values import ValueRecord, read_value, write_value

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

MAX_REPEATED = 2
MAX_STACKED = 3
_MAX_GROUPS = 1
_MAX_PADDED = 2
_MAX_EXAMINED = 64
_MAX_ELEMENTS = 2**27


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Inputs that were made, what must agree once they ran, and why nothing could be made."""

    cases: tuple[CaseInputs, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    why_not: str = ""


@dataclass(slots=True)
class _Writer:
    """Writes made inputs beside the stored ones, under names no stored case can have."""

    folder: Path
    kind: str
    cases: list[CaseInputs] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)

    def add(self, template: CaseInputs, arrays: Mapping[str, "Array"]) -> str:
        """Write a case that is `template` but for some inputs; return its name."""
        number = len(self.cases)
        records = tuple(
            write_value(record.name, arrays[record.name], self.folder, f"{self.kind}{number}_i{i}")
            if record.name in arrays
            else record
            for i, record in enumerate(template.inputs)
        )
        name = f"{number}/{self.kind}"
        self.cases.append(CaseInputs(case=name, inputs=records, once=True))
        return name

    def made(self) -> Made:
        """Return what was written."""
        return Made(cases=tuple(self.cases), agreements=tuple(self.agreements))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch that runs or has run: its case, its rows' names and inputs to cut them from."""

    case: str
    source: str
    template: CaseInputs
    arrays: Mapping[str, "Array"]
    rows: int


def repeated(inputs: InputSet, times: int) -> Made:
    """Return the first cases again, in turn, so that a run that leaves a trace shows."""
    cases: list[CaseInputs] = []
    agreements: list[Agreement] = []
    for number in range(1, times):
        for case in inputs.cases[:MAX_REPEATED]:
            name = f"{len(cases)}/repeat"
            cases.append(CaseInputs(case=name, inputs=case.inputs, once=True))
            agreements.append(
                Agreement(
                    check="repeat", case=case.case, said=f"run {number + 1} of {case.case!r}",
                    first=Part(case=case.case, called="at first"),
                    second=Part(case=name, called="later"),
                )
            )  # fmt: skip
    return Made(cases=tuple(cases), agreements=tuple(agreements))


def batched(inputs: InputSet, axes: Mapping[str, int], *, rows: bool, order: bool) -> Made:
    """Return batches, rows alone and rows in another order.

    A stored batch is taken as it is; single rows of equal shapes are stacked; a row that has no
    like is stacked with one made of its own elements.

    Args:
        inputs: the stored cases.
        axes: the batch dimension of each input that has one.
        rows: whether rows alone are wanted.
        order: whether another order is wanted.
    """
    folder = Path(inputs.folder)
    writer = _Writer(folder=folder, kind="rows")
    for members in _groups(inputs, axes):
        batch = _batch(members, axes, writer)
        if rows:
            _alone(batch, members, axes, writer)
        if order:
            turned = [*range(1, batch.rows), 0]
            name = writer.add(batch.template, _taken(batch.arrays, axes, turned))
            writer.agreements.append(
                Agreement(
                    check="order", case=batch.source, said=f"the rows of {batch.source!r} turned",
                    first=_part(batch.case, "in order", turned, batch.rows),
                    second=_part(name, "turned", range(batch.rows), batch.rows),
                )
            )  # fmt: skip
    if not writer.cases:
        return Made(why_not="no stored case has a row in every batched input")
    return writer.made()


def padded(inputs: InputSet, contract: Contract) -> Made:
    """Return stored cases with their inputs padded at the end, to the next listed size.

    Where no sizes are listed, to twice the size.

    Raises:
        ConfigError: an input cannot hold the value it is to be padded with.
    """
    assert contract.padding is not None
    symbol, listed = contract.padding.axis, contract.sizes.get(contract.padding.axis)
    writer = _Writer(folder=Path(inputs.folder), kind="padding")
    for case in inputs.cases[:_MAX_EXAMINED]:
        sizes, odd = bound_sizes(contract.inputs, case.inputs)
        size = sizes.get(symbol, 0)
        larger = [other for other in listed or (2 * size,) if other > size]
        plain = not odd and all(record.kind == "tensor" for record in case.inputs)
        if not plain or not size or not larger or len(writer.cases) == _MAX_PADDED:
            continue
        arrays = {
            record.name: _padded(record, inputs, contract, min(larger))
            for record in case.inputs
            if record.name in contract.padding.values
        }
        name = writer.add(case, arrays)
        said = f"{case.case!r} padded from {symbol} {size} to {min(larger)}"
        writer.agreements.append(
            Agreement(
                check="padding", case=case.case, said=said, trimmed=True,
                first=Part(case=case.case, called="as stored"),
                second=Part(case=name, called="padded"),
            )
        )  # fmt: skip
    if not writer.cases:
        return Made(why_not=f"no stored case is smaller in {symbol} than a size the contract lists")
    return writer.made()


def _groups(inputs: InputSet, axes: Mapping[str, int]) -> list[list[tuple[CaseInputs, int]]]:
    """Return cases, each with its number of rows, that could be stacked; the fullest groups."""
    groups: dict[object, list[tuple[CaseInputs, int]]] = {}
    for case in inputs.cases[:_MAX_EXAMINED]:
        rows = _row_count(case, axes)
        if rows:
            groups.setdefault(_likeness(case, axes, inputs), []).append((case, rows))
    found = sorted(groups.values(), key=lambda members: -sum(rows for _, rows in members))
    several = [members for members in found if sum(rows for _, rows in members) > 1]
    return (several or found[:1])[:_MAX_GROUPS]


def _row_count(case: CaseInputs, axes: Mapping[str, int]) -> int:
    """Return how many rows the batched inputs of a case agree on; 0 where they do not."""
    records = {record.name: record for record in case.inputs if record.kind == "tensor"}
    if not axes.keys() <= records.keys():
        return 0
    counts = {
        records[name].shape[axis] if axis < len(records[name].shape) else 0
        for name, axis in axes.items()
    }
    return counts.pop() if len(counts) == 1 else 0


def _likeness(case: CaseInputs, axes: Mapping[str, int], inputs: InputSet) -> object:
    """Return what cases must share to be stacked: shapes without rows, and all other inputs."""
    parts: list[object] = []
    for record in case.inputs:
        if record.name in axes:
            axis = axes[record.name]
            shape = record.shape[:axis] + record.shape[axis + 1 :]
            parts.append((record.name, record.dtype, shape))
        elif record.kind == "tensor":
            digest = sha256_file(Path(inputs.folder) / record.file)
            parts.append((record.name, record.dtype, record.shape, digest))
        else:
            parts.append((record.name, case.case))
    return tuple(parts)


def _batch(
    members: Sequence[tuple[CaseInputs, int]], axes: Mapping[str, int], writer: _Writer
) -> _Batch:
    """Return a stored batch, or single rows stacked into one."""
    import numpy as np

    for case, rows in members:
        if rows > 1:
            arrays = _arrays(case, axes, writer.folder)
            return _Batch(case=case.case, source=case.case, template=case, arrays=arrays, rows=rows)
    template = members[0][0]
    first = _arrays(template, axes, writer.folder)
    size = sum(array.size for array in first.values())
    count = max(2, min(MAX_STACKED, len(members), _MAX_ELEMENTS // max(size, 1)))
    singles = [_arrays(case, axes, writer.folder) for case, _ in members[:count]]
    if len(singles) == 1:
        singles.append({name: _companion(array) for name, array in first.items()})
    stacked = {
        name: np.concatenate([single[name] for single in singles], axis=axis)
        for name, axis in axes.items()
    }
    return _Batch(
        case=writer.add(template, stacked), source=template.case, template=template,
        arrays=stacked, rows=len(singles),
    )  # fmt: skip


def _companion(array: "Array") -> "Array":
    """Return a row for one that has no like: its elements in reverse, floats doubled.

    Integers stay what the model knows; larger floats move what is measured over a whole batch.
    """
    import numpy as np

    turned: Any = array.reshape(-1)[::-1].reshape(array.shape)
    if array.dtype.kind in "biuOUS" or "int" in array.dtype.name:
        return np.asarray(turned)
    with np.errstate(all="ignore"):
        doubled: Array = (turned + turned).astype(array.dtype)
    return doubled


def _alone(
    batch: _Batch, members: Sequence[tuple[CaseInputs, int]], axes: Mapping[str, int],
    writer: _Writer,
) -> None:  # fmt: skip
    """Add what compares rows of the batch with runs of those rows alone."""
    if batch.case == batch.source:
        for row in sorted({0, batch.rows // 2, batch.rows - 1}):
            name = writer.add(batch.template, _taken(batch.arrays, axes, [row]))
            said = f"row {row} of {batch.source!r}"
            writer.agreements.append(_row_agreement(batch, row, batch.source, said, name))
        return
    for row, (case, _) in enumerate(members[: batch.rows]):
        said = f"{case.case!r} among {batch.rows} rows"
        writer.agreements.append(_row_agreement(batch, row, case.case, said, case.case))


def _row_agreement(batch: _Batch, row: int, case: str, said: str, alone: str) -> Agreement:
    return Agreement(
        check="rows", case=case, said=said,
        first=_part(batch.case, "in the batch", [row], batch.rows),
        second=_part(alone, "alone", [0], 1),
    )  # fmt: skip


def _part(case: str, called: str, rows: Sequence[int], batch: int) -> Part:
    return Part(case=case, called=called, rows=tuple(rows), batch=batch)


def _taken(
    arrays: Mapping[str, "Array"], axes: Mapping[str, int], rows: Sequence[int]
) -> dict[str, "Array"]:
    import numpy as np

    return {name: np.take(array, rows, axis=axes[name]) for name, array in arrays.items()}


def _arrays(case: CaseInputs, axes: Mapping[str, int], folder: Path) -> dict[str, "Array"]:
    return dict(_read(case, axes, folder))


def _read(case: CaseInputs, axes: Mapping[str, int], folder: Path) -> Iterator[tuple[str, "Array"]]:
    for record in case.inputs:
        if record.name in axes:
            value: Any = read_value(record, folder)
            yield record.name, value


def _padded(record: ValueRecord, inputs: InputSet, contract: Contract, size: int) -> "Array":
    """Return an input with every padded dimension brought to `size`."""
    import numpy as np

    assert contract.padding is not None
    fill = contract.padding.values[record.name]
    value: Any = read_value(record, Path(inputs.folder))
    whole = record.dtype == "bool" or "int" in record.dtype
    if record.dtype == "string" or (whole and not float(fill).is_integer()):
        raise ConfigError(
            f"input {record.name!r} is {record.dtype} and cannot be padded with {fill:g}",
            where=f"$.contract.padding.values.{record.name}",
        )
    array: Array = value
    for axis, wanted in enumerate(contract.inputs[record.name].shape or ()):
        if wanted == contract.padding.axis:
            shape = list(array.shape)
            shape[axis] = size - array.shape[axis]
            end = np.full(shape, fill).astype(array.dtype)
            array = np.concatenate([array, end], axis=axis)
    return array
