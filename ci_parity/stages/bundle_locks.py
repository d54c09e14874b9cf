"""The files of a deployment that pin packages: of its runtimes, its converter, its optimizer."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_parity.base.errors import EvidenceError
from ci_parity.config.pinned import find_pinned_runtime
from ci_parity.config.systems import Variant

_MANIFESTS = {"uv.lock": "pyproject.toml", "poetry.lock": "pyproject.toml"}


def lock_files(
    root: Path, variants: Sequence[Variant], config: Mapping[str, Any] | None
) -> tuple[Path, ...]:
    """Return every file that pins packages, and those it includes pins from.

    Args:
        root: the deployment's folder.
        variants: its variants.
        config: its config as written, None where it was discovered.
    """
    named = [*_of_variants(variants), *_of_targets(root, config)]
    found: dict[Path, None] = {}
    for path in named:
        found[path] = None
        found |= dict.fromkeys(root / name for name in _included(path, root))
    return tuple(found)


def _of_variants(variants: Sequence[Variant]) -> Iterator[Path]:
    for variant in variants:
        for made in (variant.converter, variant.optimization):
            if made is not None and made.requires is not None:
                yield made.requires


def _of_targets(root: Path, config: Mapping[str, Any] | None) -> Iterator[Path]:
    """Yield the files that runtimes are pinned in, which a deployment no longer names."""
    if config is None:
        found = find_pinned_runtime(root)
        if found is not None:
            yield found.path
        return
    for target in config.get("targets", {}).values():
        runtime = target.get("runtime")
        if isinstance(runtime, Mapping) and "requires" in runtime:
            path = root / runtime["requires"]
            yield path
            # Such a lock does not say which of its packages somebody asks for.
            if path.name in _MANIFESTS and path.with_name(_MANIFESTS[path.name]).is_file():
                yield path.with_name(_MANIFESTS[path.name])


def _included(path: Path, root: Path) -> Iterator[str]:
    """Yield the files that pins of `path` stand in; one that cannot be read is judged elsewhere."""
    from ci_parity.base.pins import read_pins

    try:
        pins = read_pins(path, root)
    except EvidenceError:
        return
    for pin in pins.pins:
        yield pin.where.rpartition(":")[0]
