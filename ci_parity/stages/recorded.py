"""What a line of the release log holds as text is what we write there, or the line is refused.

Between the log, whose chain was verified, and the comparison with it: a chain says that a line is
unchanged since it was written, not who wrote it.
"""

from ci_parity.base.canonical import Json, parse_strict
from ci_parity.base.errors import EvidenceError
from ci_parity.detect.optimization import as_facts
from ci_parity.records.identity import Identity
from ci_parity.records.release import LogLine


def refuse_unreadable(line: LogLine, identity: Identity) -> None:
    """Refuse an identity of a line whose options, policy or facts are of another form.

    Raises:
        EvidenceError: naming the line and the part.
    """
    where = f"release log record {line.seq}, {identity.target} {identity.variant}"
    options = _parsed(identity.options, f"{where}: options")
    parts = [options.get(kind) for kind in ("provider", "session")]
    if not all(isinstance(part, dict) for part in parts):
        raise _other_form(f"{where}: options")
    if identity.policy:
        _parsed(identity.policy, f"{where}: policy")
    facts = {
        "converter": identity.converter,
        "components": identity.components,
        "host": identity.host,
        "preprocess": identity.preprocess,
        "optimization": as_facts(identity.optimization),
    }
    for name, text in facts.items():
        found = _parsed(text, f"{where}: {name}") if text else {}
        if not all(isinstance(value, str) for value in found.values()):
            raise _other_form(f"{where}: {name}")


def _parsed(text: str, where: str) -> dict[str, Json]:
    value = parse_strict(text, where=where)
    if not isinstance(value, dict):
        raise _other_form(where)
    return value


def _other_form(where: str) -> EvidenceError:
    return EvidenceError(
        "not what a run records",
        where=where,
        remedy="keep others from writing the log, or begin another one",
    )
