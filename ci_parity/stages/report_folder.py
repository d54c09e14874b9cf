"""Step 5a: the verdict as files: JSON, comment and bundle manifest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.files import write_atomic
from ci_parity.records.verdict import Verdict
from ci_parity.report import json_v1, markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What judged: the commit, the run's page and its identity; empty outside git or CI."""

    commit: str = ""
    run_url: str = ""
    run: str = ""


def write_report(verdict: Verdict, manifest: bytes, folder: Path, origin: Origin) -> Path:
    """Write verdict.json, comment.md and bundle.json; return the path of the JSON."""
    report = folder / "verdict.json"
    write_atomic(report, json_bytes(json_v1.render_check(verdict)))
    text = markdown.comment(verdict, commit=origin.commit, run_url=origin.run_url)[0]
    write_atomic(folder / "comment.md", text.encode())
    write_atomic(folder / "bundle.json", manifest)
    return report


def json_bytes(document: Mapping[str, object]) -> bytes:
    """Return a report as indented JSON text."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")
