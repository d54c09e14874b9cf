"""Step 1b: what differs from the baseline, in words, and what a new runtime is known to bring."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ci_parity.base.onnx_model import load_graph
from ci_parity.config.model import Deployment
from ci_parity.config.runtimes import python_of
from ci_parity.detect.changes import compare_identities, forced
from ci_parity.detect.foresight import ModelNeeds, foresee
from ci_parity.detect.model import read_model_facts
from ci_parity.detect.model_changes import explain_models
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.identity import Axis, Change, ChangeSet, Identity
from ci_parity.records.outcome import Outcome
from ci_parity.stages.identify import Baseline


def detect_changes(
    deployment: Deployment, baseline: Baseline, identities: Sequence[Identity], *, why_all: str
) -> ChangeSet:
    """Compare with the baseline; `why_all` is why every pair runs even where nothing differs."""
    changes = compare_identities(baseline.source, baseline.identities, identities)
    explained = replace(
        changes,
        changes=tuple(_explained(deployment, baseline, changes.changes)),
        foresight=tuple(dict.fromkeys(_foreseen(deployment, changes))),
    )
    return forced(explained, why_all) if why_all else explained


def _explained(
    deployment: Deployment, baseline: Baseline, changes: Sequence[Change]
) -> Iterator[Change]:
    """Yield the changes, those of a model with what its graphs say of the difference."""
    said: dict[tuple[Path, Path], tuple[str, ...]] = {}
    paths = {variant.name: variant.path for variant in deployment.variants}
    for change in changes:
        before = baseline.models.get((change.target, change.variant))
        after = paths.get(change.variant)
        if change.axis is not Axis.MODEL or before is None or after is None:
            yield change
            continue
        if (before, after) not in said:
            said[before, after] = _model_sentences(before, after)
        yield replace(change, sentences=said[before, after])


def _foreseen(deployment: Deployment, changes: ChangeSet) -> Iterator[Finding]:
    """Yield what the runtime bumps of a change set are known to bring."""
    before = {(b.target, b.variant): b.runtime for b in changes.baselines}
    paths = {variant.name: variant.path for variant in deployment.variants}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for identity in changes.identities:
        old = before.get((identity.target, identity.variant), identity.runtime)
        if old == identity.runtime:
            continue
        host = json.loads(identity.host) if identity.host else {}
        needs = _needs(paths[identity.variant])
        asked = python_of(identity.runtime)
        for item in foresee(old, identity.runtime, host, asked or python, models=(needs,)):
            yield Finding(
                id=item.id,
                outcome=Outcome.FAIL if item.blocking else Outcome.PASS,
                subject=Subject(target=identity.target),
                evidence=f"{item.sentence} ({item.evidence})",
                remedy=item.remedy,
                advisory=True,
            )


def _needs(model: Path) -> ModelNeeds:
    graph = load_graph(model)
    opsets = {opset.domain or "ai.onnx": opset.version for opset in graph.opset_import}
    return ModelNeeds(opset=opsets.get("ai.onnx", 0), ir_version=graph.ir_version)


def _model_sentences(before: Path, after: Path) -> tuple[str, ...]:
    sides = [read_model_facts(path, semantic=True) for path in (before, after)]
    return explain_models(sides[0], sides[1])
