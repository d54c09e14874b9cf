"""The identity of each variant on each target, from bytes, pins and files; nothing is run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.config.model import Deployment
from ci_parity.config.systems import Variant
from ci_parity.detect.converter import ModelOrigin, converter_facts
from ci_parity.detect.host import relevant
from ci_parity.detect.model import artifact_sha256, read_model_facts
from ci_parity.detect.optimization import (
    optimization_text,
    strange_libraries,
    with_strange_libraries,
)
from ci_parity.detect.policy_files import policy_text
from ci_parity.records.facts import Facts
from ci_parity.records.identity import Identity
from ci_parity.records.model_facts import ModelFacts


def identify(
    deployment: Deployment,
    runtimes: Mapping[str, str],
    fixtures: str,
    *,
    models: Mapping[str, ModelFacts] | None = None,
    components: Mapping[str, Facts] | None = None,
    host: Facts | None = None,
    preprocess: Facts | None = None,
    roots: Sequence[Path] = (),
) -> tuple[Identity, ...]:
    """Return the identities of a deployment.

    Args:
        deployment: what to identify.
        runtimes: each target's `runtime:` to the pinned requirement it stands for.
        fixtures: the digest of the fixture set.
        models: what `read_models` returned; None to read the models here.
        components: what is installed for a runtime, by its `runtime:`, where that is known.
        host: the facts of this machine; None where the identity is not this machine's.
        preprocess: the facts of the pipeline that makes its inputs; None without one.
        roots: the folders that paths of libraries start from; its own where there are none.
    """
    models = read_models(deployment) if models is None else models
    converters = {
        variant.name: facts_text(_converter(variant, models[variant.name], deployment.root))
        for variant in deployment.variants
    }
    optimizations = _optimizations(deployment, roots or (deployment.root,))
    policy = policy_text(deployment)
    return tuple(
        Identity(
            target=target.name,
            variant=variant.name,
            model=artifact_sha256(models[variant.name]),
            runtime=runtimes[target.runtime],
            provider=target.provider,
            options=target.options,
            optimization=optimizations[target.name, variant.name],
            fixtures=fixtures,
            policy=policy,
            converter=converters[variant.name],
            components=facts_text((components or {}).get(target.runtime)),
            host=facts_text(relevant(host, target.provider) if host else None),
            preprocess=facts_text(preprocess),
        )
        for target in deployment.targets
        for variant in deployment.variants_on(target)
    )


def _optimizations(deployment: Deployment, roots: Sequence[Path]) -> Mapping[tuple[str, str], str]:
    """Return what optimized each variant on each target, every file read once."""
    made = {v.name: optimization_text(v.optimization, deployment.root) for v in deployment.variants}
    found = {}
    for target in deployment.targets:
        strange = strange_libraries(target, roots)
        for variant in deployment.variants_on(target):
            found[target.name, variant.name] = with_strange_libraries(made[variant.name], strange)
    return found


def read_models(deployment: Deployment) -> dict[str, ModelFacts]:
    """Return the facts of each variant's model, every file hashed once.

    Raises:
        EvidenceError: a model cannot be read or trusted.
    """
    return {variant.name: read_model_facts(variant.path) for variant in deployment.variants}


def model_digest(path: Path) -> str:
    """Return one digest over the graph and every external data file of a model.

    The graph's own file name is not part of it: a renamed model is the same model. The names of its
    external files are, because the graph refers to them.
    """
    return artifact_sha256(read_model_facts(path))


def _converter(variant: Variant, model: ModelFacts, root: Path) -> Facts:
    """Return what made a variant; metadata and docs belong to the model axis alone."""
    origin = ModelOrigin(
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        ir_version=model.ir_version,
        opsets={opset.domain: opset.version for opset in model.opsets},
        function_domains=model.function_domains,
    )
    made = variant.converter
    return converter_facts(
        origin=origin,
        requires=made.requires if made else None,
        command=_without_models(made.command) if made else (),
        root=root,
    )


def _without_models(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the models it reads or writes: they are an axis of their own."""
    return tuple(word for word in command if not word.endswith(".onnx"))


def facts_text(facts: Facts | None) -> str:
    """Return facts as an identity keeps them: canonical JSON, empty for none."""
    return canonical_bytes(dict(facts)).decode() if facts else ""
