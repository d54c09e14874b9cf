"""What a runtime does with a node alone, where no listing says whether it has it.

1. It is asked to load a model of each node alone, and one of an operator that does not exist.
2. Where it loads that one, loading says nothing: each node that can be fed is run.
3. Where it runs that one too, nothing is known.

A node that loads, or runs, is there; whether it is right, tests must say. One that is refused in
words that say what the runtime lacks is not there, unless something of the node is not known. Any
other error says nothing, as nobody vouches for a model of one node; a crash or a hang does,
whatever the model is.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.coverage.cases import write_case
from ci_parity.coverage.made.from_model import Unmakeable, blueprint_of
from ci_parity.coverage.made.make import drafted, signature_id
from ci_parity.coverage.probes import Alone, alone, without_operator
from ci_parity.coverage.signatures import Sighting
from ci_parity.records.coverage import (
    Listed,
    NodeCase,
    NodeOutcome,
    NodeResult,
    Presence,
    Probe,
    Probed,
    Signature,
)
from ci_parity.records.values import ValueRecord, Values

if TYPE_CHECKING:
    from ci_parity.stages.coverage.running import Ran

SOURCE = "probe"
_BROKEN = (NodeOutcome.CRASHED, NodeOutcome.TIMED_OUT)
_DOES = {Probe.LOAD: "loads", Probe.RUN: "runs"}

Sightings = Mapping[Signature, Sequence[Sighting]]
Runs = Callable[[Sequence[NodeCase]], "Ran"]
"""Puts cases to a target; what is known from before is not run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What came of one way of asking; `measured` are the ids of what ran now.

    In a `loose` domain the target does so with any operator, so that nothing is known of it.
    """

    found: Mapping[Signature, Probed]
    loose: frozenset[str]
    measured: frozenset[str]


def probed(sightings: Iterable[Sighting], run: Runs) -> tuple[tuple[Probed, ...], frozenset[str]]:
    """Return what came of each signature's node alone, and the ids of what was run for it.

    Args:
        sightings: of several with one signature the one of which most is known counts.
        run: puts cases to the target.
    """
    by_signature: dict[Signature, list[Sighting]] = {}
    for sighting in sightings:
        by_signature.setdefault(sighting.signature, []).append(sighting)
    if not by_signature:
        return (), frozenset()
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        first = _round(Probe.LOAD, by_signature, Path(scratch) / "load", run)
        found = dict(first.found)
        loose = {one: by_signature[one] for one in by_signature if one.domain in first.loose}
        if not loose:
            return tuple(found.values()), first.measured
        second = _round(Probe.RUN, loose, Path(scratch) / "run", run)
    for signature, answer in second.found.items():
        found[signature] = replace(answer, broken=found[signature].broken or answer.broken)
    return tuple(found.values()), first.measured | second.measured


def _round(probe: Probe, asked: Sightings, folder: Path, run: Runs) -> _Round:
    cases: dict[Signature, NodeCase] = {}
    models: dict[Signature, Alone] = {}
    found: dict[Signature, Probed] = {}
    for signature, sightings in asked.items():
        try:
            models[signature], inputs = _model(probe, sightings)
        except Unmakeable as error:
            words = f"no model of this node alone can be made: {error}"
            found[signature] = Probed(signature=signature, listed=_unknown(words))
            continue
        name = signature_id(signature).partition("/")[2]
        home = folder / f"n{len(cases)}"
        cases[signature] = _case(f"{SOURCE}/{name}", models[signature], inputs, probe, home)
    versions = {one.domain: dict(sightings[0].opsets) for one, sightings in asked.items()}
    controls = {
        domain: _control(domain, opsets.get(domain, 1), probe, folder / f"c{at}")
        for at, (domain, opsets) in enumerate(versions.items())
    }
    ran = run([*controls.values(), *cases.values()])
    results = {result.case: result for result in ran.results}
    loose = frozenset(
        domain
        for domain, case in controls.items()
        if results[case.id].outcome in {NodeOutcome.PASS, NodeOutcome.SKIPPED}
    )
    for signature, case in cases.items():
        result = results[case.id]
        listed = _listed(probe, result, models[signature].open_points)
        if signature.domain in loose:
            listed = _unknown(f"it {_DOES[probe]} models of operators that do not exist")
        broken = result if result.outcome in _BROKEN else None
        found[signature] = Probed(signature=signature, listed=listed, broken=broken)
    return _Round(found=found, loose=loose, measured=ran.measured)


def _model(probe: Probe, sightings: Sequence[Sighting]) -> tuple[Alone, Values]:
    """Return the model of one of the nodes, and what it is fed.

    Raises:
        Unmakeable: none can be made of any of them.
    """
    best: tuple[Alone, Values] | None = None
    trouble = Unmakeable("there is no such node")
    for sighting in sightings:
        try:
            made = (alone(sighting), {}) if probe is Probe.LOAD else _fed(sighting)
        except Unmakeable as error:
            trouble = error
            continue
        if best is None or len(made[0].open_points) < len(best[0].open_points):
            best = made
        if not best[0].open_points:
            return best
    if best is None:
        raise trouble
    return best


def _fed(sighting: Sighting) -> tuple[Alone, Values]:
    """Return the node with inputs, as a test of it has them."""
    try:
        draft = drafted(blueprint_of(sighting, judged=False), "", None)
    except ValueError as error:
        raise Unmakeable(f"its model cannot be made: {error}"[:300]) from error
    return Alone(model=draft.model), draft.inputs


def _control(domain: str, version: int, probe: Probe, folder: Path) -> NodeCase:
    """Return a model of an operator that does not exist, in a domain."""
    import numpy as np

    name = f"{SOURCE}/no-operator/{domain or 'onnx'}"
    given: Values = {"x": np.ones((2, 3), np.float32)} if probe is Probe.RUN else {}
    return _case(name, without_operator(domain, version), given, probe, folder)


def _case(name: str, one: Alone, inputs: Values, probe: Probe, folder: Path) -> NodeCase:
    case = write_case(
        f"{name}/{probe.value}", one.model, inputs, {}, folder, rtol=0, atol=0, oracle=""
    )
    outputs = tuple(ValueRecord(name=output, kind="absent") for output in one.outputs)
    # Never that of a test with the same model: what came of the two is not the same.
    digest = sha256_bytes(canonical_bytes([probe.value, case.digest]))
    return replace(case, outputs=outputs, probe=probe, digest=digest)


def _listed(probe: Probe, result: NodeResult, open_points: Sequence[str]) -> Listed:
    """Return what the end of a probe says of the node."""
    words = result.evidence
    match result.outcome:
        case NodeOutcome.PASS:
            words = f"it {_DOES[probe]} a model of this node alone"
            return Listed(presence=Presence.PRESENT, words=words)
        case NodeOutcome.REFUSED if not open_points:
            words = f"it refuses a model of this node alone: {words}"
            return Listed(presence=Presence.ABSENT, words=words)
        case NodeOutcome.SKIPPED:
            return _unknown(f"it was not asked for this node alone: {words}")
        case _:
            unknown = f", of which {' and '.join(open_points)} is not known," if open_points else ""
            return _unknown(f"a model of this node alone{unknown} ends with an error: {words}")


def _unknown(words: str) -> Listed:
    return Listed(presence=Presence.UNKNOWN, words=words)
