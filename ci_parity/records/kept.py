"""A run whose observations were kept, so that they can be judged again without running anything.

One folder holds `run.json`, which is a `KeptRun`, and a folder for the inputs, for each place that
observations have their files in, and for each measurement of noise. Nothing here judges.
"""

from dataclasses import dataclass

from ci_parity.records.identity import ChangeSet
from ci_parity.records.latency import LatencyRun
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.observation import InputSet, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """One file by its POSIX path below the folder."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSystem:
    """What was run, and the number of its observation in `KeptRun.observations`.

    `name` is the variant or target by which another system of the deployment is known, empty for a
    candidate or a baseline. `model` is the digest of graph and external data; `options` is
    canonical JSON.
    """

    observation: int
    label: str
    environment: str
    runtime: str
    provider: str
    options: str
    model: str
    name: str = ""
    deployed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptThreads:
    """The run with `count` threads; `observation` is None where there is none, and `why_not`."""

    count: int
    observation: int | None
    why_not: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPair:
    """A variant on a target: its systems, and observations by their number."""

    target: str
    variant: str
    unavailable: str
    expected: tuple[str, ...]
    candidate: KeptSystem
    baseline: KeptSystem | None
    made_from: KeptSystem | None
    reference: KeptSystem | None
    references: int | None
    derived: int | None
    threads: KeptThreads
    latency: LatencyRun | None
    ancestors: tuple[str, ...]
    reference_target: str
    lacks_unquantized: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedInputs:
    """A case that was made of stored ones for a check, and the digest of what it was fed."""

    case: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFloors:
    """The noise floors that one boundary was judged by, by its kind, target and variant."""

    kind: int
    target: str
    variant: str
    floors: NoiseFloors


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """Everything a judgement needs of one run.

    `key` identifies systems, inputs and how they were run; `settings` is that last part as
    canonical JSON. `changes` are those of the run, its identities as they were measured; `host` is
    the machine it ran on.
    """

    version: int
    key: str
    deployment: str
    recorded_at: str
    tool_version: str
    host: str
    settings: str
    bundle: str
    changes: ChangeSet
    inputs: InputSet
    derived: tuple[DerivedInputs, ...]
    observations: tuple[Observation, ...]
    pairs: tuple[KeptPair, ...]
    floors: tuple[KeptFloors, ...]
    files: tuple[KeptFile, ...]
