"""Typed access to parsed TOML and JSON whose shape nobody has checked yet.

Between the parsers and the readers of lock files: a value of another type than the format says is
refused with its place, instead of travelling on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.normal import is_project_name, project_name


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping of a document and the `file:line` it begins at."""

    value: Mapping[str, object]
    where: str

    def text(self, key: str) -> str:
        """Return a text, empty where there is none."""
        found = self.value.get(key, "")
        if not isinstance(found, str):
            raise self.error(f"{key!r} is not a text")
        return found

    def required(self, key: str) -> str:
        """Return a text that must be there."""
        found = self.text(key)
        if not found:
            raise self.error(f"{key!r} is missing")
        return found

    def name(self) -> str:
        """Return the normalised name of a project, which must be there."""
        name = self.required("name")
        if not is_project_name(name):
            raise self.error(f"{name[:100]!r} is no name of a project")
        return project_name(name)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty where there is none."""
        found = self._items(key)
        if not all(isinstance(item, str) for item in found):
            raise self.error(f"{key!r} is not a list of texts")
        return tuple(str(item) for item in found)

    def flag(self, key: str) -> bool:
        """Return whether a key is there and true."""
        return self.value.get(key) is True

    def table(self, key: str) -> "Table":
        """Return a table, empty where there is none."""
        return as_table(self.value.get(key, {}), self.where, f"{key!r}")

    def tables(self, key: str, lines: Sequence[str] = ()) -> tuple["Table", ...]:
        """Return a list of tables; `lines` are their places, where they are known."""
        found = self._items(key)
        places = lines if len(lines) == len(found) else [self.where] * len(found)
        return tuple(
            as_table(item, place, f"an item of {key!r}")
            for item, place in zip(found, places, strict=True)
        )

    def entries(self) -> Iterator[tuple[str, object]]:
        """Yield keys and values in the order of the document."""
        yield from self.value.items()

    def error(self, what: str) -> EvidenceError:
        """Return the refusal of this table."""
        return EvidenceError(what, where=self.where)

    def _items(self, key: str) -> Sequence[object]:
        found = self.value.get(key, ())
        if isinstance(found, str) or not isinstance(found, Sequence):
            raise self.error(f"{key!r} is not a list")
        return found


def as_table(value: object, where: str, what: str) -> Table:
    """Return `value` as a table.

    Raises:
        EvidenceError: it is something else.
    """
    if not isinstance(value, Mapping):
        raise EvidenceError(f"{what} is not a table", where=where)
    return Table(value, where)
