"""BUNDLE.md: what a bundle is, for a person; a pure function of its manifest.

Nothing is told that the manifest does not say, so verification writes the card again and compares:
a card that says something else is found although its own digest stands nowhere.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ci_parity.base.errors import EvidenceError
from ci_parity.base.escape import code, prose, visible
from ci_parity.release.bundle.manifest import BundleFacts, Manifest, bundle_digest, read_manifest
from ci_parity.release.bundle.paths import MANIFEST_NAME

_FILES_SHOWN = 200
_CASES_SHOWN = 200
_PROVENANCE = {
    "framework": "framework", "version": "version", "checkpoint_sha256": "checkpoint SHA-256",
    "produced_by": "produced by", "produced_on": "produced on", "command": "command",
    "entry": "entry", "python": "Python", "snapshot": "of the exported model itself",
}  # fmt: skip


def render_card(manifest: bytes) -> bytes:
    """Return the card of a bundle with this manifest.

    Raises:
        EvidenceError: it is no manifest, or one whose policy is none.
    """
    said = read_manifest(manifest)
    try:
        lines = list(_lines(said, bundle_digest(manifest)))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EvidenceError(
            "the manifest's policy or provenance has not the form of one", where=MANIFEST_NAME
        ) from error
    return ("\n".join(lines).rstrip() + "\n").encode()


def _lines(said: Manifest, digest: str) -> Iterator[str]:
    yield from _head(said, digest)
    yield from _variants(said)
    yield from _contract(said.facts)
    yield from _targets(said.facts)
    yield from _fixtures(said.facts)
    yield from _policy(said.facts)
    yield from _files(said)


def _head(said: Manifest, digest: str) -> Iterator[str]:
    facts = said.facts
    yield f"# Bundle of {prose(facts.deployment)}"
    yield ""
    yield f"`sha256:{digest}`"
    yield ""
    yield f"{len(said.files)} files, {said.size_bytes} bytes, listed in `bundle.json`; the digest"
    yield "above is the SHA-256 of that file. Check that nothing was added, lost or changed, then"
    yield "judge the stored cases again on this machine:"
    yield ""
    yield "```sh"
    yield f"ci-parity bundle verify . --digest sha256:{digest}"
    yield " ".join(_word(word) for word in facts.validate)
    yield "```"
    yield ""


def _variants(said: Manifest) -> Iterator[str]:
    yield "## Variants"
    yield ""
    yield from _row("variant", "made from", "graph", "bytes", "sha256")
    yield from _row(*["---"] * 5)
    for variant in said.facts.variants:
        file = said.by_path[variant.path]
        yield from _row(
            code(variant.name), code(variant.made_from), code(file.path, 300),
            str(file.size_bytes), code(file.sha256),
        )  # fmt: skip
    yield ""


def _contract(facts: BundleFacts) -> Iterator[str]:
    contract: Any = json.loads(facts.policy).get("contract") or {}
    ports = [
        (side, name, port)
        for side in ("inputs", "outputs")
        for name, port in (contract.get(side) or {}).items()
    ]
    yield "## Inputs and outputs"
    yield ""
    if not ports:
        yield "No contract states them; the graphs declare them, and the stored cases feed them."
        yield ""
        return
    yield from _row("", "name", "type", "shape", "layout", "range")
    yield from _row(*["---"] * 6)
    for side, name, port in ports:
        shape, limits = port.get("shape"), port.get("range")
        yield from _row(
            side.rstrip("s"), code(name), code(str(port.get("dtype") or "")), code(_listed(shape)),
            code(str(port.get("layout") or "")), code(_listed(limits)),
        )  # fmt: skip
    yield ""


def _targets(facts: BundleFacts) -> Iterator[str]:
    yield "## Targets"
    yield ""
    yield from _row("target", "runtime", "provider", "options")
    yield from _row(*["---"] * 4)
    for target in facts.targets:
        yield from _row(
            code(target.name), code(target.runtime, 400), code(target.provider),
            code(target.options, 400),
        )  # fmt: skip
    yield ""


def _fixtures(facts: BundleFacts) -> Iterator[str]:
    fixtures = facts.fixtures
    yield "## Fixtures"
    yield ""
    yield f"{len(fixtures.cases)} cases in {code(fixtures.folder, 300)}; licence: " + (
        prose(fixtures.license) if fixtures.license else "not stated"
    )
    yield ""
    yield from _row("case", "classes", "files")
    yield from _row(*["---"] * 3)
    for case in fixtures.cases[:_CASES_SHOWN]:
        folder = case.name if fixtures.folder == "." else f"{fixtures.folder}/{case.name}"
        yield from _row(code(case.name), prose(", ".join(case.classes)), code(f"{folder}/", 300))
    if len(fixtures.cases) > _CASES_SHOWN:
        yield f"\n{len(fixtures.cases) - _CASES_SHOWN} more are in `bundle.json`."
    yield ""
    yield from _provenance(json.loads(fixtures.provenance))


def _provenance(said: Mapping[str, Any]) -> Iterator[str]:
    stated = [(words, said[key]) for key, words in _PROVENANCE.items() if said.get(key)]
    if not stated:
        yield "Where the references come from is not stated for the whole set."
        yield ""
        return
    yield "The references come from:"
    yield ""
    for words, value in stated:
        shown = code(value, 300) if isinstance(value, str) else "yes"
        yield f"- {words}: {shown}"
    yield ""


def _policy(facts: BundleFacts) -> Iterator[str]:
    policy: Any = json.loads(facts.policy)
    yield "## How outputs are judged"
    yield ""
    yield f"- every output: {_tolerance(policy.get('tolerance'))}"
    for name, tolerance in sorted((policy.get("outputs") or {}).items()):
        yield f"- output {code(name)}: {_tolerance(tolerance)}"
    for name, decision in sorted((policy.get("decisions") or {}).items()):
        yield f"- decided on {code(name)}: {code(', '.join(sorted(decision)))}"
    yield ""
    yield "All of the policy is in `bundle.json`, under `policy`."
    yield ""


def _tolerance(value: object) -> str:
    if value == "calibrated":
        return "calibrated by the model's own rounding noise"
    if isinstance(value, Mapping):
        return code(", ".join(f"{key} {value[key]}" for key in sorted(value)))
    return code(str(value))


def _files(said: Manifest) -> Iterator[str]:
    yield "## Files"
    yield ""
    yield from _row("file", "role", "bytes", "sha256")
    yield from _row(*["---"] * 4)
    for file in said.files[:_FILES_SHOWN]:
        yield from _row(code(file.path, 300), file.role, str(file.size_bytes), code(file.sha256))
    if len(said.files) > _FILES_SHOWN:
        yield f"\n{len(said.files) - _FILES_SHOWN} more are in `bundle.json`."


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def _listed(value: Sequence[object] | None) -> str:
    return "" if value is None else json.dumps(list(value), ensure_ascii=False)


def _word(word: str) -> str:
    return shlex.quote(visible(word, 200).replace("`", "'"))
