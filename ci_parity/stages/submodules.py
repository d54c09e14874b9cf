"""What a deployment keeps in submodules is there, or refused: an empty folder is no evidence.

Between a deployment and everything that opens its files, on both sides of a comparison.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.files import real_path
from ci_parity.config.discover import find_deployment
from ci_parity.config.model import Deployment
from ci_parity.detect.git import Repository
from ci_parity.detect.trees import Submodule

_CHECK_OUT = (
    "check out with 'submodules: recursive', or call 'git submodule update --init --recursive'"
)
CHECK_OUT_HISTORY = (
    "check out with 'submodules: recursive' and 'fetch-depth: 0', so that the submodule's earlier "
    "commits can be read"
)


def checked_out(root: Path, config: str) -> Deployment:
    """Return the deployment of a work tree, no part of it in a submodule that is not checked out.

    Raises:
        ConfigError: there is no deployment, or a config that is wrong.
        EvidenceError: a submodule with a part of it is not checked out.
    """
    deployment = find_deployment(root, config)
    repository = Repository(folder=deployment.root)
    if repository.exists():
        refuse_unfetched(
            named_paths(deployment), repository.unfetched(), root=deployment.root, remedy=_CHECK_OUT
        )
    return deployment


def refuse_unfetched(
    paths: Sequence[Path], unfetched: Sequence[Submodule], *, root: Path, remedy: str
) -> None:
    """Refuse paths that lie in a submodule whose content is not here, or that hold one.

    Args:
        paths: what must be there, below `root`.
        unfetched: the submodules without content.
        root: the deployment's folder.
        remedy: how to get the content.

    Raises:
        EvidenceError: naming the first such path and its submodule.
    """
    top = real_path(root)
    for submodule in unfetched:
        folder = real_path(submodule.path)
        for path in paths:
            place = real_path(path)
            holds = place != top and folder.is_relative_to(place)
            if holds or place.is_relative_to(folder):
                raise EvidenceError(
                    f"{_shown(path, root)} {'holds' if holds else 'lies in'} the submodule "
                    f"{_shown(folder, top)}, whose commit {submodule.commit[:12]} is not here",
                    where=str(path),
                    remedy=remedy,
                )


def named_paths(deployment: Deployment) -> tuple[Path, ...]:
    """Return every file and folder that a config names, words of a converter's command included."""
    return tuple(dict.fromkeys(_named(deployment)))


def _named(deployment: Deployment) -> Iterator[Path]:
    for variant in deployment.variants:
        yield variant.path
        made, optimized = variant.converter, variant.optimization
        parts = (
            made and made.requires,
            optimized and optimized.recipe,
            optimized and optimized.requires,
        )
        yield from (path for path in parts if path)
        for word in made.command if made else ():
            if "\0" not in word:
                yield deployment.root / word.rpartition("=")[2]
    yield deployment.fixtures
    if deployment.preprocess is not None:
        yield deployment.preprocess
    for decision in deployment.policy.decisions.values():
        yield from decision.files
        if decision.judge is not None:
            yield decision.judge.script
    if deployment.source is not None:
        yield deployment.source.entry
        yield from (p for p in (deployment.source.requires, deployment.source.checkpoint) if p)


def _shown(path: Path, root: Path) -> str:
    return os.path.relpath(path, root)
