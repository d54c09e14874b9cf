"""Which files of the repository the parts of a deployment stand in, for reports that point at them.

Lines come from the config as it was read, and from the pins of requirement and lock files. A file
outside of the repository is no place.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_parity.base.errors import CiParityError
from ci_parity.config.model import Deployment
from ci_parity.config.pinned import find_pinned_runtime
from ci_parity.config.systems import Target, Variant
from ci_parity.config.yaml_source import Document, parse, read_text
from ci_parity.detect.git import Repository
from ci_parity.fixtures.store import FixtureSet
from ci_parity.records.identity import Axis, ChangeSet
from ci_parity.records.places import Part, Place
from ci_parity.records.verdict import Verdict

_LINE = re.compile(r"\(([^()\s]+):([0-9]{1,7})\)")
_PARTS_OF_TARGETS = {
    Part.RUNTIME: ("runtime",), Part.PLACEMENT: ("placement",),
    Part.OPTIONS: ("session_options", "provider_options", "provider"),
}  # fmt: skip
_MAX_KEYS = 1000


def with_places(
    verdict: Verdict, deployment: Deployment, fixtures: FixtureSet | None = None
) -> Verdict:
    """Return a verdict that knows where the parts of its deployment stand.

    What cannot be found costs a report the line it points at, never the verdict.
    """
    try:
        prefix = Repository(folder=deployment.root).prefix()
        found = tuple(_places(deployment, fixtures, verdict.changes))
    except (CiParityError, OSError, ValueError):
        return verdict
    return replace(verdict, places=tuple(replace(p, path=f"{prefix}{p.path}") for p in found))


def with_model(verdict: Verdict, model: Path) -> Verdict:
    """Return the verdict of two systems on a command line, with the candidate's model file."""
    path = _below(Path.cwd(), model)
    place = Place(part=Part.MODEL, path=path)
    return replace(verdict, places=(place,)) if path else verdict


def _places(
    deployment: Deployment, fixtures: FixtureSet | None, changes: ChangeSet | None
) -> Iterator[Place]:
    config = _config(deployment)
    for variant in deployment.variants:
        yield from _of_variant(variant, deployment, config, changes)
    for target in deployment.targets:
        yield from _of_target(target, deployment, config)
    if config is not None:
        yield Place(part=Part.CONFIG, path=deployment.origin)
        yield from _of_keys(deployment.origin, config.lines)
    if fixtures is not None:
        files = {case.name: (*case.input_files, *case.output_files) for case in fixtures.cases}
        for name, own in files.items():
            yield from _at(Part.CASE, name, own[0] if own else None, deployment.root)
        yield from _at(Part.FIXTURES, "", fixtures.manifest, deployment.root)


def _of_variant(
    variant: Variant, deployment: Deployment, config: Document | None, changes: ChangeSet | None
) -> Iterator[Place]:
    root = deployment.root
    yield from _at(Part.MODEL, variant.name, variant.path, root)
    line = config.lines.get(("variants", variant.name)) if config else None
    if line:
        yield Place(part=Part.VARIANT, name=variant.name, path=deployment.origin, line=line)
    converter, optimization = variant.converter, variant.optimization
    files = {
        Part.CONVERTER: converter.requires if converter else None,
        Part.OPTIMIZATION: optimization.recipe or optimization.requires if optimization else None,
    }
    for part, file in files.items():
        for place in _at(part, variant.name, file, root):
            line = _changed_line(Axis(part.value), variant.name, place.path, changes)
            yield replace(place, line=line)


def _of_target(target: Target, deployment: Deployment, config: Document | None) -> Iterator[Place]:
    root, path = deployment.root, deployment.origin
    if config is None:
        pinned = find_pinned_runtime(root)
        if pinned is not None and pinned.requirement == target.runtime:
            yield from _pinned(target, pinned.path, root)
        return
    required = _required(config.value, target.name)
    if required:
        yield from _pinned(target, root / required, root)
    for part, keys in _PARTS_OF_TARGETS.items():
        found = (config.lines.get(("targets", target.name, key)) for key in keys)
        line = next(filter(None, found), None)
        if line and not (required and part is Part.RUNTIME):
            yield Place(part=part, name=target.name, path=path, line=line)
    line = config.lines.get(("targets", target.name))
    if line:
        yield Place(part=Part.TARGET, name=target.name, path=path, line=line)


def _required(config: Mapping[str, Any], target: str) -> str:
    """Return the file that `runtime: {requires: FILE}` names, empty for any other runtime."""
    runtime = config.get("targets", {}).get(target, {}).get("runtime", "")
    named = runtime.get("requires", "") if isinstance(runtime, Mapping) else ""
    return named if isinstance(named, str) else ""


def _pinned(target: Target, file: Path, root: Path) -> Iterator[Place]:
    """Yield where a lock or requirements file pins the runtime of a target."""
    from ci_parity.base.pins import read_pins

    pin = read_pins(file, root).resolve(target.runtime.partition("==")[0])
    line = pin.where.rpartition(":")[2] if pin is not None else ""
    for place in _at(Part.RUNTIME, target.name, file, root):
        yield replace(place, line=int(line) if line.isdigit() else None)


def _of_keys(origin: str, lines: Mapping[tuple[str | int, ...], int]) -> Iterator[Place]:
    """Yield the keys of policy and contract, such as `outputs.probs`."""
    parts = {"policy": Part.POLICY, "contract": Part.CONTRACT}
    for path, line in list(lines.items())[:_MAX_KEYS]:
        if path and path[0] in parts:
            key = ".".join(str(word) for word in path[1:])
            yield Place(part=parts[str(path[0])], name=key, path=origin, line=line)


def _config(deployment: Deployment) -> Document | None:
    """Return the config as it was read, None for a deployment that was discovered."""
    file = deployment.root / deployment.origin
    return parse(read_text(file), where=file.name) if file.is_file() else None


def _changed_line(axis: Axis, variant: str, path: str, changes: ChangeSet | None) -> int | None:
    """Return the line of a file that a change names; None where it names none."""
    for change in changes.changes if changes else ():
        if change.axis is axis and change.variant == variant:
            for sentence in change.sentences:
                for file, line in _LINE.findall(sentence):
                    if file == path:
                        return int(line)
    return None


def _at(part: Part, name: str, file: Path | None, root: Path) -> Iterator[Place]:
    path = _below(root, file) if file is not None else ""
    if path:
        yield Place(part=part, name=name, path=path)


def _below(root: Path, path: Path) -> str:
    """Return a path as seen from `root`, empty where it leads elsewhere."""
    relative = os.path.relpath(path.absolute(), root.absolute())
    return "" if relative.startswith("..") else Path(relative).as_posix()
