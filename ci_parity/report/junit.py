"""The verdict as JUnit XML, as Jenkins, GitLab, Azure and Buildkite read it.

A suite is a boundary of a variant on a target; a test is a case of it, or a check that is about no
case. What failed is a `failure`, what was not measured an `error`. Nothing is ever `skipped`: a
viewer counts that as fine. Valid under the schema of Jenkins' xUnit plugin (junit-10.xsd).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ci_parity.base.escape import visible
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Row, Verdict
from ci_parity.report.words import (
    failures,
    headline,
    latency_words,
    measure,
    number,
    used,
    was_skipped,
)

# What XML 1.0 cannot hold, however it is written, beyond what `visible` spells out.
_NO_XML = re.compile("[\ufffe\uffff]")
_MAX_TESTS = 10_000
_MAX_LINES = 50
_MAX_PROPERTIES = 200
_LINE = 1000
_NAME = 200
_ELEMENTS = {Outcome.FAIL: "failure", Outcome.INCONCLUSIVE: "error"}
_Key = tuple[str, str, str]


@dataclass(slots=True, kw_only=True)
class _Test:
    """One test under way: its findings and comparisons, by which it is judged."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    outputs: list[OutputComparison] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    forced: Outcome = Outcome.PASS

    @property
    def outcome(self) -> Outcome:
        """The worst of what is known about it."""
        binding = [f.outcome for f in self.findings if not f.advisory]
        return Outcome.worst([self.forced, *binding, *(o.outcome for o in self.outputs)])


_Suites = dict[_Key, dict[str, _Test]]


def render(verdict: Verdict) -> str:
    """Return the verdict as JUnit XML."""
    suites = _suites(verdict)
    kept, left_out = _kept(suites)
    root = Element("testsuites", name=_text(f"CI Parity {verdict.deployment}", _NAME))
    _overall(root, verdict, left_out)
    limits = _limits(verdict.outputs)
    for key, tests in kept.items():
        _suite(root, key, tests, limits.get(key, {}))
    _count(root, list(root))
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _suites(verdict: Verdict) -> _Suites:
    """Sort every finding, comparison, timing and row into its test."""
    suites: _Suites = {}
    for row in verdict.rows:
        suites.setdefault((row.target, row.variant, row.boundary), {})
    for output in verdict.outputs:
        _test(suites, output.subject, _case(output.subject)).outputs.append(output)
    for finding in (*failures(verdict), *_others(verdict)):
        _test(suites, finding.subject, _about(finding)).findings.append(finding)
    for timing in verdict.latency:
        name = f"latency.p50 {timing.subject.case}".strip()
        words = f"{timing.baseline_p50_ms:.4g} to {timing.candidate_p50_ms:.4g} ms"
        _test(suites, timing.subject, name).lines.append(f"{latency_words(timing)}, {words}")
    for row in verdict.rows:
        _hold_to(row, suites[row.target, row.variant, row.boundary])
    return suites


def _test(suites: _Suites, subject: Subject, name: str) -> _Test:
    tests = suites.setdefault((subject.target, subject.variant, subject.boundary), {})
    return tests.setdefault(name, _Test(name=name))


def _others(verdict: Verdict) -> Iterator[Finding]:
    """Yield the findings that do not decide against the candidate."""
    return (f for f in verdict.findings if f.advisory or f.outcome is Outcome.PASS)


def _case(subject: Subject) -> str:
    return subject.case or subject.output or "outputs"


def _about(finding: Finding) -> str:
    subject = finding.subject
    if subject.case and subject.boundary:
        return subject.case
    return " ".join(part for part in (finding.id, subject.case, subject.output) if part)


def _hold_to(row: Row, tests: dict[str, _Test]) -> None:
    """Give a row that its tests do not show, or not as grave as it is, a test of its own."""
    shown = [test.outcome for test in tests.values()]
    if shown and Outcome.worst([row.outcome, *shown]) is Outcome.worst(shown):
        return
    said = f"{row.cases} of {row.cases_expected} {'runs' if row.alone else 'cases'}"
    said = "nothing that concerns it changed" if was_skipped(row) else said
    tests["boundary"] = _Test(name="boundary", forced=row.outcome, lines=[said])


def _kept(suites: _Suites) -> tuple[_Suites, dict[Outcome, int]]:
    """Return the suites with the gravest tests, and how many of each outcome were left out."""
    order = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}
    tests = [(key, test) for key, own in suites.items() for test in own.values()]
    if len(tests) > _MAX_TESTS:
        tests.sort(key=lambda one: order[one[1].outcome])
    kept: _Suites = {}
    for key, test in tests[:_MAX_TESTS]:
        kept.setdefault(key, {})[test.name] = test
    lost = [test.outcome for _, test in tests[_MAX_TESTS:]]
    return kept, {outcome: lost.count(outcome) for outcome in Outcome if outcome in lost}


def _overall(root: Element, verdict: Verdict, left_out: dict[Outcome, int]) -> None:
    """Add the suite of the verdict itself, without which a run with no tests would look fine."""
    suite = SubElement(root, "testsuite", name="verdict")
    facts = {
        "outcome": verdict.outcome.value, "command": verdict.command,
        "deployment": verdict.deployment, "ran": str(verdict.ran).lower(),
        "bundle_digest": verdict.bundle_digest and f"sha256:{verdict.bundle_digest}",
        "host": verdict.environment.host, "tool_version": verdict.tool_version,
    }  # fmt: skip
    facts |= {f"left_out.{outcome.value}": str(count) for outcome, count in left_out.items()}
    _properties(suite, {name: value for name, value in facts.items() if value})
    lines = [f"reproduce: {command}" for command in verdict.reproduce if command]
    lines += [f"cause: {found.sentence}" for found in verdict.attributions]
    lines += [f"begins: {found.sentence}" for found in verdict.divergences]
    test = _Test(name="verdict", forced=verdict.outcome, lines=[headline(verdict), *lines])
    _element(suite, test, "ci-parity")
    for outcome, count in left_out.items():
        said = f"{count} more tests of outcome {outcome.value} are not in this file: too many"
        _element(suite, _Test(name=f"left out: {outcome.value}", forced=outcome, lines=[said]), "")


def _limits(outputs: Sequence[OutputComparison]) -> dict[_Key, dict[str, str]]:
    """Return what each output needed and was allowed, for its worst case, as properties."""
    worst: dict[_Key, dict[str, OutputComparison]] = {}
    for output in outputs:
        about = output.subject
        known = worst.setdefault((about.target, about.variant, about.boundary), {})
        if about.output not in known or used(output) > used(known[about.output]):
            known[about.output] = output
    return {
        key: {
            f"output.{name}": f"needed {number(o.required)} of {measure(o.limit, o.unit)} "
            f"in {o.subject.case}"
            for name, o in list(known.items())[:_MAX_PROPERTIES]
        }
        for key, known in worst.items()
    }


def _suite(root: Element, key: _Key, tests: dict[str, _Test], limits: dict[str, str]) -> None:
    name = " / ".join(part for part in key if part) or "deployment"
    suite = SubElement(root, "testsuite", name=_text(name, _NAME))
    _properties(suite, limits)
    for test in tests.values():
        _element(suite, test, ".".join(part.replace(".", "_") for part in key if part))


def _properties(suite: Element, values: dict[str, str]) -> None:
    if values:
        block = SubElement(suite, "properties")
        for name, value in values.items():
            SubElement(block, "property", name=_text(name, _NAME), value=_text(value, _LINE))


def _element(suite: Element, test: _Test, classname: str) -> None:
    """Add one test: its outcome with the evidence, then what passed or warns."""
    where = _text(classname or "deployment", _NAME)
    element = SubElement(suite, "testcase", name=_text(test.name, _NAME), classname=where)
    binding = [f for f in test.findings if not f.advisory and f.outcome is not Outcome.PASS]
    if test.outcome is not Outcome.PASS:
        first = binding[0] if binding else None
        message = f"{first.id}: {first.evidence}" if first else "".join(test.lines[:1])
        lines = [line for finding in binding for line in _evidence(finding)] or test.lines
        problem = SubElement(
            element, _ELEMENTS[test.outcome], type=_text(first.id if first else "verdict", _NAME),
            message=_text(message or test.outcome.value, _LINE),
        )  # fmt: skip
        problem.text = _block(lines or [_comparison(o) for o in test.outputs])
    notes = [line for f in test.findings if f not in binding for line in _note(f)]
    notes += [_comparison(output) for output in test.outputs]
    notes += test.lines if binding or test.outcome is Outcome.PASS else []
    if notes:
        SubElement(element, "system-out").text = _block(notes)


def _evidence(finding: Finding) -> Iterator[str]:
    mark = "not measured: " if finding.outcome is Outcome.INCONCLUSIVE else ""
    where = f" [{finding.subject}]" if str(finding.subject) else ""
    yield f"{mark}{finding.id}{where} {finding.evidence}"
    if finding.required is not None or finding.limit is not None:
        yield f"needed {number(finding.required)}, limit {measure(finding.limit, finding.unit)}"
    if finding.remedy:
        yield f"remedy: {finding.remedy}"


def _note(finding: Finding) -> Iterator[str]:
    if finding.outcome is not Outcome.PASS:
        yield f"warning: {finding.id} {finding.evidence}"
    elif finding.id != "output.values":
        yield f"{finding.id}: {finding.evidence}"


def _comparison(output: OutputComparison) -> str:
    limit = measure(output.limit, output.unit)
    return f"{output.subject.output}: needed {number(output.required)} of {limit}; {output.rule}"


def _block(lines: Sequence[str]) -> str:
    shown = [_text(line, _LINE) for line in lines[:_MAX_LINES]]
    more = len(lines) - len(shown)
    return "\n".join((*shown, *([f"… and {more} more lines"] if more else [])))


def _text(text: str, limit: int) -> str:
    """Return one line that XML can hold and no viewer acts on."""
    return _NO_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(text, limit))


def _count(root: Element, suites: Sequence[Element]) -> None:
    """Set the numbers of tests, failures and errors on every suite and on the whole."""
    totals = dict.fromkeys(("tests", "failures", "errors"), 0)
    for suite in suites:
        tests = suite.findall("testcase")
        counts = {
            "tests": len(tests),
            "failures": sum(test.find("failure") is not None for test in tests),
            "errors": sum(test.find("error") is not None for test in tests),
        }
        for name, count in counts.items():
            suite.set(name, str(count))
            totals[name] += count
    for name, count in totals.items():
        root.set(name, str(count))
