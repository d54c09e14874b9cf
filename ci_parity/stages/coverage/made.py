"""Tests for the signatures of a model that no known test reaches: made, settled by oracles, kept.

A test is kept by the digest of its model and inputs, so that a model whose nodes are known costs no
oracle. Every signature that has no test in the end has a reason.
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError
from ci_parity.base.progress import Progress
from ci_parity.config.runtimes import CURRENT
from ci_parity.coverage.cases import read_cases, write_case, write_index
from ci_parity.coverage.made.build import declared
from ci_parity.coverage.made.make import Draft, drafts_of
from ci_parity.coverage.matching import covers, difference
from ci_parity.coverage.packing import packed, unpacked
from ci_parity.coverage.signatures import Sighting, case_signatures
from ci_parity.coverage.undefined import why_undefined
from ci_parity.records.coverage import NodeCase, Signature
from ci_parity.records.values import Values
from ci_parity.run.runtime import describe
from ci_parity.stages.coverage.oracles import THIRD, Settled, settle
from ci_parity.stages.coverage.sharing import SharedResults

logger = logging.getLogger(__name__)

CASES = Path("coverage") / "made"
FORMAT = 2

Reason = tuple[Signature, str]


def made_cases(
    sightings: Sequence[Sighting], known: Sequence[NodeCase], *, cache: Path, progress: Progress,
    around: bool = False, third: str = THIRD, shared: SharedResults | None = None,
    model: str = "",
) -> tuple[tuple[NodeCase, ...], tuple[Reason, ...]]:  # fmt: skip
    """Return tests for what no known test covers, and why some signatures have none.

    Args:
        sightings: the nodes of a model.
        known: the tests there are already.
        cache: where tests and environments are kept.
        progress: is told of the oracles' work.
        around: also make tests of edges that the model does not ask for.
        third: the runtime that decides where two oracles do not agree, empty for none.
        shared: tests that other runs made.
        model: what the model is called: its tests are shared together.
    """
    reached = reached_by(known, (sighting.signature for sighting in sightings))
    asked_of = [s for s in sightings if around or s.signature not in reached]
    drafts, unmade = drafts_of(asked_of, around=around)
    cases, failed = cases_of(
        drafts, cache=cache, progress=progress, third=third, shared=shared, model=model
    )  # fmt: skip
    reasons = {one.signature: one.why for one in unmade}
    wanted = {draft.id: draft.asked for draft in drafts}
    for name, why in failed.items():
        asked = wanted[name]
        if asked is not None and name.count("/") == 2:
            reasons[asked] = why
    reasons |= _missed(cases, wanted)
    return cases, tuple(reasons.items())


def reached_by(cases: Iterable[NodeCase], asked: Iterable[Signature]) -> frozenset[Signature]:
    """Return the signatures that a test covers; one that is disputed covers nothing."""
    tested: dict[tuple[str, str], list[Signature]] = {}
    for case in cases:
        if not case.disputed and not case.undefined:
            for signature in case.signatures:
                tested.setdefault((signature.domain, signature.op_type), []).append(signature)
    return frozenset(
        signature for signature in set(asked)
        if any(covers(one, signature)
               for one in tested.get((signature.domain, signature.op_type), ()))
    )  # fmt: skip


def cases_of(
    drafts: Sequence[Draft], *, cache: Path, progress: Progress, third: str = THIRD,
    shared: SharedResults | None = None, model: str = "",
) -> tuple[tuple[NodeCase, ...], dict[str, str]]:  # fmt: skip
    """Return the tests of drafts, and why some became none, by id.

    A run that records takes none from this machine's cache, where others may have left it.
    """
    found: dict[str, NodeCase] = {}
    failed: dict[str, str] = {}
    waiting: list[Draft] = []
    kind = f"{_kind(third)} for {model}"
    known = shared.tests(kind) if shared is not None else {}
    for draft in drafts:
        why = why_undefined(draft.model, draft.inputs)
        home = _home(draft, cache, third)
        own = not why and not (shared is not None and shared.records)
        kept = (read_cases(home) or () if own else ()) or _brought(known.get(home.name), home)
        if why:
            failed[draft.id] = why
        elif kept:
            found[draft.id] = kept[0]
        else:
            waiting.append(draft)
    if waiting:
        with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
            settled = settle(waiting, Path(scratch), cache=cache, progress=progress, third=third)
        for draft in waiting:
            one = settled[draft.id]
            if one.trouble:
                failed[draft.id] = f"no oracle can evaluate it: {one.trouble}"
            else:
                found[draft.id] = _kept(draft, one, _home(draft, cache, third))
                _hand_on(found[draft.id], _home(draft, cache, third).name, kind, shared)
    return tuple(found[draft.id] for draft in drafts if draft.id in found), failed


def _kind(third: str) -> str:
    return f"tests made by onnx {version('onnx')}, {_onnxruntime()}, {third or 'no third'}"


def _brought(data: bytes | None, home: Path) -> tuple[NodeCase, ...]:
    """Return a test that another run made, written into the cache; none that is not whole."""
    if data is None:
        return ()
    try:
        case = unpacked(data, home / "case")
        write_index([case], home)
    except (CiParityError, OSError) as error:
        logger.warning("a shared test is not used: %s", error)
        return ()
    return (case,)


def _hand_on(case: NodeCase, draft: str, kind: str, shared: SharedResults | None) -> None:
    """Let others have a test that was made now."""
    if shared is None or not shared.records:
        return
    with contextlib.suppress(CiParityError, OSError):
        shared.add_test(kind, draft, packed(case))


def _kept(draft: Draft, settled: Settled, home: Path) -> NodeCase:
    """Write a test that is settled into the cache, with the sizes of its outputs declared."""
    model = declared(draft.model, _shapes(settled.outputs), draft.open_outputs)
    case = write_case(
        draft.id, model, draft.inputs, settled.outputs, home / "case",
        rtol=settled.rtol, atol=settled.atol, oracle=settled.oracle, disputed=settled.disputed,
        signatures=case_signatures(model, draft.inputs, settled.outputs),
    )  # fmt: skip
    write_index([case], home)
    return case


def _shapes(outputs: Values) -> dict[str, tuple[int, ...]]:
    import numpy as np

    return {name: value.shape for name, value in outputs.items() if isinstance(value, np.ndarray)}


def _home(draft: Draft, cache: Path, third: str) -> Path:
    """Return the folder of a test in the cache, named by all that decides what it holds."""
    parts = [
        draft.id, draft.model.SerializeToString(deterministic=True).hex(), sorted(draft.inputs),
        [_bytes_of(draft, name) for name in sorted(draft.inputs)], sorted(draft.open_outputs),
        FORMAT, version("onnx"), _onnxruntime(), third,
    ]  # fmt: skip
    digest = sha256_bytes(canonical_bytes(parts))
    return cache / CASES / digest[:2] / digest


def _onnxruntime() -> str:
    return describe(CURRENT)


def _bytes_of(draft: Draft, name: str) -> str:
    import numpy as np

    array = np.asarray(draft.inputs[name])
    data = str(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return sha256_bytes(data)


def _missed(cases: Iterable[NodeCase], wanted: dict[str, Signature | None]) -> dict[Signature, str]:
    """Return the signatures whose own test turned out to ask something else, and what."""
    missed: dict[Signature, str] = {}
    for case in cases:
        asked = wanted.get(case.id)
        if asked is None:
            continue
        words = [difference(tested, asked) for tested in case.signatures] or ["it has no signature"]
        if all(words):
            missed[asked] = f"the test made for it is not alike: {words[0]}"
        elif case.disputed:
            missed.setdefault(asked, f"oracles do not agree: {case.disputed}")
    return missed
