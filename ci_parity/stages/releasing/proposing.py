"""A rollback by pull request: what is out is barred at once, and the repository is asked first.

`rolled_back` says that an older bundle is out, so it is not written for a proposal. What is true at
once, that the bundle which is out may go out no more, is written at once, as `revoked`. Once the
branch that ships has the files, however they got there, the rollback is recorded and carried out as
any other. There is one branch and one pull request for what is out: run again, both are found.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.digest import sha256_bytes
from ci_parity.base.errors import ConfigError, InfrastructureError, PublishError
from ci_parity.base.escape import visible
from ci_parity.base.git import Remote, remote_of
from ci_parity.github.client import RestClient
from ci_parity.github.proposals import Proposal, PullRequest, default_branch, propose, standing
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogLine
from ci_parity.release.bundle.verify import Verified
from ci_parity.release.decisions import Decision, may_revoke, record, revocation
from ci_parity.release.query import barred, current, ways_back
from ci_parity.release.work_branch import WorkBranch
from ci_parity.report.rollback import RollbackProposal, body, title
from ci_parity.stages.releasing.bringing_back import BroughtBack, Shipped, bring_back, shipped
from ci_parity.stages.releasing.stream import Asked, Done, Required, Stream, act, in_words

Say = Callable[[str], None]

_TRIES = 4
_REASON = "to be rolled back"
_PLAIN = re.compile(r"(?!.*\.lock$)[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-]))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The bundle to go back to: the record that proves it, its files, and how it was held here."""

    proof: LogLine
    folder: Path
    found: Verified
    held: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a proposal lives: its branch, in a repository of ours, and the branch that ships."""

    work: WorkBranch
    head: str
    there: Shipped


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequests:
    """Proposes rollbacks of one stream to the repository that it is of."""

    client: RestClient
    repository: str
    stream: Stream
    asked: Asked
    say: Say

    def place(self, lines: Sequence[LogLine], scratch: Path) -> Place | None:
        """Read the branch that ships; None where nothing is out, and so nothing to go back from.

        Raises:
            ConfigError: the checkout has no remote.
            PublishError, InfrastructureError: GitHub or the remote cannot be asked.
        """
        out = current(lines, **self.stream.of)
        if out is None:
            return None
        base = default_branch(self.client, self.repository)
        folder = scratch / "work.git"
        folder.mkdir(parents=True)
        remote = self._remote()
        commit = WorkBranch(folder, remote, base).fetch()
        if commit is None:
            raise PublishError(
                f"the remote has no branch {base!a}, which is the repository's default branch",
                where=remote.name,
                remedy="run in a clone of the repository that GITHUB_REPOSITORY names",
            )
        there = shipped(self.stream, self.asked, base, commit, scratch / "shipped")
        head = head_branch(self.stream.name, self.stream.channel, out.seq)
        return Place(work=WorkBranch(folder, remote, head), head=head, there=there)

    def merged(self, place: Place, lines: Sequence[LogLine], needed: Required) -> str:
        """Return the bundle that the branch has, if it went back to one; empty where it did not."""
        out, closed = current(lines, **self.stream.of), barred(lines, **self.stream.of)
        if out is None or out.entry.bundle not in closed:
            return ""
        ways = ways_back(lines, targets=needed.pairs, **self.stream.of)
        return next((w.entry.bundle for w in ways if w.entry.bundle == place.there.digest), "")

    def propose(
        self, place: Place, lines: Sequence[LogLine], target: Target, reason: str
    ) -> Done | None:
        """Bar what is out and propose to go back; None where the branch has gone back already.

        1. The files of the bundle over those of the branch, which has the bundle then.
        2. The record that bars what is out.
        3. The branch, moved from exactly what was seen there.
        4. The pull request, opened or brought up to date.

        Raises:
            EvidenceError: the branch cannot have the bundle again.
            PublishError: the record, the branch or the pull request was refused.
        """
        bundle, out = target.proof.entry.bundle, current(lines, **self.stream.of)
        assert out is not None
        if place.there.digest == bundle:
            return None
        prefix = self.stream.repository.prefix()
        back = bring_back(place.there, target.found, target.folder, place.work, prefix)
        if not back.files:
            return None
        tip = self._tip(place, back)
        there = standing(self.client, self.repository, place.head, place.there.branch)
        if self.asked.dry_run:
            self._say_plan(place, back, out, there)
            return Done(outcome=Outcome.PASS, bundle=bundle)
        line = self._barred(lines, out, reason)
        if isinstance(line, Decision):
            return Done(outcome=line.outcome, bundle=bundle, reasons=line.reasons)
        self.say(f"sha256:{out.entry.bundle} is barred by {in_words(line)}")
        self._push(place, back, tip, line, bundle)
        found = self._opened(place, back, target, out, line)
        self.say(f"proposed by pull request #{found.number}, {visible(found.url, 300)}")
        return Done(outcome=Outcome.PASS, bundle=bundle, line=line, pull_request=found.url)

    def _remote(self) -> Remote:
        root = self.stream.deployment.root
        found = remote_of(root, "origin", push=True)
        if not isinstance(found, Remote):
            raise ConfigError(
                "rollbacks go by pull request, but there is no git remote 'origin'",
                where=str(root),
                remedy="run inside a clone, or set release.rollback: pointer",
            )
        return found

    def _tip(self, place: Place, back: BroughtBack) -> str | None:
        """Return what the branch is at; one that somebody pushed to is not written over.

        Raises:
            PublishError: it has commits of others, and not the files.
        """
        tip = place.work.fetch()
        if tip is None or place.work.tree_of(tip) == back.tree or place.work.is_ours(tip):
            return tip
        raise PublishError(
            "the branch of the rollback has commits of others, which would be lost",
            where=f"branch {place.head}",
            remedy="merge them, or remove the branch; then run again",
        )

    def _say_plan(
        self, place: Place, back: BroughtBack, out: LogLine, there: PullRequest | None
    ) -> None:
        self.say(f"sha256:{out.entry.bundle} would be barred, by a record `revoked`")
        self.say(f"branch {place.head} would bring these files back to {place.there.branch}:")
        for letter, path in back.files:
            self.say(f"  {letter} {path!a}")
        words = "a pull request would be opened"
        if there is not None:
            url = visible(there.url, 300)
            words = f"pull request #{there.number}, {url}, would be brought up to date"
        self.say(words)
        self.say("a dry run: nothing was written")

    def _barred(self, lines: Sequence[LogLine], out: LogLine, reason: str) -> LogLine | Decision:
        """Return the record that bars what is out, there already or written now."""
        bundle, stream = out.entry.bundle, self.stream
        about = [line for line in lines if line.entry.bundle == bundle]
        key = f"{run_key(self.asked, stream)}/barred/{bundle}/{about[-1].seq}"

        def decide(now: Sequence[LogLine]) -> Decision:
            newest = current(now, **stream.of)
            if newest is None or newest.seq != out.seq:
                what = in_words(newest) if newest else "nothing"
                why = f"what is out has changed meanwhile: {what}"
                return Decision(outcome=Outcome.FAIL, reasons=(why,))
            return may_revoke(now, bundle=bundle, **stream.of)

        if bundle not in barred(lines, **stream.of):
            entry = revocation(out, reason or _REASON, act(key, self.asked))
            done = record(stream.log, entry, decide)
            if isinstance(done, LogLine):
                return done
            lines = stream.log.read()
            if bundle not in barred(lines, **stream.of):
                return done
        return next(line for line in reversed(lines) if _revokes(line, bundle))

    def _push(
        self, place: Place, back: BroughtBack, tip: str | None, line: LogLine, bundle: str
    ) -> None:
        """Let the branch have the tree, in one commit after the branch that ships.

        An answer that was lost is settled by looking again.

        Raises:
            PublishError: the remote does not take it.
        """
        work, answer = place.work, ""
        words = f"Roll {self.stream.name} back to sha256:{bundle}\n"
        date = f"{line.entry.finished_at[:19]}Z"
        for _ in range(_TRIES):
            if tip is not None and work.tree_of(tip) == back.tree:
                self.say(f"branch {place.head} is at {tip[:12]}")
                return
            commit = work.commit_tree(back.tree, place.there.commit, message=words, date=date)
            answer = work.push(commit, tip)
            try:
                tip = commit if not answer else self._tip(place, back)
            except InfrastructureError as error:
                answer = error.what
        if tip is not None and work.tree_of(tip) == back.tree:
            return
        raise PublishError(
            f"the remote did not take the branch in {_TRIES} tries: {answer}",
            where=f"branch {place.head}",
            remedy="let the job's token push there (`contents: write`); then run again: nothing is "
            "done twice",
        )

    def _opened(
        self, place: Place, back: BroughtBack, target: Target, out: LogLine, line: LogLine
    ) -> PullRequest:
        reasons = [words for words in line.entry.findings_failed if words != _REASON]
        said = RollbackProposal(
            deployment=self.stream.name, channel=self.stream.channel, proof=target.proof, left=out,
            barred=line, log=self.stream.log.label, files=back.files, held=target.held,
            settings=back.settings, reason="; ".join(reasons), run_url=self.asked.run_url,
        )  # fmt: skip
        proposal = Proposal(
            head=place.head, base=place.there.branch,
            title=title(self.stream.name, target.proof.entry.bundle), body=body(said),
        )  # fmt: skip
        return propose(self.client, self.repository, proposal)


def head_branch(deployment: str, channel: str, seq: int) -> str:
    """Return the name of the branch by which what record `seq` put out is gone back from."""
    parts = (
        part if _PLAIN.fullmatch(part) else sha256_bytes(part.encode())[:16]
        for part in (deployment, channel)
    )
    return "/".join(("ci-parity-rollback", *parts, str(seq)))


def run_key(asked: Asked, stream: Stream) -> str:
    """Return how the keys of all that one run writes about a stream begin."""
    return f"{asked.run or 'by hand'}/{stream.name}/{stream.channel}"


def _revokes(line: LogLine, bundle: str) -> bool:
    return line.entry.kind is EntryKind.REVOKED and line.entry.bundle == bundle
