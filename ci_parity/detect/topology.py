"""What a model means, as one digest, blind to every name and order that carries no meaning.

The heart of the model axis: parsed model in, `GraphFacts` out. The nodes the outputs depend on are
numbered in the canonical order of `detect.model_scope`; each becomes one line of JSON that says
operator, attributes, which outputs are asked for, and by number where each input comes from. Two
models have the same lines exactly when their graphs are isomorphic, so the digest of the lines is
the topology; no hash of neighbourhoods, and none of its collisions.

What counts: names, types, shapes and order of the model's inputs and outputs; operators,
attributes, edges, subgraphs with what they capture; the operator set of every domain in use; the
local functions that are called, with their names, since a runtime may recognise one by it; type
and shape of a weight at the place where it enters. What does not: other names, doc strings,
metadata, shape hints, order in the file, unused nodes, weights, functions and operator sets, the
IR version, whether two places share a weight, and whether a weight is an initializer or a Constant
node. Symbolic dimensions count by where they recur, not by name. Fields this ONNX does not know,
quantization annotations and device configurations count by their bytes, names in them included: a
change there is never called harmless.

The meaning adds the values: topology, then the digest of each weight by its place.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ci_parity.base.digest import sha256_bytes
from ci_parity.detect.model_scope import (
    Body,
    Scope,
    Weight,
    attribute_name,
    scope_of_function,
    scope_of_graph,
    text_of,
    unprovided,
    without_trailing_blanks,
)
from ci_parity.detect.model_words import (
    attribute_value,
    label,
    node_label,
    operator_of,
    type_text,
)
from ci_parity.detect.weights import WeightTable
from ci_parity.records.model_facts import (
    FunctionFact,
    GraphFacts,
    NodeFact,
    OperatorCount,
    OpsetFact,
    PortFact,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message  # type: ignore[import-untyped]
    from onnx import FunctionProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto

Names: TypeAlias = "Mapping[str, _Value]"
_MAIN = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """Where a value comes from: `key` for the digest, `ref` for the facts."""

    key: str
    ref: str


_ABSENT = _Value(key="", ref="")
