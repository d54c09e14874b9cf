"""Attestations of a bundle, where they are kept and what they come to: GitHub joined with release.

What a log line says of a bundle is signed by `release.keyless` and may stand beside the repository;
what stands there, or in files, is judged by `release.vouched`. Where nothing stands, that is said:
unsigned, and no pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes, parse_strict
from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.github.attestations import list_attestations, store_attestation
from ci_parity.github.client import RestClient
from ci_parity.github.context import is_repository
from ci_parity.records.outcome import Outcome
from ci_parity.release.keyless import read_limited
from ci_parity.release.layout import PREDICATE_TYPE
from ci_parity.release.vouched import Asked, Reading, Roots, examine, judge

Say = Callable[[str], None]
_FILE_REMEDY = "name a Sigstore bundle, or what `gh attestation download` wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A repository that GitHub keeps attestations for, and the way there."""

    repository: str
    api_url: str
    token: str

    @classmethod
    def of(cls, repository: str, environ: Mapping[str, str]) -> "Beside":
        """Take the way there from the environment, as a job or GitHub's own command has it.

        Raises:
            ConfigError: that is no repository's name.
        """
        if not is_repository(repository):
            raise ConfigError(
                f"{repository!a} is no repository", where="--github", remedy="give OWNER/NAME"
            )
        return cls(
            repository=repository,
            api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
            token=(environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or "").strip(),
        )

    def client(self, *, reads: bool = False) -> RestClient:
        """Return the API; what is only read may be public.

        Raises:
            PublishError: there is no usable token.
        """
        return RestClient(self.api_url, self.token, anonymous=reads)


def keep(bundle: bytes, beside: Beside) -> str:
    """Store a Sigstore bundle beside a repository; return in words where it stands.

    Raises:
        PublishError: GitHub refuses, or does not answer.
    """
    value = parse_strict(bundle, where="the Sigstore bundle")
    number = store_attestation(beside.client(), beside.repository, value)
    return f"kept beside {beside.repository}" + (f" as attestation {number}" if number else "")


def attested(
    asked: Asked, files: Sequence[Path], beside: Beside | None, roots: Roots, say: Say
) -> Outcome:
    """Judge what vouches for a bundle, in files and beside a repository; say of each what it is.

    Raises:
        EvidenceError: a file, or what GitHub shows, is malformed.
        PublishError: GitHub refuses, or does not answer.
    """
    readings: list[Reading] = []
    for path in files:
        for data in _documents(path):
            reading = examine(data, asked, roots, where=str(path))
            say(f"{path}: {reading.words}")
            readings.append(reading)
    # A file was brought as a proof: one that proves nothing is no pass, whatever else there is.
    unproven = [one.outcome for one in readings if one.entry is None]
    if beside is not None:
        readings += _found(asked, beside, roots, say)
    if not readings:
        say(f"unsigned: nothing vouches for sha256:{asked.digest}")
        return Outcome.INCONCLUSIVE
    return Outcome.worst([judge(readings), *unproven])


def _found(asked: Asked, beside: Beside, roots: Roots, say: Say) -> list[Reading]:
    """Judge what GitHub lists; anyone with the permission may have put it there."""
    place = f"beside {beside.repository}"
    client = beside.client(reads=True)
    listed = list_attestations(client, beside.repository, asked.digest, PREDICATE_TYPE)
    if not listed:
        say(f"{place}: no attestation")
    readings = []
    for bundle in listed:
        try:
            reading = examine(canonical_bytes(bundle), asked, roots, where=place)
        except EvidenceError as error:
            reading = Reading(outcome=Outcome.FAIL, words=error.what)
        say(f"{place}: {reading.words}")
        readings.append(reading)
    return readings


def _documents(path: Path) -> list[bytes]:
    """Read a file of one bundle, or of one in each line."""
    data = read_limited(path, _FILE_REMEDY)
    lines = [line for line in data.split(b"\n") if line.strip()]
    return lines if all(line.startswith(b'{"') for line in lines) and lines else [data]
