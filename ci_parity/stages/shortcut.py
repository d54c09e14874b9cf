"""Step 0: a repository in which git shows no difference costs next to nothing.

Where the config and everything it names are byte for byte what they were at the base commit, every
identity is too, and no model needs to be opened to know it. The shortcut reads the config without
validating it, because git vouches that it has not changed; whatever it does not understand, or
cannot be sure of, is left to the full path. It looks at nothing outside git: with a release log,
which also knows drivers and installed files, it is not taken.
"""

import mmap
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import CiParityError
from ci_parity.config import CONFIG_NAME
from ci_parity.config.runtimes import is_installed
from ci_parity.config.yaml_source import parse, read_text
from ci_parity.detect.git import Repository
from ci_parity.records.identity import BaselineSource, ChangeSet
from ci_parity.records.verdict import Verdict
from ci_parity.stages.preprocessing import files_of_pipeline, is_code, pipeline_of

if TYPE_CHECKING:
    from ci_parity.stages.bundling import Subject

# How a tensor says that its data lies in another file: the key of an external-data entry. A graph
# without these bytes has no external data.
_EXTERNAL = b"\x0a\x08location"
# Locks, and the file beside them that says which of their packages somebody asks for.
_MANIFESTS = {"uv.lock": "pyproject.toml", "poetry.lock": "pyproject.toml"}
_OPTION = re.compile(r"(?:^|\s)-(?!-hash=)", re.MULTILINE)


def unchanged_by_git(root: Path, config: str, base: str) -> tuple[Verdict, bytes] | None:
    """Return the verdict of a run that has nothing to do, with its bundle manifest.

    None wherever that is not certain.

    Args:
        root: the deployment's folder.
        config: the config file below it, empty for the usual one.
        base: the base commit or revision, empty for the merge base with the default branch.
    """
    try:
        return _unchanged(root, root / (config or CONFIG_NAME), base)
    except (CiParityError, OSError, KeyError, TypeError, AttributeError, ValueError):
        return None


def _unchanged(root: Path, config: Path, base: str) -> tuple[Verdict, bytes] | None:
    value = parse(read_text(config), where=config.name).value
    variants: dict[str, Any] = value["variants"]
    if config.parent != root:
        return None
    # Requirements include other files, and a script imports some, a pipeline's function too.
    plain = not any("converter" in v for v in variants.values())
    plain = plain and all(isinstance(v.get("optimization", ""), str) for v in variants.values())
    targets = value.get("targets", {}).values()
    pinned_by = [_pinned_by(root, target.get("runtime", "")) for target in targets]
    plain = plain and None not in pinned_by
    # Decisions rest on files the config names deeper down, and on what a judge imports.
    policy = value.get("policy", {})
    # An entry of the ledger ends on a day, which git does not know either.
    plain = plain and not policy.get("decisions") and not policy.get("ledger")
    if not plain or value.get("release", {}).get("log"):
        return None
    models = [root / variant["path"] for variant in variants.values()]
    recipes = [root / v["optimization"] for v in variants.values() if "optimization" in v]
    pins = [path for paths in pinned_by for path in paths or ()]
    fixtures = root / value["fixtures"]
    pipeline = pipeline_of(root / value["preprocess"], root) if "preprocess" in value else None
    if pipeline is not None and is_code(pipeline):
        return None
    made_by = [path for path, _ in files_of_pipeline(pipeline, root)]
    repository = Repository(folder=root)
    commit = repository.resolve(base) if base else repository.merge_base()
    libraries = [
        root / library["path"]
        for target in targets
        for library in target.get("session_options", {}).get("custom_ops", ())
    ]
    named = [config, *models, *recipes, *pins, *made_by, *libraries, fixtures]
    if not commit or not _plain_paths(root, named):
        return None
    if not all(_whole(model) for model in models):
        return None
    if not repository.same_since(commit, named):
        return None
    return _verdict(_subject(value, root, config), commit)


def _pinned_by(root: Path, runtime: object) -> list[Path] | None:
    """Return the files that say which version a runtime is; None where git does not know it.

    A command is a program and files that the config names, an image lies outside of git; git knows
    nothing of what is on PATH either. Requirements with options may include other files.
    """
    if isinstance(runtime, str):
        return [] if is_installed(runtime) else None
    if not isinstance(runtime, dict) or "requires" not in runtime:
        return None
    path = root / runtime["requires"]
    if path.name in _MANIFESTS:
        return [path, path.with_name(_MANIFESTS[path.name])]
    plain = path.suffix == ".txt" and not _OPTION.search(path.read_text(encoding="utf-8"))
    return [path] if plain else None


def _plain_paths(root: Path, paths: list[Path]) -> bool:
    """Whether no path leaves the root or passes a symbolic link, whose end git does not see."""
    for path in paths:
        if ".." in path.relative_to(root).parts or not path.exists():
            return False
        below = [path, *path.parents[: len(path.relative_to(root).parts) - 1]]
        if any(part.is_symlink() for part in below):
            return False
    return True


def _whole(model: Path) -> bool:
    """Whether a model is one file: its graph names no external data."""
    with model.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(_EXTERNAL) < 0


def _subject(value: dict[str, Any], root: Path, config: Path) -> "Subject":
    """Return what the bundle is made of, as the full path would; git vouches for the config."""
    from ci_parity.config.filling import filled, plain_target, policy_json
    from ci_parity.config.pinned import with_pin
    from ci_parity.config.systems import Optimization, Variant
    from ci_parity.stages.bundle_locks import lock_files
    from ci_parity.stages.bundling import Subject, libraries_of, listed_cases

    full = filled(value)
    variants = tuple(
        Variant(
            name=name, path=root / raw["path"], made_from=raw.get("from", ""),
            optimization=Optimization(recipe=root / raw["optimization"])
            if "optimization" in raw else None,
        )
        for name, raw in full["variants"].items()
    )  # fmt: skip
    targets = tuple(
        plain_target(name, with_pin(raw, root, name)) for name, raw in full["targets"].items()
    )
    return Subject(
        name=full["deployment"], root=root, config=config.name, variants=variants, targets=targets,
        fixtures=root / full["fixtures"],
        cases=listed_cases(root / full["fixtures"], root), policy_json=policy_json(full),
        locks=lock_files(root, variants, value), libraries=libraries_of(targets, root),
        preprocess=files_of_pipeline(
            pipeline_of(root / full["preprocess"], root) if "preprocess" in full else None, root
        ),
    )  # fmt: skip


def _verdict(subject: "Subject", commit: str) -> tuple[Verdict, bytes]:
    from ci_parity.base.digest import sha256_bytes
    from ci_parity.stages.bundling import ModelFiles, manifest_of_subject
    from ci_parity.stages.unchanged import unchanged

    manifest = manifest_of_subject(subject, {v.name: ModelFiles() for v in subject.variants})
    source = BaselineSource(kind="merge-base", label=f"commit {commit[:12]}", commit=commit)
    changes = ChangeSet(source=source, changes=(), identities=(), baselines=(), to_run=())
    return unchanged(subject.name, changes, sha256_bytes(manifest)), manifest
