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
from ci_parity.config.model import CoveragePolicy
from ci_parity.config.systems import Target
from ci_parity.coverage.matrix import Tests, changes_of, matrix_of
from ci_parity.coverage.naming import operator_of
from ci_parity.coverage.operator_table import operator_table
from ci_parity.coverage.signatures import Sighting, used
from ci_parity.coverage.suite import suite_cases
from ci_parity.detect.identity import model_digest
from ci_parity.records.coverage import AskedTarget, CoverageReport, Matrix, NodeCase, OperatorTable
from ci_parity.records.coverage_observation import CoverageObservation, ObservedModel
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.observation import InputSet
from ci_parity.records.outcome import Outcome
from ci_parity.run.runtime import HERE, Roots
from ci_parity.stages.coverage.around import around_findings
from ci_parity.stages.coverage.findings import coverage_findings, outcome_of
from ci_parity.stages.coverage.listing import asked_target
from ci_parity.stages.coverage.made import made_cases
from ci_parity.stages.coverage.observing import sightings_with_cases
from ci_parity.stages.coverage.running import LIMIT_S
from ci_parity.stages.coverage.sharing import SharedResults

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
    of a command start from. `shared` is what other runs showed. With `around`, edges around what
    the models ask for are tested as well.
    """

    models: Sequence[AskedModel]
    targets: Sequence[Target]
    policy: CoveragePolicy
    cache: Path
    subject: str = ""
    all_operators: bool = False
    around: bool = False
    baselines: Mapping[str, Target] = field(default_factory=dict)
    roots: Roots = HERE
    timeout_s: float = LIMIT_S
    reproduce: str = ""
    shared: SharedResults | None = None


def measure_coverage(options: CoverageOptions, progress: Progress) -> CoverageReport:
    """Return the coverage of every model on its targets, and of the whole standard if asked for.

    Raises:
        CiParityError: a model, input or runtime that cannot be used; then there is no report.
    """
    observed = observe_coverage(options, progress)
    operators = None
    if options.all_operators:
        suite = suite_cases(options.cache, progress)
        operators = operator_table(Tests.of(suite), observed.targets)
    matrices = matrices_of(observed)
    findings = findings_of(observed, matrices, options.policy)
    if options.around:
        findings = (*findings, *around_findings(observed))
    if operators is not None and not options.models:
        findings = (*findings, *_unmeasured(operators))
    return CoverageReport(
        subject=options.subject, outcome=outcome_of(findings), findings=findings,
        matrices=matrices, operators=operators, reproduce=options.reproduce,
    )  # fmt: skip


def observe_coverage(options: CoverageOptions, progress: Progress) -> CoverageObservation:
    """Return what the models ask for, and what their targets list and show; nothing is judged.

    Raises:
        CiParityError: a model, input or runtime that cannot be used.
    """
    suite = suite_cases(options.cache, progress)
    nodes = [_sightings(model, progress) for model in options.models]
    models = [
        _observed(model, seen, suite, options, progress)
        for model, seen in zip(options.models, nodes, strict=True)
    ]
    wanted = suite if options.all_operators else ()
    asked: list[AskedTarget] = []
    before: list[AskedTarget] = []
    for target in options.targets:
        cases = _cases_on(target, models, wanted)
        on = [
            node
            for model, seen in zip(models, nodes, strict=True)
            for node in seen
            if target.name in model.targets
        ]
        now = _asked(target, cases, on, options, progress)
        if target.name in options.baselines:
            old = options.baselines[target.name]
            before.append(_asked(old, cases, on, options, progress))
            now = replace(now, baseline=before[-1].runtime)
        asked.append(now)
    return CoverageObservation(models=tuple(models), targets=tuple(asked), before=tuple(before))


def matrices_of(observed: CoverageObservation) -> tuple[Matrix, ...]:
    """Return a matrix for each model."""
    return tuple(_matrix(model, observed) for model in observed.models)


def findings_of(
    observed: CoverageObservation, matrices: Sequence[Matrix], policy: CoveragePolicy
) -> tuple[Finding, ...]:
    """Return what the matrices of an observation's models come to by a policy."""
    return tuple(
        finding
        for model, matrix in zip(observed.models, matrices, strict=True)
        for finding in coverage_findings(matrix, policy, model.variant)
    )


def _observed(
    model: AskedModel, sightings: Sequence[Sighting], suite: Sequence[NodeCase],
    options: CoverageOptions, progress: Progress,
) -> ObservedModel:  # fmt: skip
    """Return what a model asks for, the suite's tests of those operators, and those made for it."""
    wanted = {operator_of(sighting.signature) for sighting in sightings}
    known = [case for case in suite if wanted & {operator_of(s) for s in case.signatures}]
    made, not_made = made_cases(
        sightings, known, cache=options.cache, progress=progress, around=options.around,
        shared=options.shared, model=model.name,
    )  # fmt: skip
    return ObservedModel(
        name=model.name, variant=model.variant, sha256=model_digest(model.path),
        targets=tuple(target.name for target in model.targets), used=used(sightings),
        cases=(*known, *made), not_made=tuple(not_made),
    )  # fmt: skip


def _sightings(model: AskedModel, progress: Progress) -> tuple[Sighting, ...]:
    if model.inputs is None:
        return sightings_with_cases(model.path, None, progress=progress)
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        inputs = model.inputs(Path(scratch))
        return sightings_with_cases(model.path, inputs, progress=progress)


def _cases_on(
    target: Target, models: Sequence[ObservedModel], wanted: Sequence[NodeCase]
) -> tuple[NodeCase, ...]:
    """Return the tests that are put to a target, each once."""
    found = {case.id: case for case in wanted}
    for model in models:
        if target.name in model.targets:
            found |= {case.id: case for case in model.cases}
    return tuple(found.values())


def _asked(
    target: Target, cases: Sequence[NodeCase], nodes: Sequence[Sighting],
    options: CoverageOptions, progress: Progress,
) -> AskedTarget:  # fmt: skip
    models = [*(model.path for model in options.models), *(case.model for case in cases[:1])]
    return asked_target(
        target, cases, models[0], cache=options.cache, progress=progress, nodes=nodes,
        timeout_s=options.timeout_s, roots=options.roots, shared=options.shared,
    )  # fmt: skip


def _matrix(model: ObservedModel, observed: CoverageObservation) -> Matrix:
    tests = Tests.of(model.cases, model.not_made)
    now, was = (
        matrix_of(
            model.name, model.sha256, model.used, tests,
            [by_name[name] for name in model.targets if name in by_name],
        )
        for by_name in (
            {target.name: target for target in side}
            for side in (observed.targets, observed.before)
        )
    )  # fmt: skip
    return replace(now, changes=changes_of(was.cells, now.cells))


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
