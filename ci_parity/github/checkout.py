"""Whose code a run is about to load, on events whose token may write whoever asked for the run.

`pull_request_target` and `workflow_run` give a stranger's pull request a run with secrets, a token
that writes and, on a self-hosted runner, the host. A model, a config and a requirements file are
code. So nothing but commits that the repository vouches for may be judged there, and what cannot be
told counts as a stranger's.
"""

from ci_parity.base.errors import ConfigError
from ci_parity.github.context import GitHubContext

_REMEDY = (
    "judge pull requests on the event 'pull_request', whose token is read-only for a fork; to "
    "comment on a fork's pull request, render its artifacts in a second workflow that checks out "
    "no code of it (workflows/fork-comment.yml); for code of this repository check out the commit "
    "of the event: leave 'ref' and 'repository' of actions/checkout out"
)


def refuse_strangers(context: GitHubContext, commit: str, *, modified: bool) -> None:
    """Refuse to load what the repository does not vouch for.

    Args:
        context: the run.
        commit: what is checked out; empty where that cannot be told.
        modified: whether tracked files differ from `commit`.

    Raises:
        ConfigError: on an event with a token that may write, where anything else is checked out
            than a commit of the repository's own branches.
    """
    if context.vouched is None or (commit in context.vouched and not modified):
        return
    what = f"commit {commit[:12]}" if commit else "something that is no git checkout"
    what += " with changed files" if modified and commit in context.vouched else ""
    raise ConfigError(
        f"{what} is checked out on the event {context.event_name}, where it would run with the "
        "secrets and the writing token of this repository",
        where=f"event {context.event_name}",
        remedy=_REMEDY,
    )
