import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, FormatChecker
from referencing import Registry, Resource

from ci_parity.cli import run
from ci_parity.release.bundle.bom import ml_bom
from ci_parity.release.bundle.manifest import BundleFixtures, BundleTarget, BundleVariant
from ci_parity.release.bundle.verify import verify_bundle
from tests.unit.release.bundles import FACTS, bundle


def schema_validator() -> Draft7Validator:
    """Return a validator of CycloneDX 1.6 by the schemas that its Python library carries.

    The library's own brings a package that slows every import of jsonschema down by a second.
    """
    folder = files("cyclonedx.schema._res")
    names = ("bom-1.6", "spdx", "jsf-0.82")
    bom, *others = (
        json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text("utf-8")) for name in names
    )
    registry: Registry[Any] = Registry().with_resources(
        (other["$id"], Resource.from_contents(other)) for other in others
    )
    return Draft7Validator(bom, registry=registry, format_checker=FormatChecker())


def bom_of(path: Path) -> Any:
    """Return the ML-BOM of a bundle, after holding it to CycloneDX' own schema."""
    found = verify_bundle(path, "")
    assert found.manifest is not None
    bom = json.loads(ml_bom(found.manifest, found.digest))
    schema_validator().validate(bom)
    return bom


def test_a_bundle_is_a_machine_learning_model_with_its_parts(tmp_path: Path) -> None:
    """The model by the bundle's digest; variants, cases, runtimes; every file by its own."""
    path = bundle(tmp_path)
    bom = bom_of(path)
    found = verify_bundle(path, "")
    assert found.manifest is not None
    model = bom["metadata"]["component"]
    assert (model["type"], model["name"]) == ("machine-learning-model", "reader")
    assert model["hashes"] == [{"alg": "SHA-256", "content": found.digest}]
    parts = {part["bom-ref"]: part for part in bom["components"]}
    assert parts["variant/exported"]["type"] == "machine-learning-model"
    assert parts["target/cpu"]["purl"] == "pkg:pypi/onnxruntime@1.32.0"
    assert parts["fixtures"]["type"] == "data"
    for file in found.manifest.files:
        part = parts[f"file/{file.path}"]
        assert part["hashes"] == [{"alg": "SHA-256", "content": file.sha256}]
    refs = {"bundle", *parts}
    for dependency in bom["dependencies"]:
        assert {dependency["ref"], *dependency["dependsOn"]} <= refs


def test_what_a_runtime_is_not_is_not_claimed(tmp_path: Path) -> None:
    """An image or a range has no package address; what a variant was made from is its ancestor."""
    image = "image:registry.example/ort@sha256:" + "0" * 64
    made = BundleVariant(name="b", path="models/reader.onnx", made_from="exported")
    facts = replace(
        FACTS,
        variants=(*FACTS.variants, made),
        targets=tuple(
            BundleTarget(name=name, runtime=runtime, provider="", options="{}")
            for name, runtime in (("gpu", image), ("any", "onnxruntime>=1.20"))
        ),
        fixtures=BundleFixtures(folder="cases", cases=FACTS.fixtures.cases, license="CC0-1.0"),
    )  # fmt: skip
    parts = {part["bom-ref"]: part for part in bom_of(bundle(tmp_path, facts=facts))["components"]}
    assert parts["target/gpu"]["name"] == image
    assert not {"purl", "version"} & (parts["target/gpu"].keys() | parts["target/any"].keys())
    assert parts["variant/b"]["pedigree"]["ancestors"][0]["name"] == "exported"
    assert parts["fixtures"]["licenses"] == [{"license": {"name": "CC0-1.0"}}]


def test_the_same_bundle_has_the_same_bom(tmp_path: Path) -> None:
    """No time and no chance; another bundle has another serial number."""
    folders = [tmp_path / name for name in ("a", "b", "c")]
    first, again = (bom_of(bundle(folder)) for folder in folders[:2])
    assert first == again
    other = bom_of(bundle(folders[2], facts=replace(FACTS, deployment="writer")))
    assert other["serialNumber"] != first["serialNumber"]


def test_a_bundle_that_is_not_whole_has_none(tmp_path: Path) -> None:
    """It is refused, and no file appears."""
    path = bundle(tmp_path)
    out = tmp_path / "bom.json"
    assert run(["bundle", "bom", str(path), "--out", str(out)]) == 0
    assert json.loads(out.read_text())["specVersion"] == "1.6"
    out.unlink()
    path.write_bytes(path.read_bytes()[:-700])
    assert run(["bundle", "bom", str(path), "--out", str(out)]) == 4
    assert not out.exists()
