"""The pull-request comment, also the job summary: the verdict first, then the evidence, folded.

`comment` returns a ladder from the fullest text to the shortest; whoever publishes takes the first
that is accepted. Every rung carries the verdict line and where the first failure begins.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ci_parity import __version__
from ci_parity.base.escape import code, prose, visible
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict
from ci_parity.report import markdown_details as details
from ci_parity.report import markdown_overview as overview
from ci_parity.report.markdown_divergence import beginnings, evidence
from ci_parity.report.markup import folded, linked
from ci_parity.report.occasion import Occasion
from ci_parity.report.words import ICONS, headline

if TYPE_CHECKING:
    from ci_parity.records.release import LogLine

_MANY, _FEW = 50, 20
_HEADLINE_LENGTH = 600
_SHA_LENGTH = 7
_SHOWN_COMMANDS = 3
_SHOWN_SYSTEMS = 10
_ERROR_LINES = 60
_BARE = Occasion()


def comment(verdict: Verdict, occasion: Occasion = _BARE) -> tuple[str, ...]:
    """Return the comment as a ladder of texts, fullest first, each shorter than the one before.

    1. Everything.  2. Without what passed.  3. Without what is folded.  4. The first failures.
    5. The verdict, where it begins to fail, and the links.

    What is wrong before any model ran stands first in each.
    """
    foot = (_restore(verdict, occasion), _footer(verdict, occasion))
    url = occasion.run_url
    aside = [evidence(verdict.divergences), *details.asides(verdict)]
    head, many = tuple(_head(verdict, occasion, _MANY)), tuple(details.problems(verdict, _MANY))
    few = (*_head(verdict, occasion, _FEW), *details.problems(verdict, _FEW))
    every, held = _every_boundary(verdict), overview.held_pairs(verdict, 4 * _MANY)
    ladder = (
        _join(*head, *many, every, *aside, held, *details.passes(verdict), *foot),
        _join(*head, *many, every, *aside, *foot),
        _join(*head, *many, *foot),
        _join(*few, *foot),
        _join(
            _title(verdict, occasion),
            details.fed(verdict),
            beginnings(verdict.divergences, url, 1),
            *foot,
        ),
    )
    return _shortening(ladder)


def no_verdict(message: str, occasion: Occasion = _BARE) -> tuple[str, ...]:
    """Return the comment of a run that ended before it could judge, fullest first.

    Args:
        message: what went wrong, lines of any text.
        occasion: the circumstances.
    """
    lines = message.splitlines() or [""]
    shown = "\n".join(_literal(line) for line in lines[:_ERROR_LINES])
    title = f"### {ICONS[Outcome.INCONCLUSIVE]} NO VERDICT · {prose(lines[0])} · release blocked"
    why = "CI Parity reached no verdict. Nothing was judged, which is never a pass."
    foot = f"<sub>{_signature(__version__, occasion)}</sub>"
    head = (title, _earlier(occasion, Outcome.INCONCLUSIVE))
    return _shortening((_join(*head, why, f"```text\n{shown}\n```", foot), _join(*head, why, foot)))


def _literal(line: str) -> str:
    """Return a line for a fenced block, indented as it was."""
    indent = min(len(line) - len(line.lstrip(" ")), 20)
    return " " * indent + visible(line, 400).replace("`", "'")


def _shortening(ladder: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts that are shorter than all before them."""
    kept = [
        text
        for at, text in enumerate(ladder)
        if all(len(text) < len(longer) for longer in ladder[:at])
    ]
    return tuple(kept)


def _head(verdict: Verdict, occasion: Occasion, shown: int) -> Iterator[str]:
    yield _title(verdict, occasion)
    yield details.fed(verdict)
    yield from overview.changes(verdict, shown)
    yield overview.pairs(verdict, shown)
    yield details.causes(verdict)
    yield beginnings(verdict.divergences, occasion.run_url)
    yield overview.off_placements(verdict.placements)


def _title(verdict: Verdict, occasion: Occasion) -> str:
    line = f"### {prose(headline(verdict), _HEADLINE_LENGTH)}\n\n{_about(verdict)}"
    earlier = _earlier(occasion, verdict.outcome)
    return f"{line}\n\n{earlier}" if earlier else line


def _about(verdict: Verdict) -> str:
    words = [f"Deployment {code(verdict.deployment)}"]
    if verdict.ran:
        plural = "s" if verdict.inputs_count != 1 else ""
        source = "stored" if verdict.inputs_source == "fixtures" else verdict.inputs_source
        words.append(f"{verdict.inputs_count} {prose(source)} case{plural}")
    if verdict.bundle_digest:
        words.append(f"bundle {code('sha256:' + verdict.bundle_digest[:16])}")
    return " · ".join(words)


def _earlier(occasion: Occasion, outcome: Outcome) -> str:
    """Return the pull request's verdicts, the newest last, which is this one."""
    if not occasion.earlier:
        return ""
    past = [
        f"{ICONS[one.outcome]} {linked(code(one.sha[:_SHA_LENGTH]) or 'run', url)}"
        for one, url in occasion.earlier
    ]
    now = f"{ICONS[outcome]} {code(occasion.commit[:_SHA_LENGTH]) or 'this run'}"
    return f"Verdicts here, newest last: {' · '.join([*past, now])}"


def _every_boundary(verdict: Verdict) -> str:
    pairs = {(row.target, row.variant) for row in verdict.rows}
    if len(pairs) == len(verdict.rows):
        return ""
    title = f"All boundaries ({len(verdict.rows)})"
    return folded(title, overview.boundaries(verdict.rows, 4 * _MANY))


def _restore(verdict: Verdict, occasion: Occasion) -> str:
    """Return what was validated last; after anything but a pass, how to get it back."""
    if occasion.proof is None:
        return ""
    told = f"Last validated: {_proven(occasion.proof, occasion.log)}"
    if verdict.outcome is Outcome.PASS:
        return f"<sub>{told}</sub>"
    entry = occasion.proof.entry
    if entry.bundle == verdict.bundle_digest:
        way = "the model files are the same here: take back what changed around them"
    else:
        at = f" of commit {code(entry.commit[:12])}" if entry.commit else " with this digest"
        command = code(f"ci-parity rollback --to sha256:{entry.bundle}")
        way = f"where another is out, run {command}; else deploy the files{at}"
    return f"**{told}.** To restore it, {way}."


def _proven(line: "LogLine", log: str) -> str:
    entry = line.entry
    words = [f"bundle {code('sha256:' + entry.bundle[:16])}"]
    words += [f"commit {code(entry.commit[:12])}"] if entry.commit else []
    words += [prose(entry.finished_at[:10])]
    where = f"record {line.seq}" + (f" of {prose(log)}" if log else " of the release log")
    return ", ".join([*words, where])


def _footer(verdict: Verdict, occasion: Occasion) -> str:
    commands = [command for command in verdict.reproduce if command][:_SHOWN_COMMANDS]
    lines = [f"Reproduce: {code(command, 400)}" for command in commands]
    systems = verdict.environment.systems
    shown = ", ".join(code(system) for system in systems[:_SHOWN_SYSTEMS])
    rest = f" and {len(systems) - _SHOWN_SYSTEMS} more" if len(systems) > _SHOWN_SYSTEMS else ""
    host = prose(verdict.environment.host)
    lines += [f"Ran on {host}" + (f" with {shown}{rest}" if shown else "")]
    lines += [_signature(verdict.tool_version, occasion)]
    return "<sub>" + "<br>".join(lines) + "</sub>"


def _signature(version: str, occasion: Occasion) -> str:
    words = [f"CI Parity {prose(version)}"]
    words += [f"commit {code(occasion.commit[:12])}"] if occasion.commit else []
    words += [linked("workflow run", occasion.run_url)] if occasion.run_url else []
    return " · ".join(words)


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
