"""One case of a deployment, walked from its raw input to the verdict.

The same steps as a check's: the inputs are rebuilt and held against the stored ones, the models
run, each output is held against its reference, and what is said of it is read off the same findings
and numbers. Here they are put side by side with what was computed on the way, for a person.
"""

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.config.model import Deployment
from ci_parity.fixtures.store import Case, FixtureSet, read_inputs
from ci_parity.records.explanation import ExplainedRaw, ExplainedRun, Explanation, NamedTensor
from ci_parity.records.finding import Finding, OutputComparison
from ci_parity.records.identity import BaselineSource, ChangeSet, PairName
from ci_parity.records.outcome import Outcome
from ci_parity.run.environments import cache_folder
from ci_parity.stages.custom_judges import run_judges
from ci_parity.stages.explained_outputs import PolicyLines, decisions_of, outputs_of, summary
from ci_parity.stages.fixture_changes import OpenSet
from ci_parity.stages.identify import Baseline, fixtures_of
from ci_parity.stages.judge import Judgement, judge
from ci_parity.stages.noise import Calibrator
from ci_parity.stages.one_target import only_target
from ci_parity.stages.pairs import pairs_to_run
from ci_parity.stages.preprocessing import pipeline_of
from ci_parity.stages.rebuilding import Rebuilder, StoredOtherwiseError, judge_rebuilt, rebuilt_row
from ci_parity.stages.suite import PairRun, fixture_inputs, run_pairs, stored_references


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """The case that is explained, alone in its set."""

    deployment: Deployment
    cases: OpenSet
    case: Case
    work: Path


def explain_case(
    deployment: Deployment, name: str, target: str, work: Path, progress: Progress
) -> Explanation:
    """Run one case on one target and say how its verdict comes about.

    1. What the application got, and what the pipeline makes of it, step by step.
    2. The models, on the runtime and provider that the target names.
    3. Each output and decision, with the limit and the line of the config that it comes from.

    Args:
        deployment: whose case it is.
        name: of the case.
        target: the target to run on; empty for the one that the others are compared with.
        work: scratch space.
        progress: where the work is announced.

    Raises:
        CiParityError: there is no such case or target, or nothing can be run.
    """
    only = only_target(deployment, target or deployment.reference_target.name)
    signature, fixtures = fixtures_of(only)
    case = _chosen(fixtures, name)
    alone = OpenSet(fixtures=replace(fixtures, cases=(case,)), signature=signature)
    about = _Case(deployment=only, cases=alone, case=case, work=work)
    rebuilt = judge_rebuilt(only, alone, work / "rebuilt", progress)
    raws = tuple(_raws(about))
    runs, judgement = _run(about, progress)
    judgement = judgement.led_by(rebuilt)
    binding = [f for f in judgement.findings if not f.advisory]
    return Explanation(
        deployment=deployment.name, case=case.name, classes=case.classes,
        description=case.description, provenance=case.provenance,
        pipeline=_below(only.preprocess, only.root) if only.preprocess else "",
        raws=raws,
        inputs=tuple(
            NamedTensor(name=port, tensor=summary(value))
            for port, value in read_inputs(case, signature).items()
        ),
        fed=Outcome.worst([f.outcome for f in rebuilt.findings]) if rebuilt.findings else None,
        runs=tuple(_explained(about, run, judgement) for run in runs),
        outcome=judgement.outcome, checks=len(binding),
        held=sum(f.outcome is Outcome.PASS for f in binding),
    )  # fmt: skip


def _chosen(fixtures: FixtureSet, name: str) -> Case:
    known = {case.name: case for case in fixtures.cases}
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        raise EvidenceError(
            f"there is no case {name!r}",
            where=fixtures.name,
            remedy=f"did you mean {close[0]!r}?" if close else f"stored: {', '.join(known)}",
        )
    return known[name]


def _raws(about: _Case) -> Iterator[ExplainedRaw]:
    """Yield every raw file with its steps; what cannot be rebuilt here says why."""
    case, deployment = about.case, about.deployment
    pipeline = pipeline_of(deployment.preprocess, deployment.root) if case.raw else None
    with ExitStack() as stack:
        rebuilder = None
        if pipeline is not None:
            scratch, timeout_s = about.work / "steps", deployment.policy.timeout_s
            rebuilder = Rebuilder(pipeline, deployment.root, scratch, timeout_s)
            stack.enter_context(rebuilder)
        for name, files in case.raw.items():
            for row, file in enumerate(files):
                said = ExplainedRaw(
                    input=name, path=_below(file, about.cases.fixtures.folder),
                    size_bytes=file.stat().st_size, sha256=sha256_file(file),
                )  # fmt: skip
                yield _rebuilt(about, said, rebuilder, name, row)


def _rebuilt(
    about: _Case, said: ExplainedRaw, rebuilder: Rebuilder | None, name: str, row: int
) -> ExplainedRaw:  # fmt: skip
    if rebuilder is None:
        return replace(said, problem="the config names no pipeline")
    case = about.case
    try:
        stored = read_inputs(case, about.cases.signature)
        compared = rebuilt_row(rebuilder, case, stored, name, row)
        steps = rebuilder.steps(case.raw[name][row], case)
    except StoredOtherwiseError as error:
        return replace(said, problem=str(error))
    except CiParityError as error:
        return replace(said, problem=f"{error.what} {error.remedy}".strip())
    return replace(said, steps=steps, diagnosis=compared.diagnosis)


def _run(about: _Case, progress: Progress) -> tuple[tuple[PairRun, ...], Judgement]:
    deployment, cases, work = about.deployment, about.cases, about.work
    source = BaselineSource(kind="none", reason="one case is explained")
    (target,) = deployment.targets
    changes = ChangeSet(
        source=source, changes=(), identities=(), baselines=(),
        to_run=tuple(
            PairName(target=target.name, variant=v.name) for v in deployment.variants_on(target)
        ),
    )  # fmt: skip
    pairs = pairs_to_run(deployment, Baseline(source=source), changes)
    opened = (cases.fixtures, cases.signature)
    inputs = fixture_inputs(*opened, work / "inputs")
    references = stored_references(*opened, work / "references")
    runs = run_pairs(pairs, inputs, references, deployment.policy, work / "runs", progress)
    floors = Calibrator(
        inputs=inputs, folder=work / "noise", cache=cache_folder(), progress=progress
    )
    judged = judge(runs, deployment.policy, floors)
    return runs, judged.plus(run_judges(runs, inputs, deployment.policy, work / "judges", progress))


def _explained(about: _Case, run: PairRun, judgement: Judgement) -> ExplainedRun:
    side, pair = run.candidate, run.pair
    lines = PolicyLines.of(about.deployment)
    findings = [f for f in judgement.findings if _about(f, pair.target, pair.variant)]
    compared = [o for o in judgement.outputs if _about(o, pair.target, pair.variant)]
    return ExplainedRun(
        target=pair.target, variant=pair.variant, system=_system(run),
        provider_asked=pair.candidate.target.provider, providers_used=side.providers_used,
        outputs=tuple(outputs_of(run, compared, lines)),
        decisions=tuple(decisions_of(run, findings, about.deployment.policy, lines)),
        others=tuple(_others(findings)),
    )  # fmt: skip


def _others(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        told = finding.id.startswith(("decision.", "output.values"))
        if finding.outcome is not Outcome.PASS and not told:
            place = " / ".join(p for p in (finding.subject.boundary, finding.subject.output) if p)
            yield f"{finding.outcome.value} {finding.id} {place}: {finding.evidence}"


def _about(said: Finding | OutputComparison, target: str, variant: str) -> bool:
    return (said.subject.target, said.subject.variant) == (target, variant)


def _system(run: PairRun) -> str:
    info = run.candidate.runtime
    if info is None:
        return f"{run.candidate.label}: {run.candidate.load_message or 'it did not start'}"
    words = [f"{info.name} {info.version}", f"Python {info.python}" if info.python else ""]
    return ", ".join(word for word in words if word)


def _below(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
