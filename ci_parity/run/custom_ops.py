"""Libraries of custom operators: code a worker loads, allowed by the digest of its bytes alone.

The config names a path and a SHA-256. Here the path becomes one that a worker can open; what it
opens it hashes, and loads the very bytes that it hashed, from a copy of its own, or refuses. So it
does not matter who can write to the path, and a baseline's library may lie in the checkout.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_parity.base.canonical import Json

_KEY = "custom_ops"


def with_libraries(options: Mapping[str, Json], roots: Sequence[Path]) -> dict[str, Json]:
    """Return session options in which each library has all paths that its bytes may be at.

    Args:
        options: as the config has them.
        roots: the folders that the paths start from.
    """
    libraries: Any = options.get(_KEY)
    if libraries is None:
        return dict(options)
    found = [
        {**library, "places": [str((root / library["path"]).absolute()) for root in roots]}
        for library in libraries
    ]
    return {**options, _KEY: found}
