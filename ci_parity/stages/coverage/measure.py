"""Operator coverage, top to bottom: models and targets in, a report out.

1. What each model asks for, in its graph and in a run over its cases.
2. The standard's node tests of those operators, and tests made for what these do not reach.
3. What each target lists of itself, and what those tests show on it; the same on the runtime that
   was validated last, where that is asked for.
4. The matrix, what changed in it, and what that comes to by the policy.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.base.progress import Progress
from ci_parity.config.model import CoveragePolicy, Target
from ci_parity.coverage.matrix import Tests, changes_of, matrix_of
from ci_parity.coverage.naming import operator_of
from ci_parity.coverage.operator_table import operator_table
from ci_parity.coverage.signatures import Sighting, used
from ci_parity.coverage.suite import suite_cases
from ci_parity.detect.identity import model_digest
from ci_parity.records.coverage import (
    AskedTarget,
    CoverageReport,
    Matrix,
    NodeCase,
    OperatorTable,
    Signature,
    UsedSignature,
)
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import InputSet
from ci_parity.records.outcome import Outcome
from ci_parity.run.runtime import HERE, Roots
from ci_parity.stages.coverage.findings import coverage_findings, outcome_of
from ci_parity.stages.coverage.listing import asked_target
from ci_parity.stages.coverage.made import made_cases
from ci_parity.stages.coverage.observing import sightings_with_cases
from ci_parity.stages.coverage.running import LIMIT_S

Inputs = Callable[[Path], InputSet]
"""Writes the inputs of a model's cases as exchange files into a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A model, what it is called, and the targets that it runs on.

    `variant` is its name in the config, empty without one; `inputs` is None where its graph is
    looked at alone.
    """

    path: Path
    name: str
    targets: tuple[Target, ...]
    inputs: Inputs | None = None
    variant: str = ""

    def on(self, targets: tuple[Target, ...]) -> "AskedModel":
        """Return the same model on other targets."""
        return replace(self, targets=targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageOptions:
    """What is asked: models, or the whole standard on `targets`, or both.

    `baselines` are targets as they were validated last, by name; `roots` are the folders that paths
    of a command start from, by the name of a target.
    """

    models: Sequence[AskedModel]
    targets: Sequence[Target]
    policy: CoveragePolicy
    cache: Path
    subject: str = ""
    all_operators: bool = False
    baselines: Mapping[str, Target] = field(default_factory=dict)
    roots: Roots = HERE
    timeout_s: float = LIMIT_S
    reproduce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needs:
    """What one model asks for, and the tests of it; `not_made` are reasons why some are missing."""

    model: AskedModel
    sha256: str
    used: tuple[UsedSignature, ...]
    cases: tuple[NodeCase, ...]
    not_made: tuple[tuple[Signature, str], ...]


def measure_coverage(options: CoverageOptions, progress: Progress) -> CoverageReport:
    """Return the coverage of every model on its targets, and of the whole standard if asked for.

    Raises:
        CiParityError: a model, input or runtime that cannot be used; then there is no report.
    """
    suite = suite_cases(options.cache, progress)
    needs = [_needs(model, suite, options, progress) for model in options.models]
    wanted = suite if options.all_operators else ()
    asked: dict[str, AskedTarget] = {}
    before: dict[str, AskedTarget] = {}
    for target in options.targets:
        cases = _cases_on(target, needs, wanted)
        asked[target.name] = _asked(target, cases, options, progress)
        if target.name in options.baselines:
            old = options.baselines[target.name]
            before[target.name] = _asked(old, cases, options, progress)
            label = before[target.name].runtime
            asked[target.name] = replace(asked[target.name], baseline=label)
    matrices = [_matrix(one, asked, before) for one in needs]
    operators = (
        operator_table(Tests.of(suite), [*asked.values()]) if options.all_operators else None
    )
    findings = [
        finding
        for one, matrix in zip(needs, matrices, strict=True)
        for finding in coverage_findings(matrix, options.policy, one.model.variant)
    ]
    if operators is not None and not needs:
        findings += _unmeasured(operators)
    return CoverageReport(
        subject=options.subject, outcome=outcome_of(findings), findings=tuple(findings),
        matrices=tuple(matrices), operators=operators, reproduce=options.reproduce,
    )  # fmt: skip


def _needs(
    model: AskedModel, suite: Sequence[NodeCase], options: CoverageOptions, progress: Progress
) -> _Needs:
    """Return what a model asks for, the suite's tests of those operators, and those made for it."""
    sightings = _sightings(model, progress)
    wanted = {operator_of(sighting.signature) for sighting in sightings}
    known = [case for case in suite if wanted & {operator_of(s) for s in case.signatures}]
    made, not_made = made_cases(sightings, known, cache=options.cache, progress=progress)
    return _Needs(
        model=model, sha256=model_digest(model.path), used=used(sightings),
        cases=(*known, *made), not_made=tuple(not_made),
    )  # fmt: skip


def _sightings(model: AskedModel, progress: Progress) -> tuple[Sighting, ...]:
    if model.inputs is None:
        return sightings_with_cases(model.path, None, progress=progress)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        inputs = model.inputs(Path(scratch))
        return sightings_with_cases(model.path, inputs, progress=progress)


def _cases_on(
    target: Target, needs: Sequence[_Needs], wanted: Sequence[NodeCase]
) -> tuple[NodeCase, ...]:
    """Return the tests that are put to a target, each once."""
    found = {case.id: case for case in wanted}
    for one in needs:
        if target.name in {asked.name for asked in one.model.targets}:
            found |= {case.id: case for case in one.cases}
    return tuple(found.values())


def _asked(
    target: Target, cases: Sequence[NodeCase], options: CoverageOptions, progress: Progress
) -> AskedTarget:
    models = [*(model.path for model in options.models), *(case.model for case in cases[:1])]
    return asked_target(
        target, cases, models[0], cache=options.cache, progress=progress,
        timeout_s=options.timeout_s, roots=options.roots,
    )  # fmt: skip


def _matrix(
    needs: _Needs, asked: Mapping[str, AskedTarget], before: Mapping[str, AskedTarget]
) -> Matrix:
    names = [target.name for target in needs.model.targets if target.name in asked]
    tests = Tests.of(needs.cases, needs.not_made)
    now = _on(needs, tests, [asked[name] for name in names])
    was = _on(needs, tests, [before[name] for name in names if name in before])
    return replace(now, changes=changes_of(was.cells, now.cells))


def _on(needs: _Needs, tests: Tests, targets: Sequence[AskedTarget]) -> Matrix:
    return matrix_of(needs.model.name, needs.sha256, needs.used, tests, targets)


def _unmeasured(table: OperatorTable) -> list[Finding]:
    """Return the targets on which no test of the standard ran."""
    return [
        Finding(
            id="coverage.unmeasured", outcome=Outcome.INCONCLUSIVE,
            subject=Subject(target=target.name),
            evidence=f"no test of an operator ran on {target.runtime}, {target.provider}",
            remedy="see the runtime's messages; it must load a small model",
        )
        for target in table.targets
        if not target.tests
    ]  # fmt: skip
