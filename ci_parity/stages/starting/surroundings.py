"""Where a repository lives and what its workflows already say: read, never asked.

The remote's address names the platform; nothing is sent to it.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_parity.base import git
from ci_parity.base.errors import CiParityError, EvidenceError
from ci_parity.base.process import Completed

PLATFORMS = ("github", "forgejo", "gitea", "gitlab")
SELF_HOSTED = ("self-hosted",)
_FOLDERS = {"forgejo": ".forgejo", "gitea": ".gitea", "github": ".github"}
_HOSTS = {
    "github": "github", "gitlab": "gitlab", "forgejo": "forgejo", "codeberg.org": "forgejo",
    "gitea": "gitea",
}  # fmt: skip
_OTHER_SYSTEMS = ("windows", "macos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A repository seen from `root`, which lies `prefix` below its top.

    `host` is the remote's, empty without one; `branch` the default branch and `on_branch` the one
    checked out. `certain` says that `platform` is no mere guess. `runs_on` are the labels that its
    workflows ask for, empty where there are none. `lfs` says that Git LFS keeps some files.
    """

    root: Path
    top: Path
    prefix: str
    is_git: bool
    host: str
    platform: str
    certain: bool
    branch: str
    on_branch: str
    runs_on: tuple[str, ...]
    lfs: bool

    def seen(self, path: Path) -> str:
        """Return a path as a shell in the folder of the deployment takes it."""
        return Path(os.path.relpath(path, self.root)).as_posix()

    @property
    def workflow(self) -> Path | None:
        """Where the workflow belongs; None for a platform that has another format."""
        folder = _FOLDERS.get(self.platform)
        if folder is None:
            return None
        name = self.prefix.replace("/", "-")
        return self.top / folder / "workflows" / f"ci-parity{'-' + name if name else ''}.yml"


def read_surroundings(root: Path, platform: str = "") -> Surroundings:
    """Return what the repository around `root` says of itself; a folder without git is its own.

    Args:
        root: the folder of the deployment.
        platform: one of PLATFORMS where the user named it.
    """
    top = _said(root, "rev-parse", "--show-toplevel")
    place = Path(top) if top else root
    prefix = _said(root, "rev-parse", "--show-prefix").strip("/") if top else ""
    host = _host(root) if top else ""
    guessed, certain = _platform(host, place)
    return Surroundings(
        root=root, top=place, prefix=prefix, is_git=bool(top), host=host,
        platform=platform or guessed, certain=bool(platform) or certain, branch=_branch(root),
        on_branch=_said(root, "symbolic-ref", "--quiet", "--short", "HEAD"),
        runs_on=_runs_on(place), lfs=_lfs(place),
    )  # fmt: skip


def is_tracked_or_new(surroundings: Surroundings, path: Path) -> bool:
    """Whether a checkout has, or will have, a file: git does not ignore it."""
    if not surroundings.is_git:
        return True
    return git.ask(surroundings.root, "check-ignore", "--quiet", "--", str(path)).returncode != 0


def is_tracked(surroundings: Surroundings, path: Path) -> bool:
    """Whether git knows a file already."""
    known = ("ls-files", "--error-unmatch", "--", str(path))
    return surroundings.is_git and git.ask(surroundings.root, *known).returncode == 0


def _said(root: Path, *arguments: str) -> str:
    """Return what git prints; nothing where it fails, is missing, or is not to be trusted."""
    try:
        done = git.ask(root, *arguments)
    except CiParityError:
        return ""
    return git.text_of(done) if done.returncode == 0 else ""


def _host(root: Path) -> str:
    remote = git.remote_of(root, "origin", push=False)
    if isinstance(remote, Completed) or Path(remote.url).is_absolute():
        return ""
    name = remote.name
    return name.partition("/")[0].lower() if "/" in name else ""


def _platform(host: str, top: Path) -> tuple[str, bool]:
    """Return the platform, and whether it is certain: by host, then by the folders there are."""
    for part, platform in _HOSTS.items():
        if part in host:
            return platform, True
    for platform, folder in _FOLDERS.items():
        if (top / folder / "workflows").is_dir():
            return platform, True
    if (top / ".gitlab-ci.yml").exists():
        return "gitlab", True
    return "github", False


def _branch(root: Path) -> str:
    """Return the default branch: the remote's if git knows it, else main or master, else ours."""
    remote = _said(root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    if remote.startswith("origin/"):
        return remote.removeprefix("origin/")
    for name in ("main", "master"):
        for place in (f"refs/remotes/origin/{name}", f"refs/heads/{name}"):
            if _said(root, "rev-parse", "--verify", "--quiet", place):
                return name
    return _said(root, "symbolic-ref", "--quiet", "--short", "HEAD") or "main"


def _runs_on(top: Path) -> tuple[str, ...]:
    """Return the labels that most jobs of the repository ask for, self-hosted ones first."""
    found = Counter(
        labels
        for folder in _FOLDERS.values()
        for path in sorted((top / folder / "workflows").glob("*.y*ml"))
        for labels in _labels(path)
    )
    own = [labels for labels, _ in found.most_common() if SELF_HOSTED[0] in labels]
    every = [labels for labels, _ in found.most_common()]
    return (own or every or [()])[0]


def _labels(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the labels of each job for Linux; what cannot be read has none."""
    import yaml

    try:
        loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        jobs = list(loaded["jobs"].values())
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return
    for job in jobs:
        given = job.get("runs-on") if isinstance(job, dict) else None
        listed = given if isinstance(given, list) else []
        labels = (given,) if isinstance(given, str) else tuple(listed)
        plain = all(isinstance(label, str) and "${{" not in label for label in labels)
        if labels and plain and not any(o in " ".join(labels).lower() for o in _OTHER_SYSTEMS):
            yield labels


def _lfs(top: Path) -> bool:
    try:
        return "filter=lfs" in (top / ".gitattributes").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def refuse_unwritable(folder: Path) -> None:
    """Refuse, before any work, a folder that takes no file.

    Raises:
        EvidenceError: naming it.
    """
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise EvidenceError(
            f"nothing can be written here: {error.strerror or error}",
            where=str(folder),
            remedy="run it in a checkout of your own, or look first with --dry-run",
        ) from error
