"""Errors that end a command: we could not measure, so there is no verdict.

A failed parity is a value (`records.Outcome`), never an exception.

    CiParityError          70  a bug of ours, when nothing more precise fits
    ├── ConfigError         2  ci-parity.yml, a flag or an input is wrong
    ├── EvidenceError       4  a model, fixture, reference or log cannot be read or trusted
    ├── InfrastructureError 5  a runtime, environment or process could not be provided
    └── PublishError        6  the verdict stands, but could not be delivered or recorded
"""

from typing import ClassVar


class CiParityError(Exception):
    """An error with the place it belongs to and the way out.

    Args:
        what: one sentence, no trailing period needed.
        where: file, JSON path, command or address at fault.
        remedy: what the reader can do about it.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where:  {self.where}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


class ConfigError(CiParityError):
    """The deployment, a flag or an action input is wrong."""

    exit_code = 2


class EvidenceError(CiParityError):
    """A model, fixture, reference or log line cannot be read or trusted."""

    exit_code = 4


class InfrastructureError(CiParityError):
    """A runtime, environment or process could not be provided."""

    exit_code = 5


class PublishError(CiParityError):
    """The verdict stands, but it could not be delivered or recorded."""

    exit_code = 6
