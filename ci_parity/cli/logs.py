"""The release log that a command is about: what its option names, else what the config does."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import ConfigError

if TYPE_CHECKING:
    from ci_parity.release.store import ReleaseLog


def open_configured(root: Path, log: str, *, signing: bool = False) -> "ReleaseLog":
    """Open a log; with `signing`, what it appends is signed by the key in the environment, if any.

    Raises:
        ConfigError: none is named, or its name or the key cannot be used.
    """
    from ci_parity.config.discover import find_deployment
    from ci_parity.release.signing import find_signing_key
    from ci_parity.release.store import open_log

    spec = log or find_deployment(root).release.log
    if not spec:
        raise ConfigError(
            "no release log is configured",
            where=str(root),
            remedy="set release.log in ci-parity.yml, or pass --log, such as file:PATH",
        )
    return open_log(spec, root, key=find_signing_key(None, os.environ) if signing else None)
