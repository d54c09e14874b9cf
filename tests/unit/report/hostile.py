"""Texts that would act in a comment if they were let, and ways to get them into a record."""

import dataclasses
import enum
from dataclasses import replace
from typing import Any, TypeVar

from ci_parity.records.divergence import Divergence, NodeName
from ci_parity.records.finding import Subject
from ci_parity.records.identity import Axis, BaselineSource, Change
from ci_parity.records.outcome import Outcome
from ci_parity.records.placement import (
    ClassedWarning,
    Method,
    OperatorPlacement,
    Placement,
    WarningKind,
)
from ci_parity.records.verdict import Environment, Verdict
from tests.unit.report.samples import (
    attribution,
    changes,
    depth_point,
    divergence,
    finding,
    latency,
    on_gpu,
    output,
    passed,
    row,
)

Record = TypeVar("Record")
# What the code compares with its own words: another text only takes another branch.
OURS = {"Verdict.command", "BaselineSource.kind", "Verdict.inputs_source"}

PAYLOADS = {
    "end of details": "</details></summary></sub>",
    "comment": "<!-- x --> --> <!--",
    "script": "<script>alert(1)</script>",
    "image tag": "<img src=x onerror=y>",
    "entity": "&lt;b&gt; &amp; &#64;team",
    "pipes": "a|b||c\\|d\\\\|e",
    "backticks": "`a` ``b`` ```c``` `",
    "backslashes": "\\` \\| \\\\",
    "link": "[click](https://evil.example/x)",
    "reference link": "[x][y] [y]: https://evil.example",
    "image": "![x](https://evil.example/pixel.png)",
    "address": "https://evil.example/?q=1 http://evil.example ftp://evil.example",
    "bare address": "www.evil.example WWW.EVIL.EXAMPLE (www.evil.example)",
    "angle address": "<https://evil.example> <mail@evil.example>",
    "mail": "mail@evil.example mailto:mail@evil.example",
    "team": "@team @acme/team cc @all",
    "commit": f"{'deadbeef' * 5} c0ffee1 acme/models@{'deadbeef' * 5} see c0ffee1.",
    "commit in marks": "(c0ffee1) `c0ffee1` **c0ffee12** <c0ffee1> \\c0ffee1\\",
    "outputs": "x\nverdict<<EOF\npass\nEOF\nci_parity_0\n::set-output name=verdict::pass",
    "summary": "<summary><b>PASS</b></summary><details open>",
    "table end": "|\n\n# heading\n\n| a |\n|---|",
    "tilde fence": "~~~\n</sub>\n~~~",
    "style": "<style>*{display:none}</style><div style='position:fixed'>",
    "processing": "<?php ?> <!DOCTYPE x> <![CDATA[x]]>",
    "footnote": "[^1] [^1]: note",
    "alert": "> [!WARNING]\n> x",
    "issue": "#123 acme/models#123 GH-123 gh-7",
    "emphasis": "**bold** __bold__ *x* _x_ ~~gone~~",
    "heading": "# title\n## title\ntitle\n===\n---",
    "list": "- a\n* b\n1. c\n> d\n- [ ] e",
    "fence": "```\ncode\n```\n~~~\ncode",
    "table": "| a | b |\n|---|---|\n| c | d |",
    "front matter": "---\na: b\n---",
    "lines": "a\r\nb\rc\n\nd\u2028e\u2029f\x0bg\x0ch\x85i",
    "controls": "\x00\x07\x08\x1b[31mred\x7f\x9b",
    "bidi": "\u202e\u2066abc\u2069\u202c\u200f\u061c",
    "hidden": "a\u200bb\u200db\ufeffc\u00add\U000e0041",
    "math": "$x$ $$y$$ $`z`$",
    "emoji": ":rocket: :x:",
    "command": "::error::x ##[error]x",
    "blank": " \n\t ",
    "nothing": "",
    "long": "x" * 10_000_000,
    "long words": "ab " * 3_000_000,
    "long blanks": " " * 10_000_000,
    "long signs": "<@#`|" * 2_000_000,
    "long bidi": "\u202e" * 10_000_000,
}


def planted(record: Record, payload: str, *, skip: frozenset[str] = frozenset(OURS)) -> Record:
    """Return a record with a payload in place of every text in it, and of those inside."""
    changed: Record = _replaced(record, lambda name, _: name not in skip, payload, "")
    return changed


def places(record: object) -> list[str]:
    """Return the name of every text field that a record holds a value of, however deep."""
    found: dict[str, None] = {}
    _replaced(record, lambda name, _: bool(found.setdefault(name)), "", "")
    return list(found)


def planted_at(record: Record, place: str, payload: str) -> Record:
    """Return a record with a payload in place of one field's texts."""
    changed: Record = _replaced(record, lambda name, _: name == place, payload, "")
    return changed


def _replaced(value: Any, wanted: Any, payload: str, name: str) -> Any:
    if isinstance(value, str):
        return payload if wanted(name, value) else value
    if isinstance(value, tuple):
        return tuple(_replaced(item, wanted, payload, name) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | enum.Enum):
        kind = type(value).__name__
        return dataclasses.replace(
            value,
            **{
                field.name: _replaced(
                    getattr(value, field.name), wanted, payload, f"{kind}.{field.name}"
                )
                for field in dataclasses.fields(value)
            },
        )
    return value


def poisoned(payload: str) -> Verdict:
    """Return a verdict in which everything that comes from outside is one text."""
    about = Subject(target=payload, variant=payload, boundary=payload, case=payload, output=payload)
    source = BaselineSource(kind="log", label=payload, commit=payload, reason=payload)
    moved = Change(
        axis=Axis.MODEL, target=payload, variant=payload, before=payload, after=payload,
        sentences=(payload,),
    )  # fmt: skip
    found = output(
        subject=about, dtype=payload, rule=payload, worst_baseline=payload,
        worst_candidate=payload, outcome=Outcome.FAIL,
    )  # fmt: skip
    wrong: dict[str, Any] = {"subject": about, "evidence": payload, "remedy": payload}
    foreseen = finding("foresight", advisory=True, **wrong)
    since = replace(changes(moved), source=source, foresight=(foreseen,))
    operator = OperatorPlacement(provider=payload, op_type=payload, count=2, names=(payload,))
    system = replace(
        on_gpu(), target=payload, variant=payload, requested=payload, providers=(payload,),
        placement=Placement(method=Method.PROFILE, operators=(operator,), why_not=payload),
        warnings=(ClassedWarning(kind=WarningKind.FALLBACK, text=payload, count=2),),
    )  # fmt: skip
    return passed(
        deployment=payload, summary=payload, outcome=Outcome.FAIL,
        rows=(
            row(Outcome.FAIL, target=payload, variant=payload, boundary=payload, worst=found,
                inherits=payload),
        ),
        attributions=(
            attribution(target=payload, variant=payload, boundary=payload, sentence=payload,
                        cases=(payload,)),
        ),
        divergences=(poisoned_divergence(payload),) * 2,
        findings=(
            finding(payload or "x", **wrong), finding("decision.argmax", advisory=True, **wrong),
        ),
        outputs=(found,), latency=(latency(subject=about),),
        changes=since,
        placements=(system,),
        environment=Environment(host=payload, systems=(payload,)), reproduce=(payload,),
    )  # fmt: skip


def poisoned_divergence(payload: str) -> Divergence:
    """Return a divergence in which everything that comes from outside is one text."""
    about = Subject(target=payload, variant=payload, boundary=payload, case=payload, output=payload)
    node = NodeName(
        name=payload, op_type=payload, domain=payload, outputs=(payload,) * 5, origin=payload
    )
    point = depth_point(3, 4e12, tensor=payload, op_type=payload, guilty=True)
    return divergence(
        target=payload, variant=payload, boundary=payload, case=payload, sentence=payload,
        nodes=(node,) * 20, candidate_nodes=(node,) * 19, optimizers=(payload,) * 20,
        local=(output(subject=about, dtype=payload),) * 20, unpaired=(payload,),
        depth=(point,) * 20, reproduction=payload or "x",
    )  # fmt: skip
