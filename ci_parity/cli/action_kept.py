"""What outlives a step: the action runs once more in a container that has a volume for its cache.

A runner gives a container action no volume and no GPU. Where it is known that nothing outlives the
machine, and where the user mounts a cache of their own, the action just runs. Runs that write to
the release log have a volume of their own: they believe nothing that a pull request has cached.
"""

import re
import time
from collections.abc import Mapping
from pathlib import Path

from ci_parity.run.container.again import Wanted, run_again

_VOLUME = "CI_PARITY_CACHE_VOLUME"
_JOB = "INPUT_JOB_CONTAINER"
_TIDY = "CI_PARITY_CACHE_TIDY"
_CACHE = "CI_PARITY_CACHE"
_EPHEMERAL = "github-hosted"
_RECORDING = "-recording"
_CONTAINER = re.compile(r"[0-9a-f]{12,64}")


def run_kept(environ: Mapping[str, str], *, job: str, records: bool) -> int | None:
    """Run the action in a container with what is kept; return its exit status.

    Args:
        environ: what the runner gave the step. `CI_PARITY_CACHE_VOLUME` names the volume, empty for
            none.
        job: the container of the job, whose devices it gets; what is no ID is none.
        records: whether this run writes to the release log.

    Returns:
        None where nothing was run, since there is no way to it or no need.

    Raises:
        InfrastructureError: the daemon was lost in the midst of it.
    """
    volume = environ.get(_VOLUME, "")
    if environ.get("RUNNER_ENVIRONMENT") == _EPHEMERAL or _CACHE not in environ:
        volume = ""
    if not _CONTAINER.fullmatch(job):
        job = ""
    if not volume and not job:
        return None
    wanted = Wanted(
        volume=f"{volume}{_RECORDING * records}" if volume else "",
        cache=Path(environ.get(_CACHE, "")).absolute(),
        job=job,
    )
    return run_again(wanted, {_VOLUME: "", _JOB: "", _TIDY: "true"})


def tidy_kept(environ: Mapping[str, str]) -> None:
    """Remove from a volume what nobody uses any more; trouble costs space, and no verdict."""
    if environ.get(_TIDY) != "true":
        return
    from ci_parity.run.environments import cache_folder
    from ci_parity.stages.caching import tidy

    tidy(cache_folder(), time.time())
