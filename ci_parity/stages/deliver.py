"""Step 5: the verdict leaves the machine: report folder, comment, job summary, log line.

Publishing never changes a verdict: what cannot be delivered is said, not hidden.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ci_parity import __version__
from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import PublishError
from ci_parity.config.model import Deployment
from ci_parity.github.client import RestClient
from ci_parity.github.comment import Marker, publish_comment
from ci_parity.github.context import GitHubContext
from ci_parity.records.codec import to_json
from ci_parity.records.condensed import condense
from ci_parity.records.identity import Identity
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.records.verdict import Verdict
from ci_parity.release.store import ReleaseLog
from ci_parity.stages.report_folder import Origin

logger = logging.getLogger(__name__)

# A line of the log holds 64 KiB, quotes inside its texts twice; the rest of a line is small.
_ROOM_BYTES = 44 * 1024
_KINDS = {
    Outcome.PASS: EntryKind.VALIDATED,
    Outcome.FAIL: EntryKind.BLOCKED,
    Outcome.INCONCLUSIVE: EntryKind.INCONCLUSIVE,
}


def comment_on(bodies: Sequence[str], place: str, context: GitHubContext) -> str:
    """Update the pull request's one comment; return its address, empty when there was no way.

    A token that may not write (a fork's, say) costs the comment, never the verdict.

    Args:
        bodies: the comment, a ladder from the fullest text to the shortest.
        place: folder and config of the deployment, which tell two comments apart; known before a
            config can be read, so that a run that fails there replaces the verdict of the last one.
        context: the run and its pull request.
    """
    if context.pull_request is None:
        return ""
    marker = Marker(
        id=place, run=context.run_id, attempt=context.run_attempt, sha=context.head_sha or ""
    )
    try:
        client = RestClient(context.api_url, context.token)
        return publish_comment(client, context.repository, context.pull_request, bodies, marker)
    except PublishError as error:
        logger.warning("the comment was not published: %s", error)
        return ""


def record(
    verdict: Verdict, deployment: Deployment, log: ReleaseLog, origin: Origin, now: datetime
) -> LogLine:
    """Append what this run found to the release log.

    Raises:
        PublishError: the log did not take the line.
        EvidenceError: the log cannot be trusted.
    """
    kind = _KINDS[verdict.outcome]
    changes = verdict.changes
    run = origin.run or f"local/{origin.commit or 'uncommitted'}/{now.isoformat()}"
    failed = [f for f in verdict.findings if f.outcome is not Outcome.PASS and not f.advisory]
    # Rows of the baseline's rules may be about fewer cases: whole is what ran all of its own.
    ran = [row for row in verdict.rows if row.cases_expected and not row.alone]
    expected = max((row.cases_expected for row in ran), default=0)
    short = [row.cases for row in ran if row.cases < row.cases_expected]
    ids = tuple(sorted({finding.id for finding in failed}))
    facts = sha256_bytes(canonical_bytes({"bundle": verdict.bundle_digest, "failed": ids}))
    entry = LogEntry(
        kind=kind,
        channel=deployment.release.channel,
        idempotency=f"{run}/{deployment.name}/{kind.value}/{facts[:16]}",
        bundle=verdict.bundle_digest,
        commit=origin.commit,
        finished_at=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        deployment=deployment.name,
        identities=_that_fit(changes.identities if changes else ()),
        findings_failed=ids,
        cases_run=min(short, default=expected),
        cases_expected=expected,
        tool_version=__version__,
        run_url=origin.run_url,
    )
    return log.append(entry)


def _that_fit(identities: tuple[Identity, ...]) -> tuple[Identity, ...]:
    """Return identities whose facts fit into one line of the log, the longest axes condensed."""
    for axis in ("converter", "optimization", "components", "host", "policy"):
        if sum(len(canonical_bytes(to_json(identity))) for identity in identities) < _ROOM_BYTES:
            break
        identities = tuple(
            replace(identity, **{axis: _condensed(getattr(identity, axis))})
            for identity in identities
        )
    return identities


def _condensed(text: str) -> str:
    """Return facts condensed; a digest, which may stand for them, is short as it is."""
    return condense(text) if text.startswith("{") else text
