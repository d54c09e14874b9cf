import pytest

from ci_parity.github.annotations import ROOM, annotations
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome
from ci_parity.records.places import Part, Place


def finding(
    outcome: Outcome = Outcome.FAIL, *, advisory: bool = False, evidence: str = "3 of 40 differ",
    kind: str = "output.values", case: str = "",
) -> Finding:  # fmt: skip
    """Return a finding about one output."""
    subject = Subject(target="gpu", variant="int8", case=case, output="probs")
    return Finding(
        id=kind, outcome=outcome, subject=subject, evidence=evidence, remedy="look at it",
        advisory=advisory,
    )  # fmt: skip


def nowhere(_: Finding) -> None:
    """Know no file."""


def kinds(count: int, *, advisory: bool = False) -> list[Finding]:
    """Return findings that are not the same."""
    return [finding(kind=f"kind.{number}", advisory=advisory) for number in range(count)]


def test_blocking_findings_are_errors_and_advice_is_a_warning() -> None:
    """What makes the job red is red; a pass is not mentioned; failures stand before the rest."""
    found = [
        finding(Outcome.PASS),
        finding(Outcome.INCONCLUSIVE, kind="case.not_run"),
        finding(Outcome.FAIL, advisory=True),
        finding(Outcome.PASS, advisory=True),
        finding(Outcome.FAIL),
    ]
    lines = annotations(found, nowhere)
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::error", "::warning"]
    assert "title=parity fail%3A output.values" in lines[0]
    assert "title=parity inconclusive%3A case.not_run" in lines[1]
    assert lines[0].endswith("::gpu / int8 / probs: 3 of 40 differ%0Aremedy: look at it")


def test_cases_of_one_problem_are_one_annotation() -> None:
    """The worst is told, the others are named as far as anybody reads."""
    cases = [finding(case=f"case-{number}") for number in range(20)]
    (line,) = annotations(cases, nowhere)
    assert "gpu / int8 / case-0 / probs: 3 of 40 differ" in line
    assert "%0Aalso in case-1, case-2, " in line
    assert "case-10 and 9 more%0A" in line


def test_a_pass_of_the_same_check_is_not_among_its_cases() -> None:
    """Nor is what was not measured among what failed."""
    found = [finding(case="a"), finding(Outcome.PASS, case="b")]
    found.append(finding(Outcome.INCONCLUSIVE, case="c"))
    lines = annotations(found, nowhere)
    assert len(lines) == 2
    assert not any("also in" in line for line in lines)


def test_annotations_keep_to_what_github_shows() -> None:
    """Above their room, the last of a level counts the rest instead of hiding it."""
    lines = annotations([*kinds(25), *kinds(25, advisory=True)], nowhere)
    errors = [line for line in lines if line.startswith("::error")]
    warnings = [line for line in lines if line.startswith("::warning")]
    assert len(errors) == ROOM["error"] < 10
    assert len(warnings) == ROOM["warning"] < 10
    assert errors[-1].endswith(f"::{25 - ROOM['error'] + 1} more findings stand in the report")
    assert warnings[-1].endswith(f"::{25 - ROOM['warning'] + 1} more findings stand in the report")


@pytest.mark.parametrize("level", ["error", "warning"])
def test_what_just_fits_is_all_shown(level: str) -> None:
    """Nothing is counted where nothing is left out."""
    lines = annotations(kinds(ROOM[level], advisory=level == "warning"), nowhere)
    assert len(lines) == ROOM[level]
    assert not any("more findings" in line for line in lines)


def test_an_annotation_stands_at_its_file() -> None:
    """With the line where one is known; separators in a path do not end the property."""

    def place_of(finding: Finding) -> Place | None:
        line = 7 if finding.id == "with.line" else None
        return Place(part=Part.MODEL, path="a,b::c/ü.onnx", line=line)

    first, second = annotations([finding(kind="with.line"), finding(kind="without")], place_of)
    assert ",file=a%2Cb%3A%3Ac/ü.onnx,line=7::" in first
    assert ",file=a%2Cb%3A%3Ac/ü.onnx::" in second


def test_findings_words_start_no_command() -> None:
    """A runtime's last words stay inside their annotation, and leave the remedy its room."""
    words = "died\n::add-mask::e\r::error::x\n##[set-env name=A]b" + "x" * 10_000_000
    (line,) = annotations([finding(evidence=words)], nowhere)
    assert "\n" not in line
    assert "\r" not in line
    assert len(line) < 5000
    assert line.endswith("%0Aremedy: look at it")
