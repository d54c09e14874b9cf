"""Which models a repository ships, and which of them are one deployment.

A model that bears another's name and one of the usual endings, in the same folder and with the same
inputs and outputs, is a variant made from it; any other is a deployment of its own.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_parity.base import git
from ci_parity.base.errors import CiParityError, ConfigError
from ci_parity.fixtures.manifest import MANIFEST_NAME
from ci_parity.fixtures.signature import Port, Signature, read_signature
from ci_parity.fixtures.store import unlisted_cases

MAX_DEPLOYMENTS = 8
_MAX_FOLDERS = 20_000
_SKIPPED = {"node_modules", "__pycache__", "venv", "site-packages"}
_NOT_SHIPPED = {"test", "tests", "testdata", "test_data", "examples", "fixtures", "docs"}
_WORDS = (
    "int8|uint8|int4|uint4|q8|q4|q4f16|quant|quantized|quantised|qdq|qint8|fp16|float16|half|bf16"
    "|bnb4|opt|optimized|optimised|sim|simp|simplified|pruned|dynamic|static"
)
_ENDING = re.compile(rf"(.+?)[._-]((?:{_WORDS})(?:[._-](?:{_WORDS}))*)", re.IGNORECASE)
_TELLS_NOTHING = {
    "model", "models", "onnx", "export", "exported", "network", "net", "weights", "artifacts",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVariant:
    """A model of a deployment; `made_from` names the variant it was made from, empty for none."""

    name: str
    path: Path
    made_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDeployment:
    """Models of one signature; `fixtures` is the folder of cases that is there already."""

    name: str
    variants: tuple[StartVariant, ...]
    signature: Signature
    fixtures: Path | None


def find_models(root: Path) -> tuple[Path, ...]:
    """Return the ONNX files that a repository ships, as git lists them.

    Ignored files count where there are no others; so do those in folders of tests and examples.

    Raises:
        ConfigError: there is none.
    """
    for found in (_listed(root), _walked(root)):
        shipped = [path for path in found if not _NOT_SHIPPED & set(_folders(path, root))]
        if shipped or found:
            return tuple(sorted(shipped or found))
    raise ConfigError(
        "there is no .onnx file here",
        where=str(root),
        remedy="export the model into the repository (docs/recipes), fetch it ('git lfs pull', "
        "'dvc pull'), or name one: ci-parity init path/to/model.onnx",
    )


def deployments_of(models: Sequence[Path], root: Path) -> tuple[StartDeployment, ...]:
    """Return the deployments that models make, in the order of their paths.

    Raises:
        ConfigError: they are more than one config a model is worth.
        EvidenceError: a file is no whole ONNX model.
    """
    signatures = {path: read_signature(path) for path in models}
    made_from = {path: _origin(path, signatures) for path in models}
    firsts = [path for path in models if made_from[path] is None]
    if len(firsts) > MAX_DEPLOYMENTS:
        names = ", ".join(path.relative_to(root).as_posix() for path in firsts[:4])
        raise ConfigError(
            f"{len(firsts)} models with nothing in common: {names}, …",
            where=str(root),
            remedy="name those you ship: ci-parity init path/to/model.onnx other/model.onnx",
        )
    distinct = _distinct([_name(path, root) for path in firsts])
    return tuple(
        StartDeployment(
            name=name,
            variants=(
                StartVariant(name="exported", path=first),
                *(
                    StartVariant(name=_ending(path), path=path, made_from="exported")
                    for path in models
                    if made_from[path] == first
                ),
            ),
            signature=signatures[first],
            fixtures=first.parent if _has_cases(first) else None,
        )
        for name, first in zip(distinct, firsts, strict=True)
    )


def _listed(root: Path) -> list[Path]:
    """Return the ONNX files that git tracks or would add; none outside a repository."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.onnx")
    try:
        done = git.ask(root, *words)
    except CiParityError:
        return []
    names = os.fsdecode(done.stdout).split("\0") if done.returncode == 0 else []
    return [root / name for name in dict.fromkeys(names) if name and (root / name).is_file()]


def _walked(root: Path) -> list[Path]:
    found: list[Path] = []
    for count, (folder, children, files) in enumerate(os.walk(root)):
        if count > _MAX_FOLDERS:
            break
        found += [Path(folder) / file for file in files if file.endswith(".onnx")]
        children[:] = sorted(c for c in children if not c.startswith(".") and c not in _SKIPPED)
    return found


def _folders(path: Path, root: Path) -> tuple[str, ...]:
    return path.relative_to(root).parts[:-1]


def _origin(path: Path, signatures: dict[Path, Signature]) -> Path | None:
    """Return the model that `path` was made from by its name, its folder and its ports."""
    ending = _ENDING.fullmatch(path.stem)
    first = path.with_stem(ending[1]) if ending else path
    if first == path or first not in signatures:
        return None
    return first if _ports(signatures[first]) == _ports(signatures[path]) else None


def _ending(path: Path) -> str:
    ending = _ENDING.fullmatch(path.stem)
    return ending[2].lower().replace(".", "-") if ending else path.stem


def _ports(signature: Signature) -> list[list[tuple[str, str, str]]]:
    def known(ports: Iterable[Port]) -> list[tuple[str, str, str]]:
        return [(port.name, port.kind, port.dtype) for port in ports]

    return [known(signature.required), known(signature.outputs)]


def _has_cases(model: Path) -> bool:
    beside = model.parent
    return (beside / MANIFEST_NAME).exists() or bool(unlisted_cases(beside))


def _name(path: Path, root: Path) -> str:
    """Return the deployment's name: the file's, or the nearest folder's that tells more."""
    words = [path.stem, *reversed(_folders(path, root)), root.resolve().name]
    telling = next((w for w in words if w.lower() not in _TELLS_NOTHING), path.stem)
    return re.sub(r"[^A-Za-z0-9._-]", "-", telling).lstrip("._-")[:64] or "model"


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """Yield the names with a number behind one that was there before."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield f"{name}-{seen[name]}" if seen[name] > 1 else name
