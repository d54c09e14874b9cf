"""The last state in which this user saw each release log: what shows that its end was cut off.

One small file a log, named after where the log lies and not after what it says of itself, which
whoever rewrites it could choose. It is never published, so it needs no signature.
"""

import logging
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.files import write_atomic
from ci_parity.release.checkpoint import (
    CHECKPOINT_SUFFIX,
    Checkpoint,
    read_checkpoint,
    sealed,
)

_log = logging.getLogger(__name__)


class LastSeen:
    """The last seen states, in files below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "release-logs"

    def get(self, home: str) -> Checkpoint | None:
        """Return the last seen state of the log at `home`, or `None` when it was never seen.

        Raises:
            EvidenceError: when it cannot be read; it is never taken for one that was not kept.
        """
        path = self.path(home)
        try:
            return read_checkpoint(path.read_bytes(), where=str(path))[0]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EvidenceError(
                f"cannot read the last seen state of the log: {error.strerror or error}",
                where=str(path),
                remedy="make it readable, or pass --checkpoint none",
            ) from error

    def put(self, home: str, checkpoint: Checkpoint) -> None:
        """Keep a state that was verified; where that cannot be done, a warning says so."""
        path = self.path(home)
        try:
            write_atomic(path, sealed(checkpoint, None))
        except OSError as error:
            _log.warning("cannot keep the log's state in %s: %s", path, error.strerror or error)

    def path(self, home: str) -> Path:
        """Return the file of one log; without it the log was never seen."""
        return self._folder / f"{sha256_bytes(home.encode())}{CHECKPOINT_SUFFIX}"
