"""Tests of single operators that ran on the legs, judged at the gate by the policy that is here.

1. The first leg of each target brings what its models ask for, and what its tests showed.
2. It is held against the models and targets of this checkout: every model by its digest, every
   operator of its graph, every test with exactly one result. A target that brings anything else, or
   nothing, is open.
3. The matrix is made here, and judged as on one machine.

What one test showed is the leg's word, as its tensors are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.config.model import CoveragePolicy, Deployment
from ci_parity.records.coverage import AskedTarget, Signature
from ci_parity.records.coverage_observation import CoverageObservation, ObservedModel, Unmeasured
from ci_parity.records.finding import Finding
from ci_parity.records.identity import ChangeSet
from ci_parity.stages.coverage.checked import judge_coverage, unmeasured
from ci_parity.stages.coverage.sharing import SharedResults
from ci_parity.stages.fanout.leg_folder import ArrivedLeg
from ci_parity.stages.judge import Checked

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_EVIDENCE = 4000
_AGAIN = "run the workflow again, all jobs of it, on one commit and one version of this tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the gate asks the legs for: the deployment here, and the pairs that must be measured."""

    deployment: Deployment
    changes: ChangeSet
    policy: CoveragePolicy

    @property
    def targets(self) -> Mapping[str, tuple[str, ...]]:
        """The variants that must be measured on each target, in the order of the config."""
        pairs = {(name.target, name.variant) for name in self.changes.to_run}
        found = {
            target.name: tuple(
                variant.name
                for variant in self.deployment.variants_on(target)
                if (target.name, variant.name) in pairs
            )
            for target in self.deployment.targets
        }
        return {target: variants for target, variants in found.items() if variants}


def arrived_coverage(
    wanted: Wanted, legs: Sequence[ArrivedLeg], shared: SharedResults | None
) -> Checked:
    """Return what the legs' tests of single operators come to.

    Args:
        wanted: what must be measured.
        legs: those that count.
        shared: takes what was measured now, for those who may believe it.
    """
    if not wanted.policy.measure:
        return Checked()
    found: list[Finding] = []
    for target, variants in wanted.targets.items():
        try:
            observed = _brought(target, legs)
            if not observed.unmeasured:
                _refuse_other(observed, target, variants, wanted)
                _hand_on(observed, shared)
            found += judge_coverage(_about(observed, target), wanted.policy)
        except CiParityError as error:
            words = f"what the leg of {target} says of single operators does not count: "
            one = Unmeasured(
                target=target, words=words + error.what, remedy=error.remedy or _AGAIN
            )  # fmt: skip
            found.append(unmeasured(one))
    return Checked(findings=tuple(_in_order(found, wanted)))


def _brought(target: str, legs: Sequence[ArrivedLeg]) -> CoverageObservation:
    for leg in legs:
        planned = leg.report.leg
        if planned.target == target and planned.part.first and leg.coverage is not None:
            return leg.coverage
    raise EvidenceError(f"no leg of {target} brought any")


def _about(observed: CoverageObservation, target: str) -> CoverageObservation:
    """Return an observation whose words on what was not measured are about the target at hand."""
    if not observed.unmeasured:
        return observed
    first = observed.unmeasured[0]
    return CoverageObservation(
        unmeasured=(
            Unmeasured(
                target=target, words=first.words[:_MAX_EVIDENCE],
                remedy=first.remedy[:_MAX_EVIDENCE],
            ),
        )
    )  # fmt: skip


def _refuse_other(
    observed: CoverageObservation, target: str, variants: Sequence[str], wanted: Wanted
) -> None:
    """Refuse what is not of this target and these models, whole.

    Raises:
        EvidenceError: for the first that differs.
    """
    if [one.name for one in observed.targets] != [target] or observed.before:
        raise EvidenceError("it is about other targets")
    asked = observed.targets[0]
    own = next(one for one in wanted.deployment.targets if one.name == target)
    if asked.provider != own.provider:
        raise EvidenceError(f"it is about {asked.provider}, not {own.provider}")
    if sorted(model.variant for model in observed.models) != sorted(variants):
        raise EvidenceError("it is about other variants than those that must run")
    digests = {(i.target, i.variant): i.model for i in wanted.changes.identities}
    paths = {variant.name: variant.path for variant in wanted.deployment.variants}
    for model in observed.models:
        if model.targets != (target,) or model.sha256 != digests.get((target, model.variant)):
            raise EvidenceError(f"it is about another model than {model.variant} here")
        missing = operators_of(paths[model.variant]) - _operators(
            one.signature for one in model.used
        )
        if missing:
            names = ", ".join(sorted({name or domain for domain, name, _ in missing}))
            raise EvidenceError(f"it leaves out operators of {model.variant}: {names}")
    _refuse_other_tests(observed.models, asked)


def _refuse_other_tests(models: Sequence[ObservedModel], asked: AskedTarget) -> None:
    """Refuse results that are not exactly one for each test."""
    tests = {case.id: case.digest for model in models for case in model.cases}
    if any(len({case.id for case in m.cases}) < len(m.cases) for m in models):
        raise EvidenceError("it names a test twice")
    if asked.results.keys() != tests.keys():
        raise EvidenceError("it does not have one result for each test")
    if any(name != result.case for name, result in asked.results.items()):
        raise EvidenceError("a result is of another test than it is said to be")
    if any(len(result.evidence) > _MAX_EVIDENCE for result in asked.results.values()):
        raise EvidenceError("a result says more than is ever said")
    if not all(_DIGEST.fullmatch(text) for text in (asked.system, *tests.values())):
        raise EvidenceError("a digest is none")


def operators_of(model: Path) -> frozenset[tuple[str, str, int]]:
    """Return the operators of a model's graph, as far as the graph alone tells.

    Raises:
        EvidenceError: it is no model.
    """
    from ci_parity.coverage.inference import read_whole
    from ci_parity.coverage.signatures import sightings_of

    return _operators(sighting.signature for sighting in sightings_of(read_whole(model)))


def _operators(signatures: Iterable[Signature]) -> frozenset[tuple[str, str, int]]:
    return frozenset((one.domain, one.op_type, one.since_version) for one in signatures)


def _hand_on(observed: CoverageObservation, shared: SharedResults | None) -> None:
    """Let others know what was measured now."""
    if shared is None:
        return
    from ci_parity.coverage.results import KeptResult

    asked = observed.targets[0]
    tests = {case.id: case.digest for model in observed.models for case in model.cases}
    shared.add(
        asked.system, asked.runtime,
        [
            KeptResult(digest=tests[name], result=asked.results[name])
            for name in asked.measured
            if name in tests
        ],
    )  # fmt: skip


def _in_order(findings: Iterable[Finding], wanted: Wanted) -> Iterator[Finding]:
    """Yield findings in the order in which one machine finds them: by variant, then by target."""
    variants = [variant.name for variant in wanted.deployment.variants]
    targets = [target.name for target in wanted.deployment.targets]

    def place(finding: Finding) -> tuple[int, int]:
        subject = finding.subject
        variant = variants.index(subject.variant) if subject.variant else len(variants)
        return variant, targets.index(subject.target)

    yield from sorted(findings, key=place)
