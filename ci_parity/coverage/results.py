"""What node tests showed of a system, kept for the next run: a file of lines for each system.

A system is a runtime's bytes, its worker, a provider with its options and the host, under one
digest; a line is one result with a checksum of its own. A line that is damaged, of another format,
or about a test that has changed since is as good as none: that test runs again. Files are appended
to and hold no paths, so that they can be carried to other machines and joined by concatenation.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult

logger = logging.getLogger(__name__)

FORMAT = 3
# What a loaded machine may have brought about, and what did not reach the runtime.
_PASSING = frozenset({NodeOutcome.TIMED_OUT, NodeOutcome.SKIPPED})
_SUM_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Everything that a result depends on beside the test; `label` is for readers alone."""

    label: str
    environment: str
    worker: str
    provider: str
    options: str
    host: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One digest of all but the label."""
        parts: list[Json] = [
            FORMAT, self.environment, self.worker, self.provider, self.options, dict(self.host),
        ]  # fmt: skip
        return sha256_bytes(canonical_bytes(parts))


class KeptResults:
    """The results of one system in a folder; what cannot be read or written is not kept."""

    def __init__(self, folder: Path, system: System) -> None:
        self._file = folder / f"{system.digest[:32]}.jsonl"
        self._system = system

    @property
    def file(self) -> Path:
        """The file of this system's lines."""
        return self._file

    def known(self, cases: Iterable[NodeCase]) -> dict[str, NodeResult]:
        """Return what is known of these cases as they are now, by their ids."""
        wanted = {case.id: case.digest for case in cases}
        found: dict[str, NodeResult] = {}
        try:
            lines = self._file.read_bytes().splitlines()
        except OSError:
            return found
        for line in lines:
            entry = _entry(line)
            if entry is not None and wanted.get(entry[0].case) == entry[1]:
                found[entry[0].case] = entry[0]
        return found

    def add(self, results: Sequence[tuple[NodeCase, NodeResult]]) -> None:
        """Keep results that the runtime itself brought about."""
        lines = [
            _line(case, result) for case, result in results if result.outcome not in _PASSING
        ]  # fmt: skip
        if not lines:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # A line that a crash cut short must not swallow the next one.
            with FileLock(f"{self._file}.lock"), self._file.open("ab") as stream:
                stream.write(b"\n" + b"\n".join(lines) + b"\n")
        except OSError as error:
            logger.warning("results of node tests are not kept: %s", error.strerror or error)


def _line(case: NodeCase, result: NodeResult) -> bytes:
    content: dict[str, Json] = {
        "case": case.id, "digest": case.digest, "outcome": result.outcome.value,
        "evidence": result.evidence,
    }  # fmt: skip
    return canonical_bytes({**content, "sum": _sum(content)})


def _entry(line: bytes) -> tuple[NodeResult, str] | None:
    """Return the result of a line and the digest of its test, None for a line that is not whole."""
    with contextlib.suppress(CiParityError, ValueError, KeyError, TypeError):
        content = parse_strict(line, where="a kept result")
        if isinstance(content, dict) and content.pop("sum", None) == _sum(content):
            outcome = NodeOutcome(content["outcome"])
            result = NodeResult(
                case=content["case"], outcome=outcome, evidence=content["evidence"]
            )  # fmt: skip
            return result, content["digest"]
    return None


def _sum(content: Mapping[str, Json]) -> str:
    return sha256_bytes(canonical_bytes(dict(content)))[:_SUM_CHARS]
