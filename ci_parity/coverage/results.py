"""What node tests showed of a system, kept for the next run: a file of lines for each system.

A system is a runtime's bytes, its worker, a provider with its options and the host, under one
digest; a line is one result with a checksum of its own. A line that is damaged, of another format,
or about a test that has changed since is as good as none: that test runs again. Files are appended
to and hold no paths, so that they can be carried to other machines and joined by concatenation.
What may be the doing of the machine, not of the system, is not kept.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ci_parity import __version__
from ci_parity.base.canonical import Json, canonical_bytes, parse_strict
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult

logger = logging.getLogger(__name__)

FORMAT = 4
_SUM_CHARS = 16
# Words of an end that another machine, or the same one on another day, may not bring about.
_SHORTAGES = (
    "of memory", "bad_alloc", "memoryerror", "allocate memory", "cuda_error_out", "sigkill",
    "was lost", "no space left",
)  # fmt: skip


def may_pass(result: NodeResult) -> bool:
    """Whether a result may be the machine's doing: a time-out, a lack of memory or of disk."""
    if result.outcome is NodeOutcome.PASS:
        return False
    words = result.evidence.casefold()
    return result.outcome is NodeOutcome.TIMED_OUT or any(word in words for word in _SHORTAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """A result, and the digest of the test that it is of, as that was then."""

    digest: str
    result: NodeResult


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
        """One digest of all but the label, and of the version that judges."""
        parts: list[Json] = [
            FORMAT, __version__, self.environment, self.worker, self.provider, self.options,
            dict(self.host),
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
        try:
            data = self._file.read_bytes()
        except OSError:
            return {}
        return of_cases(decoded(data), cases)

    def add(self, results: Sequence[KeptResult]) -> None:
        """Keep results that the system itself brought about."""
        lines = encoded(results)
        if not lines:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # A line that a crash cut short must not swallow the next one.
            with FileLock(f"{self._file}.lock"), self._file.open("ab") as stream:
                stream.write(b"\n" + lines)
        except OSError as error:
            logger.warning("results of node tests are not kept: %s", error.strerror or error)


def of_cases(kept: Iterable[KeptResult], cases: Iterable[NodeCase]) -> dict[str, NodeResult]:
    """Return the results of these cases as they are now, by their ids; the last word counts."""
    wanted = {case.id: case.digest for case in cases}
    return {
        one.result.case: one.result for one in kept if wanted.get(one.result.case) == one.digest
    }


def keyed(kept: Iterable[KeptResult]) -> dict[str, bytes]:
    """Return lines by a digest of test and name, without those that may pass."""
    return {
        sha256_bytes(f"{one.digest} {one.result.case}".encode()): _line(one)
        for one in kept
        if not may_pass(one.result)
    }


def encoded(kept: Iterable[KeptResult]) -> bytes:
    """Return results as lines, without those that may pass."""
    return b"".join(_line(one) + b"\n" for one in kept if not may_pass(one.result))


def decoded(data: bytes) -> Iterator[KeptResult]:
    """Yield the results of lines that are whole; of what may pass there is none to believe."""
    for line in data.splitlines():
        entry = _entry(line)
        if entry is not None and not may_pass(entry.result):
            yield entry


def _line(kept: KeptResult) -> bytes:
    content: dict[str, Json] = {
        "case": kept.result.case, "digest": kept.digest, "outcome": kept.result.outcome.value,
        "evidence": kept.result.evidence,
    }  # fmt: skip
    return canonical_bytes({**content, "sum": _sum(content)})


def _entry(line: bytes) -> KeptResult | None:
    """Return the result of a line, None for a line that is not whole."""
    with contextlib.suppress(CiParityError, ValueError, KeyError, TypeError):
        content = parse_strict(line, where="a kept result")
        if isinstance(content, dict) and content.pop("sum", None) == _sum(content):
            texts = [content[name] for name in ("case", "digest", "outcome", "evidence")]
            if not all(isinstance(text, str) for text in texts):
                return None
            case, digest, outcome, evidence = map(str, texts)
            result = NodeResult(case=case, outcome=NodeOutcome(outcome), evidence=evidence)
            return KeptResult(digest=digest, result=result)
    return None


def _sum(content: Mapping[str, Json]) -> str:
    return sha256_bytes(canonical_bytes(dict(content)))[:_SUM_CHARS]
