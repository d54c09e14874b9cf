"""Reads the JSON lines of ``act --json --verbose``; knows nothing of how act was started.

Kept: what a person would see, plus the output of ``docker build``, which act calls debugging.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_EXIT_CODE = re.compile(r"^exit (?:with `FAILURE`:|status) (\d+)")
_BUILD = "docker build -t "


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """One step of one job, as act saw it.

    ``job`` is workflow/job, where there is a matrix with ``-1``, ``-2`` …; ``step`` is the id from
    the workflow, or the position where it has none; ``stage`` is Pre, Main or Post; ``outcome`` is
    success, failure or skipped, and empty where act died first. ``exit_code`` is the container's
    or the script's, which GitHub never tells.
    """

    job: str
    step: str
    stage: str
    outcome: str
    exit_code: int
    outputs: dict[str, str]
    summary: str


@dataclass(slots=True, kw_only=True)
class _Draft:
    outcome: str = ""
    exit_code: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""


def read_log(lines: Iterable[str]) -> tuple[str, tuple[StepRun, ...]]:
    """Return the readable log and every step in the order in which it first spoke."""
    text: list[str] = []
    drafts: dict[tuple[str, str, str], _Draft] = {}
    building = False
    for line in lines:
        entry = _decoded(line)
        message = str(entry.get("msg", line))
        debugging = entry.get("level") == "debug"
        if not debugging:
            building = _BUILD in message
        if building or not debugging:
            text.append(message.rstrip("\n"))
        if "stepID" in entry and not entry.get("raw_output"):
            key = (
                str(entry["job"]).strip(),
                "/".join(entry["stepID"]),
                str(entry.get("stage", "")),
            )
            _note(drafts.setdefault(key, _Draft()), entry, message)
    return "\n".join(text), tuple(_finished(key, draft) for key, draft in drafts.items())


def _decoded(line: str) -> dict[str, Any]:
    """Return the line's fields; none where act printed plain text."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _note(draft: _Draft, entry: dict[str, Any], message: str) -> None:
    draft.outcome = entry.get("stepResult", draft.outcome)
    if entry.get("command") == "set-output":
        draft.outputs[entry["name"]] = entry["arg"]
    if entry.get("command") == "summary":
        draft.summary += entry["content"]
    if code := _EXIT_CODE.match(message):
        draft.exit_code = int(code[1])


def _finished(key: tuple[str, str, str], draft: _Draft) -> StepRun:
    job, step, stage = key
    return StepRun(
        job=job, step=step, stage=stage, outcome=draft.outcome, exit_code=draft.exit_code,
        outputs=draft.outputs, summary=draft.summary,
    )  # fmt: skip
