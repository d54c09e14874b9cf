"""One commit status of a fixed name: pending from the start, closed when the run ends.

It is a decoration beside the job's exit code, which stays the gate. On a merge group, which has no
conversation to comment on, it is what the queue shows. A status that cannot be written is said once
and costs nothing else.
"""

import enum
import logging
from collections.abc import Callable, Mapping

from ci_parity.base.errors import PublishError
from ci_parity.github.client import RestClient
from ci_parity.github.refusals import ApiError

_LOG = logging.getLogger(__name__)
# The API refuses longer descriptions.
_DESCRIPTION_LENGTH = 140
_ATTEMPTS = 3


class State(enum.Enum):
    """The states that GitHub, Gitea and Forgejo share."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


class CommitStatus:
    """The status `name` of one commit.

    Args:
        connect: gives the API, with a token that may write statuses; asked for each writing, since
            a client has only so much patience in all.
        repository: OWNER/NAME.
        sha: the commit.
        name: what tells it apart from other statuses, and branch rules may ask for.
        url: where a click leads.
    """

    def __init__(
        self, connect: Callable[[], RestClient], repository: str, sha: str, name: str, *, url: str
    ) -> None:
        self._connect = connect
        self._path = f"/repos/{repository}/statuses/{sha}"
        self._name = name
        self._url = url
        self._refused = False

    def write(self, state: State, description: str) -> None:
        """Say how far the run is; the newest saying of a name counts, so a repetition is harmless.

        After a refusal nothing more is tried: it would be refused again.
        """
        if self._refused:
            return
        if len(description) > _DESCRIPTION_LENGTH:
            description = f"{description[: _DESCRIPTION_LENGTH - 1]}…"
        data = {
            "state": state.value, "context": self._name, "description": description,
            "target_url": self._url,
        }  # fmt: skip
        try:
            self._post(data)
        except PublishError as error:
            self._refused = not getattr(error, "again", False)
            _LOG.warning("the commit status %r was not written: %s", self._name, error)

    def _post(self, data: Mapping[str, str]) -> None:
        client = self._connect()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                client.post(self._path, data)
            except ApiError as error:
                if not error.again or attempt == _ATTEMPTS:
                    raise
            else:
                return
