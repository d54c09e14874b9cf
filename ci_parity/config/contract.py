"""The contract of a config that is valid under the schema, with what a schema cannot say checked.

Between YAML and the frozen `Contract`: symbols must be those of input shapes, a layout must name
every dimension, and the sizes must be few enough to be run. No model is opened here.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ci_parity.base.errors import ConfigError
from ci_parity.config.model import Contract, Padding, PortContract

MAX_SHAPES = 64
MAX_ELEMENTS = 2**28
_DOMAIN = "ai.onnx"
_UNORDERED = {"bool", "string", "complex64", "complex128"}


def contract(raw: Mapping[str, Any]) -> Contract:
    """Build a contract.

    Raises:
        ConfigError: when parts of it contradict each other, or it asks for too much to be run.
    """
    opset, padding = raw.get("opset", {}), raw.get("padding")
    built = Contract(
        opset={_DOMAIN: int(opset)}
        if isinstance(opset, int | float)
        else {domain: int(version) for domain, version in opset.items()},
        inputs={name: _port(port) for name, port in raw.get("inputs", {}).items()},
        outputs={name: _port(port) for name, port in raw.get("outputs", {}).items()},
        sizes={name: tuple(map(int, sizes)) for name, sizes in raw.get("sizes", {}).items()},
        batch=raw.get("batch", ""),
        padding=Padding(axis=padding["axis"], values=padding["values"]) if padding else None,
    )
    problems = list(_problems(built))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        lines = [f"  - {problem.where}: {problem.what}" for problem in problems]
        raise ConfigError("\n".join([f"{len(problems)} problems in the contract", *lines]))
    return built


def listed_sizes(contract: Contract) -> tuple[Mapping[str, int], ...]:
    """Return the sizes of every run that the listed ones ask for.

    The first size of each symbol is the base; each other size is run beside the base sizes of the
    rest, then all smallest and all largest ones together. Without sizes it is one run of none.
    """
    base = {symbol: sizes[0] for symbol, sizes in contract.sizes.items()}
    runs = [base]
    runs += [
        base | {symbol: size} for symbol, sizes in contract.sizes.items() for size in sizes[1:]
    ]
    runs += [
        {symbol: extreme(sizes) for symbol, sizes in contract.sizes.items()}
        for extreme in (min, max)
    ]
    return tuple(run for index, run in enumerate(runs) if run not in runs[:index])


def symbols_of(ports: Mapping[str, PortContract]) -> set[str]:
    """Return the symbols in the shapes of some ports."""
    return {size for port in ports.values() for size in port.shape or () if isinstance(size, str)}


def _port(raw: Mapping[str, Any]) -> PortContract:
    shape, bounds = raw.get("shape"), raw.get("range")
    return PortContract(
        dtype=raw.get("dtype", ""),
        shape=tuple(int(s) if isinstance(s, float) else s for s in shape)
        if shape is not None
        else None,
        layout=raw.get("layout", ""),
        range=(_bound(bounds[0], -math.inf), _bound(bounds[1], math.inf)) if bounds else None,
    )


def _bound(raw: float | str | None, unbounded: float) -> float | str:
    if raw is None:
        return unbounded
    return raw if isinstance(raw, str) else float(raw)


def _problems(contract: Contract) -> Iterator[ConfigError]:
    symbols = symbols_of(contract.inputs)
    for side, ports in (("inputs", contract.inputs), ("outputs", contract.outputs)):
        known = symbols if side == "inputs" else symbols | symbols_of(ports)
        for name, port in ports.items():
            yield from _port_problems(port, known, f"$.contract.{side}.{name}")
    for symbol in contract.sizes:
        yield from _unknown(symbol, symbols, f"$.contract.sizes.{symbol}")
    if contract.batch:
        yield from _unknown(contract.batch, symbols, "$.contract.batch")
    if contract.padding:
        yield from _padding_problems(contract, contract.padding, symbols)
    yield from _size_problems(contract)


def _port_problems(port: PortContract, symbols: set[str], place: str) -> Iterator[ConfigError]:
    if port.layout and len(port.layout) != (len(port.shape) if port.shape is not None else 0):
        yield ConfigError(
            f"layout {port.layout} does not name every dimension of the shape, one letter each",
            where=place,
            remedy="state the shape beside it, with as many dimensions as the layout has letters",
        )
    if len(set(port.layout)) < len(port.layout):
        yield ConfigError(f"layout {port.layout} names a dimension twice", where=place)
    if port.range is None:
        return
    if port.dtype in _UNORDERED:
        yield ConfigError(f"{port.dtype} has no range", where=place)
    for bound in port.range:
        if isinstance(bound, str):
            yield from _unknown(bound, symbols, f"{place}.range")
    low, high = port.range
    if not isinstance(low, str) and not isinstance(high, str) and low > high:
        yield ConfigError(f"the range ends at {high:g}, below its start {low:g}", where=place)


def _unknown(symbol: str, symbols: set[str], place: str) -> Iterator[ConfigError]:
    if symbol not in symbols:
        yield ConfigError(
            f"{symbol!r} is no symbol of the contract's shapes",
            where=place,
            remedy=f"the shapes of the contract's inputs have: {', '.join(sorted(symbols))}"
            if symbols
            else "write it in the shape of an input of the contract",
        )


def _padding_problems(
    contract: Contract, padding: Padding, symbols: set[str]
) -> Iterator[ConfigError]:
    place = "$.contract.padding"
    yield from _unknown(padding.axis, symbols, f"{place}.axis")
    padded = {n for n, port in contract.inputs.items() if padding.axis in (port.shape or ())}
    for name in sorted(padded ^ padding.values.keys()):
        said = "is padded and has no value" if name in padded else "has no such dimension"
        yield ConfigError(f"input {name!r} {said}", where=f"{place}.values")


def _size_problems(contract: Contract) -> Iterator[ConfigError]:
    remedy = "list fewer or smaller sizes: the ends, and those with code of their own"
    runs = listed_sizes(contract)
    if len(runs) > MAX_SHAPES:
        problem = f"{len(runs)} shapes would have to be run, {MAX_SHAPES} is the most"
        yield ConfigError(problem, where="$.contract.sizes", remedy=remedy)
    ports = contract.inputs.values()
    elements = sum(_elements(port, sizes) for sizes in runs for port in ports)
    if elements > MAX_ELEMENTS:
        problem = f"the sizes ask for {elements:,} input elements, {MAX_ELEMENTS:,} is the most"
        yield ConfigError(problem, where="$.contract.sizes", remedy=remedy)


def _elements(port: PortContract, sizes: Mapping[str, int]) -> int:
    """Return how many elements an input has, sizes that are not stated taken as 1."""
    known = (sizes.get(s, 1) if isinstance(s, str) else 1 if s is None else s for s in _shape(port))
    return math.prod(known)


def _shape(port: PortContract) -> tuple[int | str | None, ...]:
    return port.shape or ()
