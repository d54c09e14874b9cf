"""The workflow's side channel: inputs in; outputs, step summary and annotations out.

Functions return the text to print; `cli` prints it. Findings, file names and runtimes' last words
are untrusted: whatever they hold, they set no output, end no heredoc and start no workflow command.
"""

import enum
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from ci_parity.base.errors import CiParityError, ConfigError, PublishError

Level: TypeAlias = Literal["error", "warning", "notice"]

ANNOTATIONS_PER_LEVEL = 10
MAX_SHARDS = 256
# The runner drops a whole summary above 1 MiB; the rest is room for masks written over secrets.
SUMMARY_LIMIT_BYTES = 1_000_000

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# The runner looks for `::` after leading blanks and for `##[` anywhere in a line
# (actions/runner, ActionCommand.cs); it ends lines where a terminal would.
_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_COMMAND = re.compile(rf"(\A|[{_ENDS}])([^\S{_ENDS}]*):(?=:)")
_OLD_COMMAND = re.compile(r"#(?=#\[)")
_BREAK = "\u200b"
_TRUTH = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_Member = TypeVar("_Member", bound=enum.Enum)


class RecordMode(enum.Enum):
    """When a run writes to the release log."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Mode(enum.Enum):
    """What of the whole path a step does; `check` is all of it, on one machine."""

    CHECK = "check"
    PLAN = "plan"
    RUN = "run"
    GATE = "gate"
    COMMENT = "comment"
    RELEASE = "release"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInputs:
    """The `with:` of the workflow; the defaults are those of `action.yml`.

    `config` and `log` are empty where the workflow names none, `job_container` where the job has
    none; `plan`, `leg`, `needs` and
    `artifacts` serve the modes of a run over several machines, `bundle`, `digest`, `to`, `reason`
    and `dry_run` those that put something out; all are empty otherwise.
    """

    config: str = ""
    github_token: str = field(default="", repr=False)
    record: RecordMode = RecordMode.AUTO
    comment: bool = True
    force: bool = False
    report_dir: str = "ci-parity-report"
    job_container: str = ""
    working_directory: str = "."
    log: str = ""
    commit_status: str = ""
    mode: Mode = Mode.CHECK
    shards: int = 1
    plan: str = ""
    leg: str = ""
    needs: str = ""
    artifacts: str = ""
    bundle: str = ""
    digest: str = ""
    to: str = ""
    reason: str = ""
    dry_run: bool = False


def read_inputs(environ: Mapping[str, str]) -> ActionInputs:
    """Read the action's inputs; an empty one takes its default.

    Raises:
        ConfigError: when an input has a value it cannot take.
    """
    inputs = _Inputs(environ)
    default = ActionInputs()
    return ActionInputs(
        config=inputs.text("config", default.config),
        github_token=inputs.text("github_token", default.github_token),
        record=inputs.choice("record", default.record),
        comment=inputs.truth("comment", default=default.comment),
        force=inputs.truth("force", default=default.force),
        report_dir=inputs.text("report_dir", default.report_dir),
        job_container=inputs.text("job_container", default.job_container),
        working_directory=inputs.text("working_directory", default.working_directory),
        log=inputs.text("log", default.log),
        commit_status=inputs.text("commit_status", default.commit_status),
        mode=inputs.choice("mode", default.mode),
        shards=inputs.count("shards", default.shards, MAX_SHARDS),
        plan=inputs.text("plan", default.plan),
        leg=inputs.text("leg", default.leg),
        needs=inputs.text("needs", default.needs),
        artifacts=inputs.text("artifacts", default.artifacts),
        bundle=inputs.text("bundle", default.bundle),
        digest=inputs.text("digest", default.digest),
        to=inputs.text("to", default.to),
        reason=inputs.text("reason", default.reason),
        dry_run=inputs.truth("dry_run", default=default.dry_run),
    )


class _Inputs:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str, default: str) -> str:
        return self._environ.get(f"INPUT_{name.upper()}", "").strip() or default

    def choice(self, name: str, default: _Member) -> _Member:
        text = self.text(name, default.value)
        for member in type(default):
            if member.value == text:
                return member
        raise _unknown(name, text, [member.value for member in type(default)])

    def count(self, name: str, default: int, most: int) -> int:
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= most):
            raise ConfigError(
                f"{text!r} is not a number from 1 to {most}",
                where=f"input {name}",
                remedy=f"write one, or leave {name} out",
            )
        return int(text)

    def truth(self, name: str, *, default: bool) -> bool:
        text = self.text(name, "true" if default else "false")
        if text not in _TRUTH:
            raise _unknown(name, text, ["true", "false"])
        return _TRUTH[text]


def _unknown(name: str, text: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{text!r} is not one of {', '.join(known)}",
        where=f"input {name}",
        remedy=f"write one of them, or leave {name} out",
    )


def write_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Append step outputs to the file GITHUB_OUTPUT names.

    Each value stands between delimiters that nobody can guess, so no value sets another output.

    Raises:
        PublishError: when the file cannot be written.
        CiParityError: for a name that no expression could read; names are ours.
    """
    _append(path, "".join(_output(name, value) for name, value in outputs.items()))


def _output(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        raise CiParityError(f"{name!r} is no output's name")
    delimiter = f"ci_parity_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_summary(path: Path, texts: Sequence[str]) -> bool:
    """Append the first of `texts` that fits to the file GITHUB_STEP_SUMMARY names.

    `texts` go from the fullest to the shortest. Returns whether one of them fitted beside what the
    file already held.

    Raises:
        PublishError: when the file cannot be written.
    """
    with _writing(path):
        used_bytes = path.stat().st_size if path.exists() else 0
    for text in texts:
        if used_bytes + len(_encode(text)) + 2 <= SUMMARY_LIMIT_BYTES:
            _append(path, f"{text}\n")
            return True
    _LOG.warning("the step summary has no room for the report: %s", path)
    return False


def _append(path: Path, text: str) -> None:
    """Append whole lines, on a line of their own even after an unfinished one."""
    with _writing(path), path.open("a+b") as stream:
        size_bytes = stream.seek(0, os.SEEK_END)
        if size_bytes:
            stream.seek(size_bytes - 1)
            if stream.read(1) != b"\n":
                stream.write(b"\n")
        stream.write(_encode(text))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PublishError(
            f"cannot write the runner's file: {error.strerror or error}",
            where=str(path),
            remedy="mount the folder of the runner's file commands into the container",
        ) from error


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def annotation(
    level: Level, message: str, *, title: str, file: str | None = None, line: int | None = None
) -> str:
    """Return the workflow command that shows `message` beside the code, or beside the run."""
    properties = {"title": title, "file": file, "line": line}
    written = ",".join(
        f"{name}={_escape_property(str(value))}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level} {written}::{_escape(message)}"


def neutralise(text: str) -> str:
    """Return `text` so that no line of it is a workflow command; a reader sees the same."""
    return _OLD_COMMAND.sub(f"#{_BREAK}", _COMMAND.sub(rf"\1\2:{_BREAK}", text))


def group(title: str, text: str) -> str:
    """Return untrusted `text` as a block that the log shows folded under `title`."""
    return f"::group::{_escape(title)}\n{neutralise(text)}\n::endgroup::"


def stop_commands(token: str = "") -> tuple[str, str]:
    """Return the lines between which the runner takes no command; a random token by default."""
    token = token or secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"


def _escape(text: str) -> str:
    for sign in "%\r\n":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
