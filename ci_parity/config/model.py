"""The deployment as frozen records: what a validated ci-parity.yml says, with every default set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.canonical import Json, canonical_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """What made a variant: the file that pins its packages and its command, which is never run."""

    requires: Path | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One model file of the chain; paths are absolute, `made_from` names another variant."""

    name: str
    path: Path
    made_from: str = ""
    converter: Converter | None = None
    optimization: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where variants run: runtime requirement, execution provider and options.

    `session_options` and `provider_options` are plain JSON, checked against the schema's lists.
    """

    name: str
    runtime: str = "current"
    provider: str = "CPUExecutionProvider"
    provider_options: Mapping[str, str] = field(default_factory=dict)
    session_options: Mapping[str, Json] = field(default_factory=dict)
    runs_on: tuple[str, ...] = ("self-hosted",)
    variants: tuple[str, ...] = ()

    @property
    def options(self) -> str:
        """The canonical JSON of both kinds of options."""
        options = {"provider": self.provider_options, "session": self.session_options}
        return canonical_bytes(options).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """|baseline - candidate| may be `atol` + `rtol` x |baseline|, element by element."""

    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPolicy:
    """How latency is measured and judged; `max_regression` is a fraction."""

    measure: bool
    sessions: int
    pairs: int
    max_regression: float
    enforce: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a run is judged; `tolerance` is None for the ladder by element type."""

    tolerance: Tolerance | None
    outputs: Mapping[str, Tolerance]
    repeat: int
    timeout_s: float
    latency: LatencyPolicy

    def explicit_tolerance(self, output: str) -> Tolerance | None:
        """Return the tolerance the policy names for an output, or None for the ladder."""
        return self.outputs.get(output, self.tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where validated artifacts are recorded; `log` is empty for nowhere."""

    log: str
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment: everything a run needs to know before it looks at a byte of a model.

    `root` is the folder relative paths start from; `origin` is the config file, or says that the
    deployment was discovered. `policy_json` is the canonical JSON of the policy as configured.
    """

    name: str
    root: Path
    origin: str
    variants: tuple[Variant, ...]
    targets: tuple[Target, ...]
    fixtures: Path
    policy: Policy
    policy_json: str
    release: Release

    def variants_on(self, target: Target) -> tuple[Variant, ...]:
        """Return the variants that run on a target, in the order of the config."""
        return tuple(v for v in self.variants if not target.variants or v.name in target.variants)
