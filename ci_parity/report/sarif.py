"""Findings as SARIF 2.1.0, for viewers that show problems beside the file they are about.

Every finding that is no pass is a result, at the file it points at (`records.places`); those of one
check on one boundary and file are one result. SARIF has no word for "could not be measured" that
viewers show: such a finding is an `error`, too, unless it is advisory, because it blocks as well.
Format: OASIS SARIF 2.1.0; what GitHub asks of it is kept (5,000 results, 1,000-character texts).
"""

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from ci_parity.base.canonical import Json
from ci_parity.base.digest import sha256_bytes
from ci_parity.base.escape import visible
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.grouping import cases_of, grouped
from ci_parity.records.outcome import Outcome
from ci_parity.records.places import Place, Places
from ci_parity.records.verdict import Verdict
from ci_parity.report.checks import help_uri, meaning, title
from ci_parity.report.words import failures, headline, measure, number, warnings

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_HOME = "https://github.com/ci-parity/ci-parity"
_PLACEHOLDER = re.compile(r"\{([0-9]+)\}")
_MAX_RESULTS = 5_000
_MAX_RELATED = 10
_SHOWN_CASES = 20
_TEXT = 1000
_NAME = 100
_PATH = 4096


def render(verdict: Verdict) -> str:
    """Return the findings of a verdict as SARIF."""
    places = Places(verdict)
    groups = _groups(verdict, places)
    deployment = quote(_line(verdict.deployment), safe="")
    shown = groups[:_MAX_RESULTS]
    rules = sorted({_rule(group[0]) for group in shown})
    results = [_result(group, places, rules) for group in shown]
    document: Json = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(verdict, rules)},
                "automationDetails": {"id": f"ci-parity/{deployment}/"},
                "columnKind": "utf16CodeUnits",
                "invocations": [_invocation(verdict, len(groups) - len(shown))],
                "originalUriBaseIds": {
                    "SRCROOT": {"description": {"text": "The top of the repository."}}
                },
                "results": results,
                "properties": {
                    "outcome": verdict.outcome.value, "deployment": _line(verdict.deployment),
                    "ran": verdict.ran, "resultsLeftOut": len(groups) - len(shown),
                },
            }
        ],
    }  # fmt: skip
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _groups(verdict: Verdict, places: Places) -> list[tuple[Finding, ...]]:
    """Return the findings that are no pass by check, boundary and file, worst first."""
    found = []
    for group in grouped([*(failures(verdict) or _whole(verdict)), *warnings(verdict)]):
        by_file: dict[Place | None, list[Finding]] = {}
        for finding in group:
            by_file.setdefault(places.of(finding), []).append(finding)
        found += [tuple(part) for part in by_file.values()]
    return found


def _whole(verdict: Verdict) -> tuple[Finding, ...]:
    """Return a finding for a verdict that is no pass and has none that says why."""
    if verdict.outcome is Outcome.PASS:
        return ()
    said = headline(verdict)
    return (
        Finding(id="report.verdict", outcome=verdict.outcome, subject=Subject(), evidence=said),
    )


def _driver(verdict: Verdict, rules: Sequence[str]) -> Json:
    return {
        "name": "CI Parity",
        "version": _line(verdict.tool_version),
        "informationUri": _HOME,
        "rules": [
            {
                "id": rule,
                "name": "".join(word.capitalize() for word in rule.replace("_", ".").split(".")),
                "shortDescription": {"text": title(rule)},
                "fullDescription": {"text": meaning(rule)},
                "help": {"text": f"{meaning(rule)} See {help_uri(rule)}"},
                "helpUri": help_uri(rule),
                "defaultConfiguration": {"level": "error"},
                "properties": {"tags": ["parity", rule.partition(".")[0]]},
            }
            for rule in rules
        ],
    }


def _invocation(verdict: Verdict, left_out: int) -> Json:
    """Say how the run ended; one that could not measure did not end well."""
    notes: list[Json] = [
        {"level": _level(verdict.outcome), "message": {"text": _line(headline(verdict))}}
    ]
    if left_out:
        said = f"{left_out} more results are not in this file: {_MAX_RESULTS} are the most"
        notes.append({"level": "warning", "message": {"text": said}})
    return {
        "executionSuccessful": verdict.outcome is not Outcome.INCONCLUSIVE,
        "exitCode": verdict.outcome.exit_code,
        "toolExecutionNotifications": notes,
    }


def _level(outcome: Outcome) -> str:
    return "note" if outcome is Outcome.PASS else "error"


def _result(group: Sequence[Finding], places: Places, rules: Sequence[str]) -> Json:
    first = group[0]
    level = "warning" if all(finding.advisory for finding in group) else "error"
    near = list(places.all_of(first))
    result: dict[str, Json] = {
        "ruleId": _rule(first),
        "ruleIndex": rules.index(_rule(first)),
        "kind": "fail",
        "level": level,
        "message": {"text": _message(group)},
        "partialFingerprints": {"ciParity/v1": _fingerprint(first, near)},
        "properties": {
            "outcome": first.outcome.value, "advisory": first.advisory,
            "subject": _line(str(first.subject)), "findings": len(group),
            "cases": _cases(group)[:_SHOWN_CASES],
        },
    }  # fmt: skip
    if near:
        result["locations"] = [_location(near[0], first)]
        related = [_location(place, first, number) for number, place in enumerate(near[1:], 1)]
        result["relatedLocations"] = related[:_MAX_RELATED]
    return result


def _rule(finding: Finding) -> str:
    return visible(finding.id, _NAME)


def _message(group: Sequence[Finding]) -> str:
    first = group[0]
    mark = "Not measured: " if first.outcome is Outcome.INCONCLUSIVE else ""
    parts = [f"{mark}{first.evidence}", f"Where: {first.subject}" if str(first.subject) else ""]
    if first.required is not None:
        limit = measure(first.limit, first.unit)
        parts.append(f"Needed {number(first.required)}, limit {limit}")
    cases = _cases(group)
    if len(cases) > 1:
        parts.append(f"Cases: {len(cases)}")
    parts.append(f"Remedy: {first.remedy}" if first.remedy else "")
    # `[x](1)` is a link of SARIF's own, `{0}` a placeholder.
    text = ". ".join(_line(part).rstrip(".") for part in parts if part)
    return _PLACEHOLDER.sub(r"{{\1}}", text.replace("](", "] ("))


def _cases(group: Sequence[Finding]) -> list[str]:
    return [_line(case) for case in cases_of(group)]


def _fingerprint(finding: Finding, near: Sequence[Place]) -> str:
    """Return what stays the same while the problem does: no number, no line, no case."""
    about = finding.subject
    parts = (
        finding.id, about.target, about.variant, about.boundary, near[0].path if near else "",
    )  # fmt: skip
    return sha256_bytes("\0".join(p[:_PATH] for p in parts).encode("utf-8", "surrogatepass"))[:32]


def _location(place: Place, finding: Finding, number: int | None = None) -> Json:
    path = place.path[:_PATH].encode("utf-8", "surrogatepass")
    uri = quote(path, safe="/")
    physical: dict[str, Json] = {"artifactLocation": {"uri": uri, "uriBaseId": "SRCROOT"}}
    if place.line is not None and place.line > 0:
        physical["region"] = {"startLine": place.line}
    location: dict[str, Json] = {"physicalLocation": physical}
    if number is not None:
        return {**location, "id": number, "message": {"text": _line(place.part.value)}}
    if str(finding.subject):
        location["logicalLocations"] = [
            {"fullyQualifiedName": _line(str(finding.subject)), "kind": "resource"}
        ]
    return location


def _line(text: str) -> str:
    return visible(text, _TEXT)
