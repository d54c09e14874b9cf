"""The identity of each variant on each target, from bytes and pins, without running anything."""

from collections.abc import Mapping
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.base.onnx_model import artifact_digest_files
from ci_parity.config.model import Deployment
from ci_parity.records.identity import Identity


def identify(
    deployment: Deployment, runtimes: Mapping[str, str], fixtures: str
) -> tuple[Identity, ...]:
    """Return the identities of a deployment.

    Args:
        deployment: what to identify; its model files are read.
        runtimes: each target's `runtime:` to the pinned requirement it stands for.
        fixtures: the digest of the fixture set.
    """
    policy = sha256_bytes(deployment.policy_json.encode())
    models = {variant.name: model_digest(variant.path) for variant in deployment.variants}
    return tuple(
        Identity(
            target=target.name,
            variant=variant.name,
            model=models[variant.name],
            runtime=runtimes[target.runtime],
            provider=target.provider,
            options=target.options,
            optimization=_recipe_digest(variant.optimization),
            fixtures=fixtures,
            policy=policy,
        )
        for target in deployment.targets
        for variant in deployment.variants_on(target)
    )


def model_digest(path: Path) -> str:
    """Return one digest over the graph and every external data file.

    The graph's own file name is not part of it: a renamed model is the same model. The names of its
    external files are, because the graph refers to them.
    """
    graph, *others = artifact_digest_files(path)
    files = {"": sha256_file(graph)}
    files |= {other.relative_to(path.parent).as_posix(): sha256_file(other) for other in others}
    return sha256_bytes(canonical_bytes(files))


def _recipe_digest(recipe: Path | None) -> str:
    if recipe is None:
        return ""
    if not recipe.is_file():
        raise EvidenceError(
            "the optimization recipe is missing", where=str(recipe), remedy="correct its path"
        )
    return sha256_file(recipe)
