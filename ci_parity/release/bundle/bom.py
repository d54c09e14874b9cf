"""A bundle as a CycloneDX ML-BOM, for inventories: a pure function of the verified manifest.

CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). It names the model, its variants, the data
that judges it, the runtimes it is judged on and every file by its SHA-256. Nothing is claimed that
the manifest does not say; there is no time in it, so that the same bundle gives the same bytes.
"""

import uuid
from collections.abc import Iterable, Mapping

from packaging.requirements import InvalidRequirement, Requirement

from ci_parity.base.canonical import Json, canonical_bytes
from ci_parity.records.bundle import FileDigest
from ci_parity.release.bundle.manifest import BundleTarget, BundleVariant, Manifest

_NAMESPACE = uuid.UUID("6f1c1a52-53c9-5bb1-9a43-2f2f3f1f8d0a")
_MODEL = "machine-learning-model"
_DATA = frozenset({"fixtures", "references", "labels", "tokenizer", "preprocess"})
_ROOT = "bundle"
_FIXTURES = "fixtures"


def ml_bom(manifest: Manifest, digest: str) -> bytes:
    """Return the ML-BOM of a bundle, canonical JSON and one newline.

    Args:
        manifest: of a bundle that was verified.
        digest: the bundle's, in hexadecimal.
    """
    facts = manifest.facts
    variants = [_variant(variant, manifest) for variant in facts.variants]
    runtimes = [_runtime(target) for target in facts.targets]
    document: Json = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": _MODEL, "bom-ref": _ROOT, "name": facts.deployment,
                "version": f"sha256:{digest}", "hashes": _hashes(digest),
                "properties": _properties({"policy": facts.policy}),
            },
        },
        "components": [
            *variants, _fixtures(manifest), *runtimes, *(_file(f) for f in manifest.files),
        ],
        "dependencies": _dependencies(manifest),
    }  # fmt: skip
    return canonical_bytes(document) + b"\n"


def _variant(variant: BundleVariant, manifest: Manifest) -> dict[str, Json]:
    graph = manifest.by_path[variant.path]
    made: dict[str, Json] = {
        "type": _MODEL,
        "bom-ref": _variant_ref(variant.name),
        "name": variant.name,
        "version": f"sha256:{graph.sha256}",
        "hashes": _hashes(graph.sha256),
        "modelCard": {"modelParameters": {"datasets": [{"ref": _FIXTURES}]}},
    }
    if variant.made_from:
        before = {"type": _MODEL, "name": variant.made_from}
        made["pedigree"] = {"ancestors": [before]}
    return made


def _fixtures(manifest: Manifest) -> dict[str, Json]:
    said = manifest.facts.fixtures
    cases: list[Json] = [
        {"name": f"case.{case.name}", "value": ", ".join(case.classes)} for case in said.cases
    ]
    made: dict[str, Json] = {
        "type": "data",
        "bom-ref": _FIXTURES,
        "name": said.folder,
        "description": f"{len(said.cases)} stored cases with reference outputs",
        "data": [{"type": "dataset", "name": said.folder}],
        "properties": [*_properties({"provenance": said.provenance}), *cases],
    }
    if said.license:
        made["licenses"] = [{"license": {"name": said.license}}]
    return made


def _runtime(target: BundleTarget) -> dict[str, Json]:
    """A runtime that is one pinned package has its version and address; another only its text."""
    made: dict[str, Json] = {
        "type": "framework",
        "bom-ref": _target_ref(target.name),
        "name": target.runtime,
        "properties": _properties(
            {"target": target.name, "provider": target.provider, "options": target.options,
             "image": target.image}
        ),
    }  # fmt: skip
    try:
        requirement = Requirement(target.runtime)
    except InvalidRequirement:
        return made
    pins = [pin.version for pin in requirement.specifier if pin.operator == "=="]
    if len(pins) == 1:
        made |= {
            "name": requirement.name,
            "version": pins[0],
            "purl": f"pkg:pypi/{requirement.name}@{pins[0]}",
        }
    return made


def _file(file: FileDigest) -> dict[str, Json]:
    return {
        "type": "data" if file.role in _DATA else "file",
        "bom-ref": _file_ref(file.path),
        "name": file.path,
        "hashes": _hashes(file.sha256),
        "properties": _properties({"role": file.role, "size": str(file.size_bytes)}),
    }


def _dependencies(manifest: Manifest) -> list[Json]:
    """The bundle stands on all; a variant on its graph and weights, the cases on their files."""
    facts = manifest.facts
    variants = [_variant_ref(variant.name) for variant in facts.variants]
    runtimes = [_target_ref(target.name) for target in facts.targets]
    stored = _refs(manifest.files, ("fixtures", "references"))
    rest = [
        _file_ref(f.path)
        for f in manifest.files
        if f.role not in ("graph", "weights", "fixtures", "references")
    ]
    weights = _refs(manifest.files, ("weights",))
    return [
        _depends(_ROOT, [*variants, _FIXTURES, *runtimes, *rest]),
        *(
            _depends(_variant_ref(variant.name), [_file_ref(variant.path), *weights])
            for variant in facts.variants
        ),
        _depends(_FIXTURES, stored),
    ]


def _refs(files: Iterable[FileDigest], roles: tuple[str, ...]) -> list[str]:
    return [_file_ref(file.path) for file in files if file.role in roles]


def _depends(ref: str, on: Iterable[str]) -> dict[str, Json]:
    return {"ref": ref, "dependsOn": list(dict.fromkeys(on))}


def _hashes(sha256: str) -> list[Json]:
    return [{"alg": "SHA-256", "content": sha256}]


def _properties(facts: Mapping[str, str]) -> list[Json]:
    return [{"name": f"ci-parity:{name}", "value": text} for name, text in facts.items() if text]


def _variant_ref(name: str) -> str:
    return f"variant/{name}"


def _target_ref(name: str) -> str:
    return f"target/{name}"


def _file_ref(path: str) -> str:
    return f"file/{path}"
