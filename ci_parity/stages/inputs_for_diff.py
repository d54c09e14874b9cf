"""The inputs of a `diff`: arrays or cases given on the command line, else generated ones."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import load_graph
from ci_parity.config.model import Contract
from ci_parity.fixtures.arrays import read_npy, read_npz
from ci_parity.fixtures.authoring.plan import plan_cases
from ci_parity.fixtures.signature import Signature
from ci_parity.fixtures.store import open_fixtures, read_inputs
from ci_parity.records.observation import InputSet
from ci_parity.records.values import Value
from ci_parity.stages.suite import write_inputs

GENERATED = "generated"
"""The source of an input set that was made from the graph."""


def collect(
    sources: Sequence[Path], model: Path, signature: Signature, dims: Mapping[str, int],
    folder: Path, contract: Contract | None = None,
) -> InputSet:  # fmt: skip
    """Return the inputs as exchange files.

    Args:
        sources: `.npz` or `.npy` files, one case each, or folders of cases in the ONNX test layout.
        model: the baseline's; without sources, inputs are made from its graph.
        signature: of that model; its inputs must all be given.
        dims: sizes for symbolic dimensions of generated inputs.
        folder: where the exchange files go.
        contract: restricts generated inputs to what the product promises.
    """
    if not sources:
        plan = plan_cases(load_graph(model), signature, contract=contract, dims=dims)
        cases = ((case.name, plan.draw(case)) for case in plan.cases)
        return write_inputs(cases, folder, source=GENERATED)
    given = (case for source in sources for case in _cases(source, signature))
    return write_inputs(_named_apart(given), folder, source="given")


def _named_apart(
    cases: Iterable[tuple[str, Mapping[str, Value]]],
) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Yield the cases with a number behind a name that was there before."""
    seen: set[str] = set()
    for name, values in cases:
        unique = next(
            candidate
            for candidate in itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
            if candidate not in seen
        )
        seen.add(unique)
        yield unique, values


def _cases(source: Path, signature: Signature) -> Iterator[tuple[str, Mapping[str, Value]]]:
    if source.is_dir():
        fixtures = open_fixtures(source, signature)
        for case in fixtures.cases:
            yield case.name, read_inputs(case, signature)
        return
    values = _arrays(source, signature)
    known = {port.name for port in signature.inputs}
    missing = [port.name for port in signature.required if port.name not in values]
    extra = [name for name in values if name not in known]
    if missing or extra:
        raise EvidenceError(
            f"the arrays do not fit the model's inputs: missing {missing}, unknown {extra}",
            where=str(source),
            remedy=f"name the arrays {', '.join(sorted(known))}",
        )
    yield source.stem, values


def _arrays(source: Path, signature: Signature) -> Mapping[str, Value]:
    """Read an `.npz` by its names, or an `.npy` for the only input the model requires."""
    if source.suffix != ".npy":
        return read_npz(source, signature)
    if len(signature.required) != 1:
        raise EvidenceError(
            f"the model requires {len(signature.required)} inputs, an .npy holds one array",
            where=str(source),
            remedy="give an .npz with an array for each input",
        )
    (port,) = signature.required
    return {port.name: read_npy(source, port)}
