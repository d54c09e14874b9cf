"""`ci-parity init` itself: what would be written, and writing it.

1. The models and their deployments (`models`), the repository and its platform (`surroundings`).
2. The runtime that the repository pins; where it pins none, the one at hand, written down as such.
3. A config for each deployment, a workflow, and inputs where there are no cases (`first_cases`).

Nothing that exists is changed: what is there is kept and said. What was guessed is said with what
changes it.
"""

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.base.progress import Progress
from ci_parity.config import CONFIG_NAME
from ci_parity.config.load import load_deployment
from ci_parity.config.pinned import PinnedRuntime, find_pinned_runtime
from ci_parity.config.runtimes import CURRENT
from ci_parity.config.starter import Starter, starter_config
from ci_parity.config.starter_workflow import StarterWorkflow, starter_workflow, workflow_template
from ci_parity.run.runtime import describe
from ci_parity.stages.starting import first_cases, guesses
from ci_parity.stages.starting.models import StartDeployment, deployments_of, find_models
from ci_parity.stages.starting.surroundings import (
    SELF_HOSTED,
    Surroundings,
    is_tracked,
    is_tracked_or_new,
    read_surroundings,
    refuse_unwritable,
)

# The target that a package stands for: its name, and the provider it is installed for.
_TARGETS: Mapping[str, tuple[str, str]] = {
    "onnxruntime-gpu": ("gpu", "CUDAExecutionProvider"),
    "onnxruntime-openvino": ("openvino", "OpenVINOExecutionProvider"),
    "onnxruntime-webgpu": ("webgpu", "WebGpuExecutionProvider"),
    "onnxruntime-directml": ("directml", "DmlExecutionProvider"),
    "onnxruntime-qnn": ("qnn", "QNNExecutionProvider"),
    "onnxruntime-rocm": ("rocm", "ROCMExecutionProvider"),
    "onnxruntime-migraphx": ("migraphx", "MIGraphXExecutionProvider"),
}
_PLAIN_CPU = ("cpu", "CPUExecutionProvider")
_BRANCH_LOG = "branch:"
REPORT_DIR = "ci-parity-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """What `init` was told; everything may be left to it.

    `models` are the files, none for those that are found. `run` is whether the model may be run for
    references, `log` a release log, `platform` the one to write a workflow for, `dims` the sizes of
    open dimensions, `fixtures` and `out` the fixture folder and the config of the only deployment.
    """

    root: Path
    models: Sequence[Path] = ()
    fixtures: str = ""
    out: str = ""
    platform: str = ""
    log: str = ""
    dims: Mapping[str, int] = field(default_factory=dict)
    run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesWanted:
    """A folder that needs cases, and the model that they are for."""

    folder: Path
    deployment: StartDeployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would be written: `texts` by path, `cases` by folder.

    `configs` are the config files, from the root. `found` says what there is, `kept` what exists
    and stays, `guessed` what may have to be changed.
    """

    surroundings: Surroundings
    runtime: str
    deployments: tuple[StartDeployment, ...]
    texts: Mapping[Path, str]
    cases: tuple[CasesWanted, ...]
    configs: tuple[str, ...]
    found: tuple[str, ...]
    kept: tuple[Path, ...]
    guessed: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Draft:
    texts: dict[Path, str] = field(default_factory=dict)
    cases: list[CasesWanted] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)

    def put(self, path: Path, text: str) -> None:
        """Write a file that is not there, keep one that is."""
        if os.path.lexists(path):
            self.kept.append(path)
        else:
            self.texts[path] = text


def propose(options: InitOptions) -> Proposal:
    """Return what `init` would write; nothing is written or run.

    Raises:
        ConfigError: there is no model, there are too many, or an option fits none of them.
        EvidenceError: a file is no whole ONNX model.
    """
    root = Path(os.path.realpath(options.root))
    models = [_below(root, model) for model in options.models] or find_models(root)
    deployments = deployments_of(models, root)
    if len(deployments) > 1 and (options.out or options.fixtures):
        raise ConfigError(
            f"{len(deployments)} deployments cannot share one config or fixture folder",
            where="--out, --fixtures",
            remedy="name one model, or leave these out",
        )
    around = read_surroundings(root, options.platform)
    pinned = find_pinned_runtime(root)
    runtime = pinned.requirement if pinned else describe(CURRENT)
    draft = _Draft()
    configs = [_propose_one(options, around, pinned, runtime, d, len(deployments) > 1, draft)
               for d in deployments]  # fmt: skip
    if draft.texts:
        draft.guessed.append(guesses.of_runtime(pinned, runtime, around))
    _propose_workflow(options, around, configs, draft, _labels(around, runtime))
    draft.guessed += guesses.of_checkout(around, deployments)
    _ignore_reports(around, draft)
    return Proposal(
        surroundings=around, runtime=runtime, deployments=deployments, texts=draft.texts,
        cases=tuple(draft.cases), configs=tuple(configs), found=tuple(draft.found),
        kept=tuple(draft.kept), guessed=tuple(draft.guessed),
    )  # fmt: skip


def write(
    proposal: Proposal, options: InitOptions, scratch: Path, progress: Progress
) -> tuple[str, ...]:
    """Make the cases, write everything that is not there, and return a line for each.

    Raises:
        EvidenceError: nothing can be written, or a model cannot be run.
    """
    refuse_unwritable(proposal.surroundings.root)
    lines = []
    try:
        for number, wanted in enumerate(proposal.cases):
            place = scratch / str(number)
            lines += _write_cases(proposal, wanted, options, place, progress)
        for path, text in proposal.texts.items():
            write_atomic(path, text.encode())
            lines.append(f"wrote {proposal.surroundings.seen(path)}")
    except OSError as error:
        raise EvidenceError(
            f"cannot be written: {error.strerror or error}", where=str(error.filename or "")
        ) from error
    return tuple(lines)


def next_steps(proposal: Proposal) -> tuple[str, ...]:
    """Return the commands that start it all, as a shell takes them."""
    around = proposal.surroundings
    paths = [*proposal.texts, *(wanted.folder for wanted in proposal.cases)]
    models = [v.path for d in proposal.deployments for v in d.variants]
    paths += [p for p in models if is_tracked_or_new(around, p) and not is_tracked(around, p)]
    names = shlex.join(around.seen(path) for path in paths)
    names_of = " and ".join(deployment.name for deployment in proposal.deployments)
    branch = "git switch -c ci-parity && " if around.on_branch in ("", around.branch) else ""
    if not around.is_git:
        branch = "git init && "
    then = "and open a pull request" if around.host else "once 'origin' is there; a pull request"
    push = f"git push -u origin HEAD   # {then}"
    return (f"{branch}git add {names}", f'git commit -m "Check the parity of {names_of}"', push)


def _propose_one(
    options: InitOptions, around: Surroundings, pinned: PinnedRuntime | None, runtime: str,
    deployment: StartDeployment, several: bool, draft: _Draft,
) -> str:  # fmt: skip
    """Draft the config and the cases of one deployment; return the config's name."""
    root = around.root
    usual = f"{deployment.name}.{CONFIG_NAME}" if several else CONFIG_NAME
    name = options.out or usual
    config = _inside(root, name)
    folder = _cases_folder(options, deployment, root)
    if config.exists():
        folder = _configured(config, deployment)
    target, provider = _TARGETS.get(runtime.partition("==")[0], _PLAIN_CPU)
    generated = not _holds(folder)
    draft.put(config, starter_config(Starter(
        deployment=deployment.name,
        variants=[(v.name, _relative(v.path, root), v.made_from) for v in deployment.variants],
        fixtures=_relative(folder, root), runtime=runtime,
        requires=_relative(pinned.path, root) if pinned else "", target=target, provider=provider,
        runs_on=_labels(around, runtime), ports=_ports(deployment), generated=generated,
        log=options.log,
    )))  # fmt: skip
    for variant in deployment.variants:
        made = f", made from {variant.made_from}" if variant.made_from else ""
        draft.found.append(f"{_relative(variant.path, root)}: {variant.name}{made}")
    if generated:
        draft.cases.append(CasesWanted(folder=folder, deployment=deployment))
    else:
        draft.kept.append(folder)
    return name


def _propose_workflow(
    options: InitOptions, around: Surroundings, configs: Sequence[str], draft: _Draft,
    labels: Sequence[str],
) -> None:  # fmt: skip
    path = around.workflow
    if path is None:
        draft.guessed.append("no workflow: GitLab has another format; docs/reports.md has the job")
        return
    usual = len(configs) == 1 and configs[0] == CONFIG_NAME
    text = starter_workflow(
        workflow_template(),
        StarterWorkflow(
            platform=around.platform, branch=around.branch, runs_on=labels,
            configs=() if usual else configs, folder=around.prefix, lfs=around.lfs,
            appends=options.log.startswith(_BRANCH_LOG),
        ),
    )  # fmt: skip
    draft.put(path, text)
    if path not in draft.texts:
        missing = [name for name in configs if name not in path.read_text("utf-8")]
        if not usual and missing:
            draft.guessed.append(
                f"{around.seen(path)} is left alone: give its step config: {', '.join(missing)}"
            )
        return
    draft.guessed += guesses.of_workflow(around, path, labels)


def _ignore_reports(around: Surroundings, draft: _Draft) -> None:
    """Keep reports out of git, where no file says so yet."""
    path = around.root / ".gitignore"
    if not is_tracked_or_new(around, around.root / REPORT_DIR / "verdict.json"):
        return
    if os.path.lexists(path):
        draft.guessed.append(f"{REPORT_DIR}/ is for no commit; add it to .gitignore")
    else:
        draft.texts[path] = f"/{REPORT_DIR}/\n"


def _write_cases(
    proposal: Proposal, wanted: CasesWanted, options: InitOptions, scratch: Path,
    progress: Progress,
) -> list[str]:  # fmt: skip
    deployment = wanted.deployment
    made = first_cases.make_cases(
        deployment.variants[0].path, deployment.signature, proposal.runtime, options.dims, scratch,
        progress, run=options.run,
    )  # fmt: skip
    first_cases.store(made, deployment.signature, wanted.folder)
    size = sum(f.stat().st_size for f in wanted.folder.rglob("*") if f.is_file())
    where = proposal.surroundings.seen(wanted.folder)
    answered = made.not_run or f"answered by {made.runtime}"
    lines = [f"wrote {where}: {len(made.cases)} generated inputs, {answered}, {_amount(size)}"]
    sizes = ", ".join(f"{symbol}={size}" for symbol, size in first_cases.guessed_sizes(made))
    if sizes:
        lines.append(f"  ordinary sizes: {sizes}; --dim NAME=SIZE sets another")
    reasons: dict[str, list[str]] = {}
    for name, why in made.left_out.items():
        reasons.setdefault(why, []).append(name)
    lines += [f"  left out {', '.join(names)}: {why}" for why, names in reasons.items()]
    return lines


def _configured(config: Path, deployment: StartDeployment) -> Path:
    """Return the fixture folder that a config of these models names.

    Raises:
        ConfigError: it is one of other models, or is wrong.
    """
    existing = load_deployment(config)
    ours = {os.path.realpath(variant.path) for variant in deployment.variants}
    if not ours & {os.path.realpath(variant.path) for variant in existing.variants}:
        raise ConfigError(
            f"there is a config already, of {existing.name}",
            where=str(config),
            remedy=f"name another: --out {deployment.name}.{CONFIG_NAME}",
        )
    return existing.fixtures


def _amount(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.0f} kB"


def _cases_folder(options: InitOptions, deployment: StartDeployment, root: Path) -> Path:
    if options.fixtures:
        return _inside(root, options.fixtures)
    return deployment.fixtures or root / "fixtures" / deployment.name


def _holds(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _labels(around: Surroundings, runtime: str) -> tuple[str, ...]:
    labels = around.runs_on or SELF_HOSTED
    target, _ = _TARGETS.get(runtime.partition("==")[0], _PLAIN_CPU)
    needs = (target,) if target == "gpu" and not around.runs_on else ()
    return (*labels, *needs)


def _ports(deployment: StartDeployment) -> dict[str, list[str]]:
    signature = deployment.signature
    sides = (("inputs", signature.inputs), ("outputs", signature.outputs))
    return {
        side: [f"{port.name}: {port.dtype or port.kind} {port.describe_shape()}" for port in found]
        for side, found in sides
    }


def _below(root: Path, model: Path) -> Path:
    """Return a model that was named, as a path below the root; links are not followed."""
    path = Path(os.path.normpath(Path.cwd() / model))
    for base in (root, Path(os.path.realpath(path.parent))):
        with contextlib.suppress(ValueError):
            return root / (base / path.name if base != root else path).relative_to(root)
    raise ConfigError(
        "the model lies outside the folder of the deployment",
        where=str(model),
        remedy="name the repository that holds it with --root",
    )


def _inside(root: Path, name: str) -> Path:
    path = Path(os.path.normpath(root / name))
    if not path.is_relative_to(root):
        raise ConfigError(
            f"{name!r} leaves the folder of the deployment",
            where=str(root),
            remedy="name a place below it",
        )
    return path


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
