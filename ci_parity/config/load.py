"""YAML to a `Deployment`: parse, validate, set defaults, build.

Every error is reported at once, as `problems` words them. Defaults live in `schema.json` alone.
"""

import difflib
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ci_parity.base.errors import ConfigError
from ci_parity.config.contract import contract
from ci_parity.config.decisions import build_decisions
from ci_parity.config.filling import (
    filled,
    placements,
    plain_target,
    policy_json,
    schema,
    with_defaults,
)
from ci_parity.config.latency import latency_policy, memory_policy
from ci_parity.config.ledger import build_ledger
from ci_parity.config.model import (
    CoveragePolicy,
    Deployment,
    Localise,
    PlacementPolicy,
    Policy,
    Release,
    Report,
    SelfChecks,
    Tolerance,
)
from ci_parity.config.pinned import with_pin
from ci_parity.config.problems import validate
from ci_parity.config.runtimes import check_options, spelled_out
from ci_parity.config.systems import Converter, Optimization, Source, Target, Variant
from ci_parity.config.yaml_source import Document, parse, read_text

logger = logging.getLogger(__name__)

_MAX_NAME_BYTES = 255


def load_deployment(path: Path) -> Deployment:
    """Read a config file.

    Raises:
        ConfigError: with every problem of the file in it.
    """
    document = parse(read_text(path), where=path.name)
    validate(document, schema())
    return build(document.value, root=path.parent, origin=path.name)


def build(value: Mapping[str, Any], *, root: Path, origin: str) -> Deployment:
    """Build the deployment from a value that is valid under the schema.

    Raises:
        ConfigError: when it names a variant that it does not define or leaves its root folder.
    """
    full = filled(value)
    deployment = Deployment(
        name=full["deployment"],
        root=root,
        origin=origin,
        variants=tuple(_variant(name, raw, root) for name, raw in full["variants"].items()),
        targets=tuple(
            target(name, with_pin(raw, root, f"$.targets.{name}"))
            for name, raw in full["targets"].items()
        ),
        fixtures=_inside(root, full["fixtures"], "$.fixtures"),
        policy=replace(
            policy(full["policy"], root),
            placement={name: _placement(raw) for name, raw in placements(full).items()},
        ),
        policy_json=policy_json(full),
        release=Release(**full["release"]),
        localise=Localise(**full["localise"]),
        report=Report(**full["report"]),
        source=_source(full["source"], root) if "source" in full else None,
        contract=contract(full.get("contract", {})),
        preprocess=_inside(root, full["preprocess"], "$.preprocess")
        if "preprocess" in full else None,
    )  # fmt: skip
    _check_names(deployment)
    _check_libraries(deployment)
    return deployment


def target(name: str, value: Mapping[str, Any]) -> Target:
    """Build one target from a value that need not have its defaults set.

    Raises:
        ConfigError: the value is not a target under the schema.
    """
    given = {key: spelled_out(part) if key == "runtime" else part for key, part in value.items()}
    raw = _fragment("target", given, name)
    built = plain_target(name, raw)
    check_options(built)
    return built


def policy(value: Mapping[str, Any], root: Path = Path()) -> Policy:
    """Build a policy from a value that need not have its defaults set; its files lie below `root`.

    Raises:
        ConfigError: the value is not a policy under the schema.
    """
    raw = _fragment("policy", value, "policy")
    return Policy(
        tolerance=_tolerance(raw["tolerance"]),
        outputs={name: _tolerance(given) for name, given in raw["outputs"].items()},
        repeat=raw["repeat"],
        timeout_s=raw["timeout_s"],
        latency=latency_policy(raw["latency"]),
        memory=memory_policy(raw["memory"]),
        decisions=build_decisions(raw["decisions"], partial(_inside, root)),
        self_checks=_self_checks(raw["self_checks"]),
        ledger=build_ledger(raw["ledger"], schema()),
        coverage=CoveragePolicy(**raw.get("coverage", {})),
    )


def localise(value: Mapping[str, Any]) -> Localise:
    """Build what a search may cost from a value that need not have its defaults set.

    Raises:
        ConfigError: the value is none under the schema.
    """
    return Localise(**_fragment("localise", value, "localise"))


def _placement(raw: Mapping[str, Any]) -> PlacementPolicy:
    share = raw.get("min_share")
    return PlacementPolicy(
        cpu_allowed=tuple(raw["cpu_allowed"]) if "cpu_allowed" in raw else None,
        min_share=float(share.rstrip("%")) / 100 if share is not None else None,
        max_memcpy=raw.get("max_memcpy"),
        precision=tuple(raw["precision"]) if "precision" in raw else None,
        changes=raw.get("changes", "warn"),
    )


def _self_checks(raw: Mapping[str, Any]) -> SelfChecks:
    given: dict[str, Any] = {k: None if value == "auto" else value for k, value in raw.items()}
    return SelfChecks(**given)


def _tolerance(value: str | Mapping[str, float]) -> Tolerance | str:
    return value if isinstance(value, str) else Tolerance(**value)


def _fragment(name: str, value: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Validate a part of a config on its own and fill in its defaults."""
    rule = {"$defs": schema()["$defs"], "$ref": f"#/$defs/{name}"}
    validate(Document(where=where, value=dict(value), lines={}), rule)
    filled: Mapping[str, Any] = with_defaults(dict(value), rule)
    return filled


def _variant(name: str, raw: Mapping[str, Any], root: Path) -> Variant:
    place = f"$.variants.{name}"
    converter, made = raw.get("converter"), raw.get("optimization")
    return Variant(
        name=name,
        path=_inside(root, raw["path"], f"{place}.path"),
        made_from=raw.get("from", ""),
        converter=_converter(converter, root, f"{place}.converter") if converter else None,
        optimization=_optimization(made, root, f"{place}.optimization") if made else None,
    )


def _converter(raw: Mapping[str, Any], root: Path, place: str) -> Converter:
    requires = raw.get("requires")
    return Converter(
        requires=_inside(root, requires, f"{place}.requires") if requires else None,
        command=tuple(raw.get("command", ())),
    )


def _optimization(raw: str | Mapping[str, Any], root: Path, place: str) -> Optimization:
    if isinstance(raw, str):
        return Optimization(recipe=_inside(root, raw, place))
    return Optimization(
        **{name: _inside(root, path, f"{place}.{name}") for name, path in raw.items()}
    )


def _source(raw: Mapping[str, Any], root: Path) -> Source:
    requires, checkpoint = raw.get("requires"), raw.get("checkpoint")
    if requires and "python" in raw:
        raise ConfigError(
            "the source has both an environment to build and an interpreter",
            where="$.source",
            remedy="keep 'requires', or 'python' for an interpreter that has its packages",
        )
    entry, _, function = raw["entry"].rpartition(":")
    return Source(
        entry=_inside(root, entry, "$.source.entry"),
        function=function,
        framework=raw["framework"],
        requires=_inside(root, requires, "$.source.requires") if requires else None,
        python=raw.get("python", ""),
        checkpoint=_inside(root, checkpoint, "$.source.checkpoint") if checkpoint else None,
        allow_onnx=raw["allow_onnx"],
    )


def _inside(root: Path, relative: str, place: str) -> Path:
    path = root / relative
    # Unlike `Path.resolve`, it takes links that lead in a circle.
    real = Path(os.path.realpath(path))
    if Path(relative).is_absolute() or not real.is_relative_to(os.path.realpath(root)):
        raise ConfigError(
            f"path {relative!r} leaves the deployment's folder",
            where=place,
            remedy="keep models and fixtures below the folder of ci-parity.yml",
        )
    if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in path.parts):
        raise ConfigError(
            f"path {relative[:40]!r} … has a name of more than {_MAX_NAME_BYTES} bytes", where=place
        )
    return path


def _check_libraries(deployment: Deployment) -> None:
    """Refuse libraries of custom operators that lie outside the deployment's folder."""
    for item in deployment.targets:
        for number, library in enumerate(item.libraries):
            place = f"$.targets.{item.name}.session_options.custom_ops[{number}].path"
            _inside(deployment.root, library.path, place)


def _check_names(deployment: Deployment) -> None:
    names = [variant.name for variant in deployment.variants]
    wanted = [(f"$.variants.{v.name}.from", v.made_from) for v in deployment.variants]
    wanted += [
        (f"$.targets.{item.name}.variants", name)
        for item in deployment.targets
        for name in item.variants
    ]
    for place, name in wanted:
        if name and name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            raise ConfigError(
                f"unknown variant {name!r}",
                where=place,
                remedy=f"did you mean {close[0]!r}?" if close else f"defined: {', '.join(names)}",
            )
    _check_chain({variant.name: variant.made_from for variant in deployment.variants})
    references = [item.name for item in deployment.targets if item.reference]
    if len(references) > 1:
        raise ConfigError(
            f"{len(references)} targets are the reference: {', '.join(references)}",
            where="$.targets",
            remedy="keep 'reference: true' at the one the others are compared with",
        )


def _check_chain(made_from: Mapping[str, str]) -> None:
    """Refuse a variant that was made, in the end, from itself."""
    for name in made_from:
        seen, current = {name}, made_from[name]
        while current:
            if current in seen:
                raise ConfigError(
                    f"variant {name!r} is made from itself",
                    where=f"$.variants.{name}.from",
                    remedy="name the variant that was there first",
                )
            seen.add(current)
            current = made_from[current]
