"""One pin, and all pins of a file: what every reader of a format returns.

Records only; reading is `read`, comparing is `change`. A pin says what a file asks for, not what is
installed.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.normal import project_name, same_version

MAX_PINS = 20_000

Environment = Mapping[str, str | AbstractSet[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one line or entry of a file says about one project.

    Attributes:
        name: normalised after PEP 503; for a path or URL without a name, that location.
        version: the one version it admits, empty for a range.
        specifier: the version specifier, `==V` for a locked one; Poetry's `^1.2` as written.
        marker: the environment marker under which it holds, empty for always. Extras and dependency
            groups are part of it: `extra == "x"`, `"dev" in dependency_groups`.
        extras: the extras of the project asked for, sorted.
        hashes: `algorithm:hex` of every admitted file, sorted.
        source: where it comes from, without credentials: `registry+URL`, `git+URL#commit`,
            `directory+PATH`, `editable+PATH`, a URL or path; empty for the default index.
        direct: whether somebody asked for it by name, or another project pulled it in; None where
            the format does not say.
        constraint: it limits a version without asking for the project (`pip -c`).
        where: `file:line` from the repository root.
    """

    name: str
    version: str = ""
    specifier: str = ""
    marker: str = ""
    extras: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    source: str = ""
    direct: bool | None = None
    constraint: bool = False
    where: str = ""

    @property
    def wanted(self) -> str:
        """The version, else the range, else `*`."""
        return self.version or self.specifier or "*"

    @property
    def files(self) -> str:
        """The admitted files in one word: the only hash, else `COUNT:DIGEST`, empty for none."""
        if len(self.hashes) < 2:
            return "".join(self.hashes)
        return f"{len(self.hashes)}:{sha256_bytes(' '.join(self.hashes).encode())[:32]}"

    def holds(self, environment: Environment) -> bool:
        """Whether the marker holds; one that cannot be evaluated is taken to hold."""
        from packaging.markers import (
            InvalidMarker,
            Marker,
            UndefinedComparison,
            UndefinedEnvironmentName,
        )

        if not self.marker:
            return True
        try:
            return Marker(self.marker).evaluate({**_NOTHING_CHOSEN, **environment})
        except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
            return True


_NOTHING_CHOSEN: Environment = {
    "extra": "", "extras": frozenset(), "dependency_groups": frozenset()
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSet(Mapping[str, tuple[Pin, ...]]):
    """Everything a file pins, by normalised name; a name has several pins where markers differ.

    Attributes:
        name: the file, as seen from the repository root.
        format: `requirements`, `uv.lock`, `poetry.lock`, `pylock`, `Pipfile.lock`, `pyproject` or
            `conda`.
        pins: in the order of the file, without repetitions.
        settings: what else changes the result of an installation, such as `--index-url URL`.
    """

    name: str
    format: str
    pins: tuple[Pin, ...] = ()
    settings: tuple[str, ...] = ()
    _by_name: dict[str, tuple[Pin, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        grouped: dict[str, list[Pin]] = {}
        for pin in self.pins:
            grouped.setdefault(pin.name, []).append(pin)
        by_name = {name: tuple(pins) for name, pins in grouped.items()}
        object.__setattr__(self, "_by_name", by_name)

    def __getitem__(self, name: str) -> tuple[Pin, ...]:
        return self._by_name[name if name in self._by_name else project_name(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def resolve(self, name: str, environment: Environment | None = None) -> Pin | None:
        """Return the pin that holds for a project in an environment, None where none does.

        Args:
            name: the project, in any spelling.
            environment: values of markers (PEP 508) that differ from this interpreter's; `extra`,
                `extras` and `dependency_groups` are empty unless given.

        Raises:
            EvidenceError: several versions or sources hold at once.
        """
        holding = [pin for pin in self.get(name, ()) if pin.holds(environment or {})]
        exact = [pin for pin in holding if pin.version or pin.source]
        for pin in exact[1:]:
            if not same_version(pin.version, exact[0].version) or pin.source != exact[0].source:
                raise EvidenceError(
                    f"{pin.name} is pinned as {exact[0].wanted} and as {pin.wanted}",
                    where=f"{exact[0].where}, {pin.where}",
                    remedy="keep one of them, or give each a marker",
                )
        return next(iter(exact or holding), None)


def without_repetitions(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """Return pins in order, each said once, however often and wherever the file says it.

    Raises:
        EvidenceError: there are more than a project has.
    """
    unique: dict[Pin, Pin] = {}
    for count, pin in enumerate(pins):
        if count >= MAX_PINS:
            raise EvidenceError(f"more than {MAX_PINS} pins", where=pin.where)
        unique.setdefault(replace(pin, where=""), pin)
    return tuple(unique.values())
