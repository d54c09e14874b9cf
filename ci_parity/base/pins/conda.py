"""A conda environment.yml to pins: its `pip:` list as requirements, the rest as conda packages.

Source: conda's "match specification" in its short form (`channel::name=version=build`). `=1.26`
admits 1.26.x and is a range; `==1.26` and a version with a build are pins.
"""

import re
from dataclasses import replace
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.documents import Tree, read_yaml
from ci_parity.base.pins.normal import project_name, public_url
from ci_parity.base.pins.pin import Pin, PinSet, without_repetitions
from ci_parity.base.pins.requirements import read_requirements
from ci_parity.base.pins.text import SourceText

_PACKAGE = re.compile(
    r"(?:(?P<channel>[\w./-]+)::)?(?P<name>[A-Za-z0-9_][\w.-]*)"
    r"(?:\s*(?P<operator>==?)\s*(?P<version>[^\s=<>!,|*]+)(?:=(?P<build>\S+))?"
    r"|\s*(?P<range>[<>=!~\[].*)|\s+(?P<loose>[\d*].*))?"
)


def read_conda(source: SourceText, root: Path) -> PinSet:
    """Return the pins of a conda environment file.

    Raises:
        EvidenceError: malformed, or a line of its `pip:` list is no requirement.
    """
    document = read_yaml(source)
    items = document.at("dependencies").items
    wanted = [tree for item in items for tree in item.at("pip").items]
    from_pip = _pip_requirements(source, root, wanted)
    own = (_pin(item, source.place(item.line)) for item in items if item.text)
    channels = [f"channel {item.text}" for item in document.at("channels").items]
    return PinSet(
        name=source.name, format="conda",
        pins=without_repetitions([*own, *from_pip.pins]),
        settings=(*channels, *from_pip.settings),
    )  # fmt: skip


def _pip_requirements(source: SourceText, root: Path, items: list[Tree]) -> PinSet:
    """Read the items as a requirements file whose lines are those of the YAML."""
    lines: list[str] = []
    for item in items:
        lines.extend([""] * (item.line - 1 - len(lines)))
        lines.append(" ".join(item.text.split()))
    return read_requirements(replace(source, text="\n".join(lines)), root)


def _pin(item: Tree, where: str) -> Pin:
    found = _PACKAGE.fullmatch(item.text.strip())
    if not found:
        text = public_url(item.text)[:100]
        raise EvidenceError(f"not a conda package: {text!r}", where=where)
    parts = found.groupdict(default="")
    exact = parts["operator"] == "==" or bool(parts["build"])
    asked = f"{parts['operator']}{parts['version']}" or " ".join(
        (parts["range"] + parts["loose"]).split()
    )
    return Pin(
        name=project_name(parts["name"]), version=parts["version"] if exact else "",
        specifier=f"=={parts['version']}" if exact else " ".join(asked.split()),
        source="conda+" + "=".join(filter(None, (parts["channel"], parts["build"]))), direct=True,
        where=where,
    )  # fmt: skip
