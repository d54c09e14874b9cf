"""What `init` says of its guesses: what it took, because of what, and where to change it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_parity.config.pinned import PinnedRuntime
from ci_parity.stages.starting.models import StartDeployment
from ci_parity.stages.starting.surroundings import Surroundings, is_tracked_or_new


def of_runtime(pinned: PinnedRuntime | None, runtime: str, around: Surroundings) -> str:
    """Say where the runtime comes from."""
    if pinned is not None:
        return f"runtime {runtime}, because {around.seen(pinned.path)} pins it; change it there"
    return (
        f"runtime {runtime}, the one installed here, because nothing pins onnxruntime; "
        "write production's into the target's runtime, or {requires: FILE}"
    )


def of_workflow(around: Surroundings, path: Path, labels: Sequence[str]) -> Iterator[str]:
    """Say whose workflow was written, and for which runners."""
    if not around.certain:
        why = f"remote {around.host}" if around.host else "there is no remote yet"
        yield f"a GitHub workflow, {why}; --platform forgejo, gitea or gitlab is another"
    source = "as your other workflows have it" if around.runs_on else "no workflow here says more"
    hint = "" if around.runs_on else " (ubuntu-latest does for a CPU target)"
    yield f"runs-on [{', '.join(labels)}], {source}; change it in {around.seen(path)}{hint}"


def of_checkout(around: Surroundings, deployments: Sequence[StartDeployment]) -> Iterator[str]:
    """Say which models a checkout on the runner will not have."""
    for deployment in deployments:
        for variant in deployment.variants:
            if not is_tracked_or_new(around, variant.path):
                yield (
                    f"{around.seen(variant.path)} is ignored by git, so a checkout has none: "
                    "add a step that fetches it before the action"
                )
