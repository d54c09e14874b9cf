"""Before anything is read: is what is checked out code that this run may load?"""

from pathlib import Path

from ci_parity.base import git
from ci_parity.detect.git import Repository
from ci_parity.github.checkout import refuse_strangers
from ci_parity.github.context import GitHubContext


def refuse_strangers_code(context: GitHubContext, root: Path) -> None:
    """Refuse a stranger's checkout on an event whose token may write; see `github.checkout`.

    Files that git does not track count as changed: they may have been brought by an artifact.

    Raises:
        ConfigError: the repository does not vouch for what lies in `root`.
    """
    if context.vouched is None:
        return
    repository = Repository(folder=root)
    commit = repository.resolve("HEAD") if repository.exists() else ""
    modified = True
    if commit:
        done = git.ask(root, "status", "--porcelain", "--untracked-files=normal")
        modified = done.returncode != 0 or bool(done.stdout.strip())
    refuse_strangers(context, commit, modified=modified)
