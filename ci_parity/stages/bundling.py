"""What a deployment's bundle holds: the facts and files of its manifest, in one place.

`check` computes the manifest of what it judged, `bundle build` packs the same files; both begin
here, so that the digest in the release log is that of the bundle. Everything comes from the
deployment's own files: no environment, driver, commit or time is part of it. Light on purpose,
since a run that has nothing to do computes a manifest too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.errors import EvidenceError
from ci_parity.config.runtimes import image_of
from ci_parity.config.systems import Target, Variant
from ci_parity.config.yaml_source import parse, read_text
from ci_parity.fixtures.manifest import MANIFEST_NAME, manifest_text
from ci_parity.release.bundle.files import Part, describe, part_of
from ci_parity.release.bundle.manifest import (
    BundleCase,
    BundleFacts,
    BundleFixtures,
    BundleTarget,
    BundleVariant,
    bundle_manifest,
)
from ci_parity.stages.bundle_paths import own_parts, relative
from ci_parity.stages.preprocessing import files_of_pipeline, pipeline_of

if TYPE_CHECKING:
    from ci_parity.config.model import Deployment
    from ci_parity.records.model_facts import ModelFacts

VALIDATE = ("ci-parity", "bundle", "validate", ".")

_LICENCE = re.compile(r"(licen[cs]e|copying|notice)([._-].*)?", re.IGNORECASE)
_CASES = "test_data_set_*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """As much of a deployment as a bundle is made of.

    `config` is the config file below `root`, empty where the deployment was discovered. `cases` is
    what the list in the folder `fixtures` says; `labels` and `judges` are the files that decisions
    rest on, `locks` what pins packages, `libraries` those of custom operators. `preprocess` are the
    files of the pipeline that makes inputs of what an application gets, each with its role.
    """

    name: str
    root: Path
    config: str
    variants: tuple[Variant, ...]
    targets: tuple[Target, ...]
    fixtures: Path
    cases: BundleFixtures
    policy_json: str
    labels: tuple[Path, ...] = ()
    judges: tuple[Path, ...] = ()
    locks: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()
    preprocess: tuple[tuple[Path, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What is known of a model's files: the graph's digest, and names and digests of its weights.

    A digest that is empty is measured.
    """

    graph_sha256: str = ""
    weights: tuple[tuple[str, str], ...] = ()


def manifest_of(deployment: "Deployment", models: "Mapping[str, ModelFacts]") -> bytes:
    """Return the bundle manifest of a deployment.

    Args:
        deployment: what is released.
        models: what was measured of each variant's files, which are not read again.

    Raises:
        EvidenceError: a file cannot be read, or cannot stand in a bundle.
    """
    known = {
        name: ModelFiles(
            graph_sha256=facts.graph_sha256,
            weights=tuple((file.name, file.sha256) for file in facts.files),
        )
        for name, facts in models.items()
    }
    return manifest_of_subject(subject_of(deployment), known)


def manifest_of_subject(subject: Subject, models: Mapping[str, ModelFiles] | None = None) -> bytes:
    """Return the bundle manifest of a subject; without `models` its graphs are opened."""
    parts = parts_of(subject, models)
    return bundle_manifest(facts_of(subject), tuple(describe(part) for part in parts))


def subject_of(deployment: "Deployment") -> Subject:
    """Return what a deployment's bundle is made of."""
    from ci_parity.detect.scripts import find_scripts
    from ci_parity.stages.bundle_locks import lock_files

    root = deployment.root
    config = deployment.origin if (root / deployment.origin).is_file() else ""
    written = parse(read_text(root / config), where=config).value if config else None
    decisions = deployment.policy.decisions.values()
    scripts = {d.judge.script for d in decisions if d.judge is not None}
    files = [path for d in decisions for path in d.files if path not in scripts]
    words = [relative(script, root) for script in sorted(scripts)]
    judges = [root / s.path for word in words for s in find_scripts(["python", word], root)]
    return Subject(
        name=deployment.name,
        root=root,
        config=config,
        variants=deployment.variants,
        targets=deployment.targets,
        fixtures=deployment.fixtures,
        cases=listed_cases(deployment.fixtures, root),
        policy_json=deployment.policy_json,
        labels=tuple(dict.fromkeys(files)),
        judges=tuple(dict.fromkeys(judges)),
        locks=lock_files(root, deployment.variants, written),
        libraries=libraries_of(deployment.targets, root),
        preprocess=files_of_pipeline(pipeline_of(deployment.preprocess, root), root),
    )


def libraries_of(targets: Iterable[Target], root: Path) -> tuple[Path, ...]:
    """Return the libraries of custom operators that targets load, each once."""
    return tuple(dict.fromkeys(root / lib.path for target in targets for lib in target.libraries))


def facts_of(subject: Subject) -> BundleFacts:
    """Return what a manifest says beside its files."""
    return BundleFacts(
        deployment=subject.name,
        config=subject.config,
        variants=tuple(
            BundleVariant(
                name=v.name, path=v.path.relative_to(subject.root).as_posix(), made_from=v.made_from
            )
            for v in subject.variants
        ),
        targets=tuple(_target(target) for target in subject.targets),
        fixtures=subject.cases,
        policy=subject.policy_json,
        validate=VALIDATE,
    )


def parts_of(subject: Subject, models: Mapping[str, ModelFiles] | None = None) -> tuple[Part, ...]:
    """Return the files of a bundle, each once, under the first role that it has.

    Labels, judges, locks and libraries that are not there are left out (`missing_of`): what depends
    on them is judged, or refused, where they are used.

    Raises:
        EvidenceError: a file cannot be read, or cannot stand in a bundle.
    """
    found: dict[str, Part] = {}
    for part in _parts(subject, models):
        found.setdefault(part.path, part)
    return tuple(found.values())


def missing_of(subject: Subject) -> tuple[Path, ...]:
    """Return the files that a bundle should hold and that are not there."""
    pipeline = (path for path, _ in subject.preprocess)
    decided = (*subject.labels, *subject.judges)
    named = (*decided, *subject.locks, *subject.libraries, *_recipes(subject), *pipeline)
    return tuple(path for path in named if not path.is_file())


def _parts(subject: Subject, models: Mapping[str, ModelFiles] | None) -> Iterator[Part]:
    root = subject.root
    for variant in subject.variants:
        yield from _model(variant, root, models)
    if subject.config:
        # Whatever it links to has been read as the config.
        yield from own_parts([root / subject.config], root, "config", anywhere=True)
    yield from own_parts(_recipes(subject), root, "config")
    yield from own_parts(subject.locks, root, "lock")
    yield from own_parts(subject.libraries, root, "library")
    yield from own_parts(subject.labels, root, "labels")
    yield from own_parts(subject.judges, root, "judge")
    for path, role in subject.preprocess:
        yield from own_parts([path], root, role)
    yield from _cases(subject)
    folders = (root, subject.fixtures, *(variant.path.parent for variant in subject.variants))
    yield from own_parts(_licences(folders), root, "licence")


def _model(variant: Variant, root: Path, models: Mapping[str, ModelFiles] | None) -> Iterator[Part]:
    """Yield the graph and its external data; the graph is looked at before it is opened."""
    if models is not None:
        facts = models[variant.name]
        yield part_of(variant.path, root, "graph", facts.graph_sha256)
        for name, sha256 in facts.weights:
            yield part_of(variant.path.parent / name, root, "weights", sha256)
        return
    from ci_parity.base.onnx_model import external_files, load_graph

    yield part_of(variant.path, root, "graph")
    for path in external_files(load_graph(variant.path), variant.path):
        yield part_of(path, root, "weights")


def _recipes(subject: Subject) -> tuple[Path, ...]:
    made = [variant.optimization for variant in subject.variants]
    return tuple(dict.fromkeys(m.recipe for m in made if m is not None and m.recipe is not None))


def _cases(subject: Subject) -> Iterator[Part]:
    """Yield the list of cases, and all files of each; an application's raw input is one of them."""
    folder, root = subject.fixtures, subject.root
    listed = folder / MANIFEST_NAME
    yield from own_parts([listed], root, "fixtures", within=folder)
    for case in subject.cases.cases:
        files = sorted(_files(folder / case.name))
        references = [f for f in files if f.name.startswith("output_") and f.suffix == ".pb"]
        inputs = [file for file in files if file not in references]
        yield from own_parts(inputs, root, "fixtures", within=folder)
        yield from own_parts(references, root, "references", within=folder)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a case's folder; hidden ones are none of the case's."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)
        elif path.is_file():
            yield path


def listed_cases(folder: Path, root: Path) -> BundleFixtures:
    """Return what a fixture set's list says; it is read as it stands, and not validated.

    Raises:
        EvidenceError: it cannot be read.
    """
    said = _list_of(folder)
    return BundleFixtures(
        folder=relative(folder, root),
        cases=_cases_of(said, folder),
        license=said.get("license", ""),
        provenance=canonical_bytes(said.get("provenance", {})).decode(),
    )


def _cases_of(said: Mapping[str, Any], folder: Path) -> tuple[BundleCase, ...]:
    if not said:
        names = sorted(path.name for path in folder.glob(_CASES) if path.is_dir())
        return tuple(BundleCase(name=name) for name in names)
    return tuple(
        BundleCase(name=case["name"], classes=tuple(case.get("classes", ())))
        for case in said["cases"]
    )


def _list_of(folder: Path) -> Mapping[str, Any]:
    """Return the list of cases as written, empty where there is none."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return {}
    value: Mapping[str, Any] = parse(manifest_text(path), where=str(path)).value
    return value


def _licences(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.iterdir()):
            if _LICENCE.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                yield path


def _target(target: Target) -> BundleTarget:
    image = image_of(target.runtime)
    return BundleTarget(
        name=target.name, runtime=target.runtime, provider=target.provider, options=target.options,
        image=image.digest if image is not None else "",
    )  # fmt: skip


def build(root: Path, config: str, out: Path) -> bytes:
    """Pack the bundle of a deployment and return its manifest.

    1. The deployment and its fixture set are opened as `check` opens them.
    2. Every file that belongs to it is chosen; none may be missing.
    3. All are read once, hashed and written in the same go (`pack`).

    Args:
        root: the repository, or the folder of one deployment in it.
        config: the config file below it, empty for the usual one.
        out: the folder, or the archive that ends in `.tar`, to make.

    Raises:
        ConfigError: the config is wrong, or something is at `out`.
        EvidenceError: a file is missing, changes meanwhile, or cannot stand in a bundle.
        InfrastructureError: the bundle cannot be written.
    """
    from ci_parity.release.bundle.pack import pack, refuse_existing
    from ci_parity.stages.identify import fixtures_of
    from ci_parity.stages.submodules import checked_out

    refuse_existing(out)
    deployment = checked_out(root, config)
    subject = subject_of(deployment)
    for path in missing_of(subject):
        raise EvidenceError(
            "a file that belongs to the bundle is not there",
            where=str(path),
            remedy="restore it, or take it out of the config",
        )
    fixtures_of(deployment)
    return pack(facts_of(subject), parts_of(subject), out)
