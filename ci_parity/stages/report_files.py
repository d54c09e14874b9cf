"""Step 5c: the verdict in the forms that other systems read, each in a file of its own."""

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ci_parity.base.errors import PublishError
from ci_parity.base.files import write_atomic
from ci_parity.records.verdict import Verdict


def write_forms(
    verdict: Verdict, files: Mapping[str, Path], reproductions: Path | None = None
) -> None:
    """Write a verdict in each form of `files`, by the name of the form.

    Args:
        verdict: what was judged.
        files: where to write each form.
        reproductions: the folder that reproduces its divergences, for the page that links to it.

    Raises:
        PublishError: a file cannot be written; the others are.
    """
    failed: list[str] = []
    for form, path in files.items():
        try:
            text = _page(verdict, path, reproductions) if form == "html" else _text(form, verdict)
            write_atomic(_plain(path), text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            failed.append(f"{form}: {error.strerror or type(error).__name__}: {path}")
    if failed:
        raise PublishError(
            f"the verdict stands, but {len(failed)} of {len(files)} reports were not written: "
            + "; ".join(failed),
            where=", ".join(f"--{said.partition(':')[0]}" for said in failed),
            remedy="name files in a folder that can be written to",
        )


def drop_files(files: Mapping[str, Path]) -> None:
    """Delete what an earlier run wrote there; only plain files are."""
    for path in files.values():
        with contextlib.suppress(OSError):
            _plain(path).unlink(missing_ok=True)


def _plain(path: Path) -> Path:
    """Return the path itself, past every link, of a file that is plain or not there yet.

    Raises:
        OSError: something else is there, such as a device; putting a file in its place breaks it.
    """
    real = path.resolve()
    if real.exists() and not real.is_file():
        raise OSError(errno.EINVAL, "not a plain file")
    return real


def _page(verdict: Verdict, path: Path, reproductions: Path | None) -> str:
    from ci_parity.report import html

    folder = path.absolute().parent
    near = os.path.relpath(reproductions.absolute(), folder) if reproductions else ""
    return html.render(verdict, html.Files(reproductions=Path(near).as_posix() if near else ""))


def _text(form: str, verdict: Verdict) -> str:
    if form == "markdown":
        from ci_parity.report import markdown

        return markdown.comment(verdict)[0]
    from ci_parity.report import badge, junit, prometheus, sarif

    forms: Mapping[str, Callable[[Verdict], str]] = {
        "junit": junit.render, "sarif": sarif.render, "prometheus": prometheus.render,
        "badge": badge.render,
    }  # fmt: skip
    return forms[form](verdict)
