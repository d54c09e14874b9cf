"""Git as we call it: never written to, never asked for a password, no hook run, no secret shown.

What reads the history and what keeps the release log both reach a user's repository, and its
remote, through here. The user's repository is only asked; its owner may be another user. Addresses
and credentials travel in the environment, never on a command line that others can read.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.process import Completed, packaging_environment, run

LOCAL_TIMEOUT_S = 60.0
# What git itself asks of the environment to reach a remote, beside proxies and trust stores.
_PASSED = ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME")
_SETTINGS: Mapping[str, str] = {
    "safe.directory": "*",  # git honours it from the command scope alone, which this becomes
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.pushUpdateRejected": "false",
}
_ACCESS = r"^(http|credential)\.|^core\.sshcommand$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """How to reach a remote: its address, object format and access settings, secrets among them."""

    url: str
    object_format: str
    access: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The address as a log's origin: host and path, or a folder's name; no user, no secret."""
        web = re.match(r"(?!file:)[a-z][a-z0-9+.-]*://(?:[^/@]*@)?([^/:]+)(?::\d+)?/(.*)", self.url)
        scp = re.match(r"(?:[^/@]+@)?([^/:]+):(?!//)(.*)", self.url)
        if match := web or scp:
            name = f"{match[1]}/{match[2].strip('/')}"
        else:
            name = self.url.rstrip("/").rpartition("/")[2]
        return name.removesuffix(".git") or "log"


def ask(repository: Path, *arguments: str, timeout_s: float = LOCAL_TIMEOUT_S) -> Completed:
    """Run git in a repository and return what it said, whatever its exit status.

    Raises:
        EvidenceError: a folder of the work tree would be taken for a repository.
        InfrastructureError: git cannot be started, or does not end in time.
    """
    _refuse_disguised(repository)
    return run(("git", "-C", repository, *arguments), env=environment(), timeout_s=timeout_s)


def remote_of(repository: Path, remote: str, *, push: bool) -> Remote | Completed:
    """Return how a repository reaches `remote`; where it has none, what git said of it."""
    direction = ["--push"] if push else []
    found = ask(repository, "remote", "get-url", *direction, remote)
    if found.returncode != 0:
        return found
    url = text_of(found)
    if not re.match(r"[^/]+:", url) and not Path(url).is_absolute():
        top = text_of(ask(repository, "rev-parse", "--show-toplevel"))
        url = str(Path(top or repository, url).resolve())
    object_format = text_of(ask(repository, "rev-parse", "--show-object-format"))
    access = ask(repository, "config", "--local", "--includes", "-z", "--get-regexp", _ACCESS)
    pairs = (item.partition("\n") for item in os.fsdecode(access.stdout).split("\0") if item)
    return Remote(
        url=url,
        object_format=object_format or "sha1",
        access=tuple((key, value if line else "true") for key, line, value in pairs),
    )


def redacted(text: str) -> str:
    """Return `text` without the user and password of any address in it."""
    return re.sub(r"://[^/@\s]*@", "://", text)


def environment(
    settings: Mapping[str, str] | None = None, access: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return git's environment: its own settings, then `settings` and `access` as command scope."""
    pairs = [*_SETTINGS.items(), *(settings or {}).items(), *access]
    config = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        config |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return packaging_environment(passed | quiet | config)


def _refuse_disguised(folder: Path) -> None:
    """Refuse a folder that git would take for a bare repository, with commands in its settings.

    A commit can hold such a folder, but nothing called `.git`; git looks from here upwards.
    """
    physical = folder.resolve()
    for place in (physical, *physical.parents):
        if os.path.lexists(place / ".git"):
            return
        parts = all((place / part).is_dir() for part in ("objects", "refs"))
        if os.path.lexists(place / "HEAD") and (parts or os.path.lexists(place / "commondir")):
            raise EvidenceError(
                "the folder looks like a git repository without a work tree",
                where=str(place),
                remedy="move the files HEAD and commondir, or objects and refs, elsewhere",
            )


def text_of(done: Completed) -> str:
    """Return what git printed, without the line's end."""
    return os.fsdecode(done.stdout).strip()
