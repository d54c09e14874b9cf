"""Results of node tests that runs share: an index in the store, and what it names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSystem:
    """Where a store keeps what node tests showed on one system.

    `system` is the digest of everything that a result depends on beside the test; `label` is for
    readers alone. `sha256` and `size_bytes` are of the object with the results; `used` is the day
    on which a recorded run last asked for them.
    """

    system: str
    label: str
    sha256: str
    size_bytes: int
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedIndex:
    """All systems whose results runs share, as one object that a line of the release log names."""

    version: int
    systems: tuple[SharedSystem, ...]
