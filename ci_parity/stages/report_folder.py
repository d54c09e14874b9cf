"""Step 5a: the verdict as files: JSON, comment, page, bundle manifest, plots of error by depth."""

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base.files import write_atomic
from ci_parity.records.verdict import Verdict
from ci_parity.report import depth_plot, html, json_v1, markdown
from ci_parity.report.divergence_words import plot_file
from ci_parity.report.occasion import Occasion
from ci_parity.stages.stored_report import drop_record, write_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What judged: the commit, the run's page and its identity; empty outside git or CI."""

    commit: str = ""
    run_url: str = ""
    run: str = ""


def write_report(verdict: Verdict, manifest: bytes, folder: Path, origin: Origin) -> Path:
    """Write verdict.json, comment.md, report.html, bundle.json, plots; return the JSON's path.

    The record that `ci-parity publish` reads comes last.
    """
    report = folder / "verdict.json"
    drop_record(folder)
    data = json_bytes(json_v1.render_check(verdict))
    write_atomic(report, data)
    occasion = Occasion(commit=origin.commit, run_url=origin.run_url)
    text = markdown.comment(verdict, occasion)[0]
    write_atomic(folder / "comment.md", text.encode())
    write_atomic(folder / "bundle.json", manifest)
    write_atomic(folder / "report.html", _page(verdict, origin).encode("utf-8", "backslashreplace"))
    _write_plots(verdict, folder)
    drop_reproductions(folder, {found.reproduction for found in verdict.divergences})
    write_record(verdict, data, folder)
    return report


def _page(verdict: Verdict, origin: Origin) -> str:
    files = html.Files(
        report="verdict.json", comment="comment.md", bundle="bundle.json", reproductions=".",
        commit=origin.commit, run_url=origin.run_url,
    )  # fmt: skip
    return html.render(verdict, files)


def _write_plots(verdict: Verdict, folder: Path) -> None:
    """Write depth-1.svg and so on; those of an earlier run do not stay beside this verdict."""
    for earlier in folder.glob("depth-[0-9]*.svg"):
        earlier.unlink()
    for number, found in enumerate(verdict.divergences, 1):
        name = plot_file(number, found)
        if name:
            write_atomic(folder / name, depth_plot.render(found).encode())


def drop_reproductions(folder: Path, own: Collection[str] = ()) -> None:
    """Delete the reproductions of an earlier run, which are none of `own`."""
    for earlier in folder.glob("repro-[0-9]*"):
        ours = (earlier / "repro.json").is_file() and not earlier.is_symlink()
        if ours and earlier.name not in own:
            shutil.rmtree(earlier, ignore_errors=True)


def json_bytes(document: Mapping[str, object]) -> bytes:
    """Return a report as indented JSON text."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")
