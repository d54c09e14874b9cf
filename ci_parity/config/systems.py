"""What is judged, as frozen records: the variants of a model, what made them, and their targets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_parity.base.canonical import Json, canonical_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """What made a variant: the file that pins its packages and its command, which is never run."""

    requires: Path | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """What a variant was optimized by: its recipe, and the file that pins its tools' packages."""

    recipe: Path | None = None
    requires: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One model file of the chain; paths are absolute, `made_from` names another variant."""

    name: str
    path: Path
    made_from: str = ""
    converter: Converter | None = None
    optimization: Optimization | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The system the first variant was made from: `function` of the script `entry`.

    `requires` pins the packages of its environment; without it `python`, a program or a path below
    the root, is the interpreter, and without both the one that runs us. `checkpoint` is a file or a
    folder. Paths are absolute.
    """

    entry: Path
    function: str
    framework: str
    requires: Path | None = None
    python: str = ""
    checkpoint: Path | None = None
    allow_onnx: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library of custom operators: its path below the deployment, and what its bytes must be."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where variants run: runtime (as `config.runtimes` writes it), execution provider, options.

    `session_options` and `provider_options` are plain JSON, checked against the schema's lists. The
    other targets are compared with the one that is the `reference`.
    """

    name: str
    runtime: str = "current"
    provider: str = "CPUExecutionProvider"
    provider_options: Mapping[str, str] = field(default_factory=dict)
    session_options: Mapping[str, Json] = field(default_factory=dict)
    runs_on: tuple[str, ...] = ("self-hosted",)
    variants: tuple[str, ...] = ()
    reference: bool = False

    @property
    def libraries(self) -> tuple[Library, ...]:
        """The libraries of custom operators that its session options name."""
        named: Any = self.session_options.get("custom_ops", ())
        return tuple(Library(path=each["path"], sha256=each["sha256"]) for each in named)

    @property
    def options(self) -> str:
        """The canonical JSON of both kinds of options."""
        options = {"provider": self.provider_options, "session": self.session_options}
        return canonical_bytes(options).decode()


PLAIN_CPU = frozenset({"CPUExecutionProvider", "CPU"})
