"""The workflow that `init` writes: `workflows/pull-request.yml`, fitted to a repository.

The template is the one that users copy by hand, so both are tested by the same runs. What is
changed is changed as text, so that its comments and pinned commits stay.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ci_parity.base.errors import CiParityError

_NAME = "workflows/pull-request.yml"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_USES = re.compile(r"^( *)(- )?uses: ci-parity/ci-parity@.*$", re.MULTILINE)
_ACTION = re.compile(r"(uses: )((?:actions|ci-parity)/)")
_HEADER = re.compile(r"(?:#.*\n)+")
_ABSOLUTE = ("forgejo", "gitea")


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterWorkflow:
    """What a workflow is told.

    `configs` are config files below `folder`, which is empty for the repository's top; one that has
    the usual name need not be said. `appends` says that runs write a release log on a branch.
    """

    platform: str
    branch: str
    runs_on: Sequence[str]
    configs: Sequence[str] = ()
    folder: str = ""
    lfs: bool = False
    appends: bool = False


def workflow_template() -> str:
    """Return the workflow as it is shipped: in the package, or beside it in a clone."""
    packaged = resources.files("ci_parity").joinpath(_NAME)
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / _NAME).read_text(encoding="utf-8")


def starter_workflow(template: str, wanted: StarterWorkflow) -> str:
    """Return the text of a workflow.

    Args:
        template: the text of `workflow_template`.
        wanted: what to put into it.

    Raises:
        CiParityError: the template lacks a line that must be changed.
    """
    text = _HEADER.sub("# Written by `ci-parity init`; yours to change.\n", template, count=1)
    text = _replaced(text, r"branches: \[main\]", f"branches: [{_word(wanted.branch)}]")
    labels = ", ".join(_word(label) for label in wanted.runs_on)
    text = _replaced(text, r"runs-on: \[self-hosted\]", f"runs-on: [{labels}]")
    if wanted.appends:
        text = _replaced(text, "contents: read", "contents: write")
        text = _replaced(text, "persist-credentials: false", "persist-credentials: true")
    if wanted.lfs:
        text = _replaced(text, r"( *)fetch-depth: 0", r"\g<0>\n\1lfs: true")
    inputs = [("working_directory", wanted.folder)] if wanted.folder else []
    if len(wanted.configs) > 1:
        names = ", ".join(_word(name) for name in wanted.configs)
        matrix = f"strategy: {{fail-fast: false, matrix: {{config: [{names}]}}}}"
        text = _replaced(text, r"( *)(runs-on: .*)", rf"\1{_literal(matrix)}\n\1\2")
        inputs.append(("config", "${{ matrix.config }}"))
    elif wanted.configs:
        inputs.append(("config", wanted.configs[0]))
    text = _with_inputs(text, [f"{key}: {_word(value)}" for key, value in inputs])
    # Elsewhere, a short name is looked up on a server of the platform's own choice.
    return _ACTION.sub(r"\1https://github.com/\2", text) if wanted.platform in _ABSOLUTE else text


def _with_inputs(text: str, lines: Sequence[str]) -> str:
    """Put inputs under the `with:` of the step that uses the action, which may have none yet."""
    step = _USES.search(text)
    if step is None:
        raise _changed("the step that uses the action")
    if not lines:
        return text
    pad = " " * (len(step[1]) + len(step[2] or ""))
    end, heading = step.end(), f"\n{pad}with:"
    if text.startswith(f"{heading}\n", end):
        end, heading = end + len(heading), ""
    return text[:end] + heading + "".join(f"\n{pad}  {line}" for line in lines) + text[end:]


def _replaced(text: str, pattern: str, replacement: str) -> str:
    changed, count = re.subn(pattern, replacement, text, count=1)
    if not count:
        raise _changed(pattern)
    return changed


def _word(text: str) -> str:
    """Return a word as YAML and GitHub's expressions read it back, in quotes where need be."""
    return text if _PLAIN.fullmatch(text) or text.startswith("${{") else json.dumps(text)


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\")


def _changed(what: str) -> CiParityError:
    return CiParityError(f"{_NAME} no longer has {what}")
