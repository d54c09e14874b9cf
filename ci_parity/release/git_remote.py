"""One branch of a git remote, reached through a temporary bare repository of our own.

The user's repository is only asked for the remote's address and for the credentials configured
beside it; nothing is ever written there, and its owner may be another user. Address and credentials
travel in the environment, never on a command line that other users of the machine can read. Only
the tip is fetched: every commit holds the whole log. A remote that cannot be asked is an error,
never a branch that does not exist.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.errors import ConfigError, EvidenceError, InfrastructureError
from ci_parity.base.process import Completed, packaging_environment, run

_LOCAL_TIMEOUT_S = 60.0
_REMOTE_TIMEOUT_S = 180.0
_AUTHOR = {"NAME": "ci-parity", "EMAIL": "ci-parity@noreply.invalid"}
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


def find_remote(repository: Path, remote: str, *, push: bool) -> Remote:
    """Ask the user's repository how to reach `remote`, for pushing or for fetching.

    Raises:
        ConfigError: when there is no repository or no such remote.
    """
    direction = ["--push"] if push else []
    found = _ask(repository, "remote", "get-url", *direction, remote)
    if found.returncode != 0:
        raise ConfigError(
            f"the release log is on a branch, but there is no git remote {remote!r}: "
            f"{redacted(found.last_words)}",
            where=str(repository),
            remedy="run inside a clone, or keep the log in a file: `log: file:PATH`",
        )
    url = _text(found)
    if not re.match(r"[^/]+:", url) and not Path(url).is_absolute():
        top = _text(_ask(repository, "rev-parse", "--show-toplevel"))
        url = str(Path(top or repository, url).resolve())
    object_format = _text(_ask(repository, "rev-parse", "--show-object-format"))
    access = _ask(repository, "config", "--local", "--includes", "-z", "--get-regexp", _ACCESS)
    pairs = (item.partition("\n") for item in os.fsdecode(access.stdout).split("\0") if item)
    return Remote(
        url=url,
        object_format=object_format or "sha1",
        access=tuple((key, value if line else "true") for key, line, value in pairs),
    )


def redacted(text: str) -> str:
    """Return `text` without the user and password of any address in it."""
    return re.sub(r"://[^/@\s]*@", "://", text)


class RemoteBranch:
    """A branch whose commits hold files at their root; made by `open_branch`."""

    def __init__(self, folder: Path, remote: Remote, branch: str) -> None:
        self._folder = folder
        self._ref = f"refs/heads/{branch}"
        self._where = f"branch {branch} of {redacted(remote.url)}"
        self._env = _environment({"remote.log.url": remote.url}, remote.access)
        self._tip: str | None = None
        self._git("init", "--quiet", "--bare", "--template=",
                  f"--object-format={remote.object_format}", ".")  # fmt: skip

    def fetch(self) -> str | None:
        """Fetch the branch's newest commit and return its id; `None` when there is no branch.

        Raises:
            InfrastructureError: when the remote cannot be reached or does not let us read.
        """
        refs = self._git("ls-remote", "log", self._ref, timeout_s=_REMOTE_TIMEOUT_S)
        listed = (line.split("\t") for line in _text(refs).splitlines())
        tip = next((commit for commit, ref in listed if ref == self._ref), None)
        if tip is not None and tip != self._tip:
            self._git("fetch", "--quiet", "--no-tags", "--depth=1", "log",
                      f"+{self._ref}:refs/log/tip", timeout_s=_REMOTE_TIMEOUT_S)  # fmt: skip
            tip = _text(self._git("rev-parse", "refs/log/tip"))
        self._tip = tip
        return tip

    def read(self, commit: str, path: str) -> bytes:
        """Return a file of a fetched commit.

        Raises:
            EvidenceError: when the commit does not hold it as a plain file.
        """
        for mode, kind, blob, name in self._tree(commit):
            if name == path and kind == "blob" and mode.startswith("100"):
                return self._git("cat-file", "blob", blob).stdout
        raise EvidenceError(
            f"the branch exists, but does not hold {path}",
            where=self._where,
            remedy="name a branch of its own for the log, and let ci-parity begin it",
        )

    def commit(self, parent: str | None, path: str, data: bytes, *, message: str, date: str) -> str:
        """Make a commit that changes one file of `parent` and keeps the rest; return its id."""
        blob = _text(self._git("hash-object", "-w", "--stdin", stdin=data))
        entries = [entry for entry in self._tree(parent) if entry[3] != path] if parent else []
        entries.append(("100644", "blob", blob, path))
        listing = "".join(f"{mode} {kind} {item}\t{name}\0" for mode, kind, item, name in entries)
        tree = _text(self._git("mktree", "-z", "--missing", stdin=os.fsencode(listing)))
        parents = ["-p", parent] if parent else []
        people = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (_AUTHOR | {"DATE": date}).items()
        }
        return _text(
            self._git("commit-tree", tree, *parents, "-F", "-", stdin=message.encode(), env=people)
        )

    def push(self, commit: str, expected: str | None) -> str:
        """Move the branch from `expected` to `commit`; return nothing, or why that is not certain.

        Any answer may be wrong in one way: the remote may have moved before the answer was lost.
        """
        lease = f"--force-with-lease={self._ref}:{expected or ''}"
        try:
            self._git("push", "--quiet", lease, "log", f"{commit}:{self._ref}",
                      timeout_s=_REMOTE_TIMEOUT_S)  # fmt: skip
        except InfrastructureError as error:
            return error.what
        return ""

    def _tree(self, commit: str) -> list[tuple[str, str, str, str]]:
        """List mode, kind, object and name of all that lies at a commit's root."""
        listing = os.fsdecode(self._git("ls-tree", "-z", commit).stdout)
        entries = []
        for item in filter(None, listing.split("\0")):
            facts, _, name = item.partition("\t")
            mode, kind, blob = facts.split(" ")
            entries.append((mode, kind, blob, name))
        return entries

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = _LOCAL_TIMEOUT_S,
    ) -> Completed:
        done = run(
            ("git", *arguments),
            env=self._env | dict(env or {}),
            timeout_s=timeout_s,
            cwd=self._folder,
            stdin=stdin,
        )
        if done.returncode != 0:
            raise InfrastructureError(
                f"git {arguments[0]} failed: {redacted(done.last_words)}",
                where=self._where,
                remedy="check the remote's address and that the job may read and write there",
            )
        return done


@contextmanager
def open_branch(remote: Remote, branch: str) -> Iterator[RemoteBranch]:
    """Give access to a branch for as long as one reading or appending lasts."""
    with tempfile.TemporaryDirectory(prefix="ci-parity-log-", ignore_cleanup_errors=True) as folder:
        yield RemoteBranch(Path(folder), remote, branch)


def _ask(repository: Path, *arguments: str) -> Completed:
    return run(
        ("git", "-C", repository, *arguments), env=_environment({}, ()), timeout_s=_LOCAL_TIMEOUT_S
    )


def _environment(settings: Mapping[str, str], access: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return git's environment: its own settings, then `settings` and `access` as command scope."""
    pairs = [*_SETTINGS.items(), *settings.items(), *access]
    config = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        config |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return packaging_environment(passed | quiet | config)


def _text(done: Completed) -> str:
    return os.fsdecode(done.stdout).strip()
