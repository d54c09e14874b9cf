"""Names of classes from a file of the repository; they are shown, and their number is checked.

Refuses a file that is too large, is no UTF-8 or is no list of names. What a name means is not known
here: a file with another number of names than the output has classes names every class wrongly.
"""

from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.canonical import parse_strict
from ci_parity.base.errors import EvidenceError

_MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The names of classes in their order, none where none are known.

    `problem` says why a file that was asked for gives none.
    """

    names: tuple[str, ...] = ()
    file: str = ""
    problem: str = ""

    def problem_with(self, *classes: int) -> str:
        """Say what keeps the names from being those of so many classes, empty where nothing does.

        Args:
            classes: the numbers of classes that the names may stand for.
        """
        if self.problem or not self.file or len(self.names) in classes:
            return self.problem
        counts = " or ".join(map(str, classes))
        return f"{self.file} names {len(self.names)} classes, the output has {counts}"


def read_labels(path: Path | None, own: tuple[str, ...] = ()) -> Labels:
    """Return the names of the classes; without a file those that the output has of its `own`.

    A `.json` file holds a list of names, or an object of names by class number, or of class numbers
    by name, as vocabularies are; any other file a name a line, blanks included: a line of one space
    is the symbol space.
    """
    if path is None:
        return Labels(names=own)
    if not path.is_file():
        return _none(path, "does not exist")
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            return _none(path, "is larger than 8 MiB")
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _none(path, "is no UTF-8")
    except OSError as error:
        return _none(path, f"cannot be read: {error.strerror or error}")
    if path.suffix == ".json":
        return _from_json(path, text)
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return Labels(names=tuple(line.removesuffix("\r") for line in lines), file=path.name)


def _from_json(path: Path, text: str) -> Labels:
    try:
        value = parse_strict(text, where=path.name)
    except EvidenceError as error:
        return _none(path, f"cannot be read: {error.what}")
    if isinstance(value, dict):
        by_name = all(type(number) is int for number in value.values())
        names = {str(number): name for name, number in value.items()} if by_name else value
        value = [names.get(str(number)) for number in range(len(value))]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return _none(path, "holds neither a list of names nor names and class numbers")
    return Labels(names=tuple(map(str, value)), file=path.name)


def _none(path: Path, reason: str) -> Labels:
    return Labels(file=path.name, problem=f"{path.name} {reason}")
