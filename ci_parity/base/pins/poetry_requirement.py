"""Poetry's own way to ask for projects, in `[tool.poetry]` of pyproject.toml, to pins.

Source: Poetry's "Dependency specification". `^1.2`, `~1.2` and `1.2.*` are kept as written: they
are ranges of another language than PEP 440's. A bare `1.2.3` admits that version only.
"""

import re
from collections.abc import Iterator

from ci_parity.base.pins.normal import (
    all_of,
    exact_version,
    is_project_name,
    project_name,
    public_url,
    specifier_text,
)
from ci_parity.base.pins.pin import Pin
from ci_parity.base.pins.shape import Table, as_table

_MAX_TEXT = 1000
_BARE = re.compile(r"v?\d[\w.!+-]*")


def poetry_pins(dependencies: Table, condition: str) -> Iterator[Pin]:
    """Yield the pins of one table of dependencies that hold under a marker."""
    for name, value in dependencies.entries():
        if name == "python":
            continue
        if not is_project_name(name):
            raise dependencies.error(f"{name[:100]!r} is no name of a project")
        for item in value if isinstance(value, list) else [value]:
            wanted = {"version": item} if isinstance(item, str) else item
            yield _pin(name, as_table(wanted, dependencies.where, f"{name!r}"), condition)


def _pin(name: str, wanted: Table, condition: str) -> Pin:
    text = wanted.text("version").strip().removeprefix("*")
    specifier = f"=={text}" if _BARE.fullmatch(text) else specifier_text(text)
    return Pin(
        name=project_name(name), version=exact_version(specifier), specifier=specifier,
        marker=all_of(wanted.text("markers"), _python(wanted.text("python")), condition),
        extras=tuple(sorted(wanted.texts("extras"))), source=_source(wanted), direct=True,
        where=wanted.where,
    )  # fmt: skip


def _python(text: str) -> str:
    """Return a constraint on Python as a marker; one that PEP 440 cannot say stays as written."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if text in {"", "*"}:
        return ""
    try:
        parts = sorted(SpecifierSet(text) if len(text) < _MAX_TEXT else (), key=str)
    except InvalidSpecifier:
        parts = []
    if not parts:
        return f"python {text}"
    return all_of(*(f'python_full_version {p.operator} "{p.version}"' for p in parts))


def _source(wanted: Table) -> str:
    if wanted.text("git"):
        revision = wanted.text("rev") or wanted.text("tag") or wanted.text("branch")
        return f"git+{public_url(wanted.text('git'))}#{revision}"
    if wanted.text("path"):
        kind = "editable" if wanted.flag("develop") else "directory"
        return f"{kind}+{wanted.text('path')}"
    index = wanted.text("source")
    return public_url(wanted.text("url")) or (f"registry+{index}" if index else "")
