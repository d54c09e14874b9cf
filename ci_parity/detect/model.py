"""The model axis: what a model file is, from its bytes and, when asked, from its meaning.

First step of the path: a path in, `ModelFacts` out. Without `semantic`, each file is hashed once
and the graph's header is read: enough to see that nothing changed. With it, the graph is walked
and every weight's values are hashed as well, by slice, so that a difference can be explained by
`detect.model_changes`; memory stays that of the graph file plus one piece of an external one.
External data outside the model's folder, a Git LFS pointer and a malformed graph are refused.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_bytes, sha256_file
from ci_parity.base.onnx_model import external_files, load_graph
from ci_parity.detect.model_scope import text_of
from ci_parity.detect.model_words import domain_of, label
from ci_parity.detect.topology import graph_facts, opset_facts
from ci_parity.records.model_facts import FileFact, ModelFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx import ModelProto, StringStringEntryProto

_IN_MEMORY = "model.onnx"


def read_model_facts(path: Path, *, semantic: bool = False) -> ModelFacts:
    """Return the facts of the model at `path`.

    Args:
        path: an .onnx file; its external data lies in the same folder or below.
        semantic: also walk the graph and hash every weight's values.

    Raises:
        EvidenceError: when a file is missing, untrustworthy or no whole model.
    """
    return _facts(load_graph(path), path, sha256_file(path), semantic=semantic)


def facts_of(model: "ModelProto", folder: Path, *, semantic: bool = True) -> ModelFacts:
    """Return the facts of a model in memory whose external data, if any, lies in `folder`.

    `graph_sha256` is that of the file this model would be saved as.

    Raises:
        EvidenceError: as `read_model_facts`.
    """
    saved = sha256_bytes(model.SerializeToString(deterministic=True))
    return _facts(model, folder / _IN_MEMORY, saved, semantic=semantic)


def artifact_sha256(facts: ModelFacts) -> str:
    """Return the one digest over the graph and every external data file.

    The graph's own file name is not part of it, those of external files are, because the graph
    refers to them: it is what `detect.identity.model_digest` says of the same files.
    """
    files = {"": facts.graph_sha256} | {file.name: file.sha256 for file in facts.files}
    return sha256_bytes(canonical_bytes(files))


def _facts(model: "ModelProto", path: Path, graph_sha256: str, *, semantic: bool) -> ModelFacts:
    files = external_files(model, path)
    return ModelFacts(
        graph_sha256=graph_sha256,
        files=tuple(_file(file, path.parent) for file in files),
        ir_version=model.ir_version,
        opsets=opset_facts(model.opset_import),
        producer_name=label(model.producer_name),
        producer_version=label(model.producer_version),
        metadata_sha256=_metadata_sha256(model),
        function_domains=tuple(sorted({label(domain_of(f.domain)) for f in model.functions})),
        graph=graph_facts(model, path.parent) if semantic else None,
    )


def _file(file: Path, folder: Path) -> FileFact:
    return FileFact(
        name=file.relative_to(folder).as_posix(),
        sha256=sha256_file(file),
        size_bytes=file.stat().st_size,
    )


def _metadata_sha256(model: "ModelProto") -> str:
    training = (entry.SerializeToString(deterministic=True) for entry in model.training_info)
    said = {
        "doc": text_of(model.doc_string),
        "domain": text_of(model.domain),
        "graph_doc": text_of(model.graph.doc_string),
        "graph_properties": _properties(model.graph.metadata_props),
        "model_version": str(model.model_version),
        "properties": _properties(model.metadata_props),
        "training": [sha256_bytes(entry) for entry in training],
    }
    return sha256_bytes(canonical_bytes(said))


def _properties(entries: "Iterable[StringStringEntryProto]") -> list[list[str]]:
    return sorted([text_of(entry.key), text_of(entry.value)] for entry in entries)
