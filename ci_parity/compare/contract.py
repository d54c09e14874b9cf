"""The contract against what is there: the graph of a variant, stored inputs, the outputs of runs.

Everything here is judged from descriptions and exchange files; no model is opened and none is run.
A port that the contract does not name is not judged, but an input that must be fed and is not named
fails: whoever relies on the contract does not feed it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ci_parity.config.model import Contract, PortContract
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

_DOMAIN = "ai.onnx"
# The standard denotations of dimensions that a layout's letters stand for
# (https://onnx.ai/onnx/repo-docs/DimensionDenotation.html).
_DENOTED = {
    "N": "DATA_BATCH", "C": "DATA_CHANNEL", "T": "DATA_TIME", "D": "DATA_FEATURE",
    "H": "DATA_FEATURE", "W": "DATA_FEATURE",
}  # fmt: skip
_EXPORT = "export the model so that it keeps the contract, or change both sides of the contract"

Shape = Sequence[int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPort:
    """An input or output as a graph declares it.

    `kind` is `tensor` or the name of another kind of value; `shape` is None where not even the rank
    is declared; `optional` says that there is a default; `denotations` has a text for each
    dimension, empty where the graph gives none.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    optional: bool = False
    denotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredModel:
    """What a graph declares: ports in graph order, and the operator sets its nodes come from.

    `operators` pairs domains, the default one called `ai.onnx`, with versions.
    """

    inputs: tuple[DeclaredPort, ...]
    outputs: tuple[DeclaredPort, ...]
    operators: tuple[tuple[str, int], ...]


def judge_graph(subject: Subject, contract: Contract, model: DeclaredModel) -> tuple[Finding, ...]:
    """Judge what a graph declares; one passing finding where nothing speaks against it.

    1. Every port that the contract names is there, of its element type, rank and sizes.
    2. A dimension that the contract names by a symbol is dynamic, or has the only size listed.
    3. No input must be fed that the contract does not name.
    4. Nodes come from the domains that are stated, none of them newer than stated.
    """
    found = [
        *_side(subject, "input", contract.inputs, model.inputs, contract),
        *_side(subject, "output", contract.outputs, model.outputs, contract),
        *_unnamed(subject, contract, model),
        *_operators(subject, contract.opset, model.operators),
    ]
    if any(not finding.advisory for finding in found):
        return tuple(found)
    ports = len(contract.inputs) + len(contract.outputs)
    evidence = f"{ports} stated port{'s' * (ports != 1)}, as the graph declares them"
    if contract.opset:
        used = ", ".join(f"{domain} {version}" for domain, version in model.operators)
        evidence += f"; operator sets {used or 'none'}"
    passed = Finding(id="contract.graph", outcome=Outcome.PASS, subject=subject, evidence=evidence)
    return (passed, *found)


def contract_failure(kind: str, subject: Subject, evidence: str, remedy: str = "") -> Finding:
    """Return a failed finding of the contract, `kind` without its prefix."""
    return Finding(
        id=f"contract.{kind}",
        outcome=Outcome.FAIL,
        subject=subject,
        evidence=evidence,
        remedy=remedy or _EXPORT,
    )


def describe(shape: Shape) -> str:
    """Return a shape as a reader knows it, such as `[batch, 3, ?]`."""
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _side(
    subject: Subject, side: str, stated: Mapping[str, PortContract],
    declared: Sequence[DeclaredPort], contract: Contract,
) -> Iterator[Finding]:  # fmt: skip
    ports = {port.name: port for port in declared}
    for name, wanted in stated.items():
        if name not in ports:
            have = ", ".join(repr(port) for port in ports) or "none"
            evidence = f"the graph has no {side} {name!r}; its {side}s are {have}"
            yield contract_failure("name", subject, evidence)
        else:
            for kind, said in _port_problems(side, wanted, ports[name], contract):
                yield contract_failure(kind, subject, f"{side} {name!r}: {said}")


def _port_problems(
    side: str, wanted: PortContract, port: DeclaredPort, contract: Contract
) -> Iterator[tuple[str, str]]:
    """Yield what speaks against a port: the kind of finding, and the words."""
    if port.kind != "tensor" and (wanted.dtype or wanted.shape is not None):
        yield "dtype", f"the graph declares a value of kind {port.kind}, not a tensor"
        return
    if wanted.dtype and port.dtype != wanted.dtype:
        yield "dtype", f"the graph declares {port.dtype}, the contract {wanted.dtype}"
    if wanted.shape is None or port.shape is None:
        return
    both = f"the graph declares {describe(port.shape)}, the contract {describe(wanted.shape)}"
    if len(port.shape) != len(wanted.shape):
        yield "shape", both
        return
    pairs = list(zip(wanted.shape, port.shape, strict=True))
    if any(isinstance(w, int) and isinstance(p, int) and w != p for w, p in pairs):
        moved = wanted.layout and _permuted(wanted.shape, port.shape)
        known = f" ({wanted.layout}); the same sizes in another order: another layout?"
        yield ("layout", both + known) if moved else ("shape", both)
        return
    for axis, (size, found) in enumerate(pairs):
        if isinstance(size, str) and isinstance(found, int):
            yield from _frozen(side, axis, size, found, contract)
    yield from _denotations(wanted.layout, port.denotations)


def _permuted(wanted: Shape, found: Shape) -> bool:
    sizes = [sorted(size for size in shape if isinstance(size, int)) for shape in (wanted, found)]
    return sizes[0] == sizes[1]


def _frozen(
    side: str, axis: int, symbol: str, size: int, contract: Contract
) -> Iterator[tuple[str, str]]:
    """Yield a dimension that ought to be dynamic and has one size.

    What an output declares for a symbol without listed sizes is left to the runs: many exporters
    write there what one example had.
    """
    listed = contract.sizes.get(symbol, ())
    others = [str(other) for other in listed if other != size]
    if others:
        said = f"the contract lists {', '.join(others)}"
    elif not listed and side == "input":
        said = "the contract has it vary"
    else:
        return
    yield "dynamic", f"dimension {axis}, {symbol}, is fixed at {size}; {said}"


def _denotations(layout: str, denotations: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield where the graph's own words for its dimensions contradict the layout."""
    for axis, (letter, denoted) in enumerate(zip(layout, denotations, strict=False)):
        expected = _DENOTED.get(letter)
        if denoted in _DENOTED.values() and expected and denoted != expected:
            yield "layout", f"dimension {axis} is {denoted} in the graph, {letter} in {layout}"


def _unnamed(subject: Subject, contract: Contract, model: DeclaredModel) -> Iterator[Finding]:
    if not contract.inputs:
        return
    for port in model.inputs:
        if port.name not in contract.inputs and not port.optional:
            evidence = f"input {port.name!r} must be fed, and the contract does not name it"
            yield contract_failure("name", subject, evidence)


def _operators(
    subject: Subject, stated: Mapping[str, int], used: Sequence[tuple[str, int]]
) -> Iterator[Finding]:
    if not stated:
        return
    for domain, version in used:
        if domain not in stated:
            evidence = f"nodes come from domain {domain}, the contract has {', '.join(stated)}"
            yield contract_failure("domain", subject, evidence)
        elif version > stated[domain]:
            evidence = f"{domain} is of version {version}, the contract goes to {stated[domain]}"
            yield contract_failure("opset", subject, evidence)
