"""Facts too many for a line of the release log, kept as their digest.

Two identities can still be told apart by it, only the words of the difference are lost.
"""

import json
from typing import TYPE_CHECKING

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "condensed sha256"


def condense(text: str) -> str:
    """Return the condensed form of facts given as canonical JSON text."""
    return canonical_bytes({_KEY: digest_of(text)}).decode()


def is_condensed(text: str) -> bool:
    """Whether a text is what `condense` returns."""
    facts: Mapping[str, str] = json.loads(text)
    return list(facts) == [_KEY]


def digest_of(text: str) -> str:
    """Return the digest of facts, condensed or not: equal for equal facts in either form."""
    facts: Mapping[str, str] = json.loads(text)
    return facts[_KEY] if list(facts) == [_KEY] else sha256_bytes(text.encode())
