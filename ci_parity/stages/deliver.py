"""Step 5: the verdict leaves the machine: report folder, comment, status, job summary, log line.

Publishing never changes a verdict: what cannot be delivered is said, not hidden.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ci_parity import __version__
from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import CiParityError, PublishError
from ci_parity.base.moments import utc_text
from ci_parity.config.model import Deployment
from ci_parity.github.client import Clock, RestClient
from ci_parity.github.comment import publish_comment
from ci_parity.github.context import GitHubContext
from ci_parity.github.exchange import Limits
from ci_parity.github.marker import Marker
from ci_parity.github.status import CommitStatus, State
from ci_parity.records.codec import to_json
from ci_parity.records.condensed import condense
from ci_parity.records.history import EarlierVerdict
from ci_parity.records.identity import Identity
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry, LogLine
from ci_parity.records.verdict import Verdict
from ci_parity.release.store import ReleaseLog
from ci_parity.report import markdown
from ci_parity.report.occasion import Occasion
from ci_parity.report.words import headline, warnings
from ci_parity.stages.logged_timings import logged_timings
from ci_parity.stages.report_folder import Origin

if TYPE_CHECKING:
    from ci_parity.stages.coverage.sharing import SharedResults

logger = logging.getLogger(__name__)

_COMMENT_LIMITS = Limits()
# A runner that is told to stop leaves some seconds; a status is worth no more of a job than this.
_STATUS_LIMITS = Limits(
    connect_s=5, read_s=5, exchange_s=8, wait_s=10, waiting_s=15, total_s=30, attempts=2
)
# A line of the log holds 64 KiB, quotes inside its texts twice; the rest of a line is small.
_ROOM_BYTES = 44 * 1024
_KINDS = {
    Outcome.PASS: EntryKind.VALIDATED,
    Outcome.FAIL: EntryKind.BLOCKED,
    Outcome.INCONCLUSIVE: EntryKind.INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a comment is to say.

    `texts` gives it for an occasion, from the fullest to the shortest. Without `news` a comment is
    brought up to date, but none is begun.
    """

    outcome: Outcome
    occasion: Occasion
    texts: Callable[[Occasion], Sequence[str]]
    news: bool = True

    @property
    def summary(self) -> Sequence[str]:
        """The texts without what only the comment knows."""
        return self.texts(self.occasion)


def of_verdict(verdict: Verdict, occasion: Occasion, *, always: bool = False) -> Message:
    """Return what a verdict has to say; with `always`, even that nothing changed is news."""
    return Message(
        outcome=verdict.outcome,
        occasion=occasion,
        texts=lambda known: markdown.comment(verdict, known),
        news=always or is_news(verdict),
    )


def of_error(error: CiParityError, occasion: Occasion) -> Message:
    """Return what a run without a verdict has to say."""
    return Message(
        outcome=Outcome.INCONCLUSIVE,
        occasion=occasion,
        texts=lambda known: markdown.no_verdict(str(error), known),
    )


def is_news(verdict: Verdict) -> bool:
    """Whether a verdict says more than that nothing changed and everything holds."""
    changes = verdict.changes
    compared = changes is not None and changes.source.kind != "none" and not changes.changes
    unchanged = not verdict.ran or compared
    return verdict.outcome is not Outcome.PASS or not unchanged or bool(warnings(verdict))


def comment_on(
    message: Message, place: str, context: GitHubContext, *, clock: Clock | None = None,
    limits: Limits = _COMMENT_LIMITS,
) -> str:  # fmt: skip
    """Update the pull request's one comment; return its address, empty when there is none.

    A token that may not write (a fork's, say) costs the comment, never the verdict.

    Args:
        message: what it says.
        place: folder and config of the deployment, which tell two comments apart; known before a
            config can be read, so that a run that fails there replaces the verdict of the last one.
        context: the run and its pull request.
        clock: what time it is and how to wait.
        limits: time and patience for the server.
    """
    if context.pull_request is None:
        return ""
    marker = Marker(
        id=place, run=context.run_id, attempt=context.run_attempt, sha=context.head_sha or "",
        outcome=message.outcome, page=context.run_page,
    )  # fmt: skip

    def ladder(past: Sequence[EarlierVerdict]) -> Sequence[str]:
        earlier = tuple((one, context.page_of(one.page, one.attempt)) for one in past)
        return message.texts(replace(message.occasion, earlier=earlier))

    try:
        client = RestClient(context.api_url, context.token, clock=clock, limits=limits)
        return publish_comment(
            client, context.repository, context.pull_request, ladder, marker, create=message.news
        )
    except PublishError as error:
        logger.warning("the comment was not published: %s", error)
        return ""


class Announcement:
    """What the commit status will say at the end; that there was no verdict, if nothing is said."""

    def __init__(self) -> None:
        self.state = State.ERROR
        self.words = "ended without a verdict"

    def conclude(self, verdict: Verdict, exit_code: int) -> None:
        """Say the verdict; success is nothing but the exit code 0, which is the gate."""
        failed = verdict.outcome is Outcome.FAIL
        state = State.FAILURE if failed else State.ERROR
        self.state = State.SUCCESS if exit_code == 0 else state
        self.words = headline(verdict)
        if verdict.outcome is Outcome.PASS and exit_code != 0:
            self.words = f"the verdict was not recorded: {self.words}"


@contextmanager
def announced(
    name: str, context: GitHubContext, *, clock: Clock | None = None,
    limits: Limits = _STATUS_LIMITS,
) -> Iterator[Announcement]:  # fmt: skip
    """Keep a commit status beside the run: pending now, closed on whatever way this block is left.

    An event on which the commit at hand is the repository's own, whoever asked, gets none.

    Args:
        name: the status's name; empty for none.
        context: the run and the commit it judges.
        clock: what time it is and how to wait.
        limits: time and patience for the server, at the start and at the end anew.
    """
    announcement = Announcement()
    if not name or not context.head_sha or context.vouched is not None:
        yield announcement
        return

    def connect() -> RestClient:
        return RestClient(context.api_url, context.token, clock=clock, limits=limits)

    status = CommitStatus(connect, context.repository, context.head_sha, name, url=context.run_url)
    status.write(State.PENDING, "running")
    try:
        yield announcement
    finally:
        status.write(announcement.state, announcement.words)


def record(
    verdict: Verdict, deployment: Deployment, log: ReleaseLog, origin: Origin, now: datetime,
    shared: "SharedResults | None" = None,
) -> LogLine:  # fmt: skip
    """Append what this run found to the release log.

    What it measured for others goes to the store before that, and the line names it; a store that
    fails costs the line nothing.

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
        finished_at=utc_text(now),
        deployment=deployment.name,
        identities=_that_fit(changes.identities if changes else ()),
        findings_failed=ids,
        cases_run=min(short, default=expected),
        cases_expected=expected,
        tool_version=__version__,
        run_url=origin.run_url,
        coverage=shared.publish() if shared is not None else "",
        timings=logged_timings(verdict),
    )
    return log.append(entry)


def _that_fit(identities: tuple[Identity, ...]) -> tuple[Identity, ...]:
    """Return identities whose facts fit into one line of the log, the longest axes condensed."""
    for axis in ("converter", "optimization", "components", "host", "preprocess", "policy"):
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
