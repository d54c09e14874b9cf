"""What a model is, said without its names: digests of its files, its topology and its weights.

Written by `detect.model`, kept with an identity, explained by `detect.model_changes`. Everything
here can be stored and read back on another machine; a graph of 5,000 nodes stays below 2 MB of
JSON. Names and attribute values come from the model, which is not trusted: they are printable and
limited in length, and where one was cut, a digest of the whole ends it.

A *ref* says where a value comes from: `nI.K` is output K of `GraphFacts.nodes[I]`, `iK` the
model's input K, `sJ.K` input K of subgraph or function number J, `wI` is `GraphFacts.weights[I]`,
and empty means an optional input that is left out.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """One external data file, by its POSIX path relative to the graph."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsetFact:
    """One imported operator set; the default domain is called `ai.onnx`."""

    domain: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFact:
    """One input or output of the model, such as `x` of type `float32[batch,3]`.

    `source` is the ref that feeds an output, or the default value of an input; else empty.
    """

    name: str
    type: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """One node that the outputs depend on.

    `op` has its domain before `::` unless that is the default. `name` falls back to the first
    output's; `scope` names the function or subgraph it stands in. `attributes` are `name=value`
    without subgraphs; what the subgraphs return are the refs in `bodies`; `outputs` is how many
    are asked for.
    """

    op: str
    name: str
    scope: str
    attributes: tuple[str, ...]
    inputs: tuple[str, ...]
    bodies: tuple[str, ...]
    outputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFact:
    """One initializer or Constant node.

    `sha256` covers the values alone: wherever they are stored, whatever they are called. `kind` is
    `initializer` or `constant`, `storage` `inline` or `external`. One that no output depends on is
    not `used`.
    """

    name: str
    kind: str
    storage: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFact:
    """One local function that is called: its key, own operator sets and what its outputs are."""

    name: str
    opsets: tuple[OpsetFact, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCount:
    """How many nodes of one operator there are."""

    op: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFacts:
    """What the model means.

    `topology_sha256` is blind to names, docs, order and the values of weights;
    `semantic_sha256` adds the values by their place, and is what "the same meaning" means.
    `nodes` and `weights` stand in canonical order, so that equal topologies pair up by position.
    `opsets` are those that live nodes use; `unused` counts the nodes no output depends on.
    """

    topology_sha256: str
    semantic_sha256: str
    inputs: tuple[PortFact, ...]
    outputs: tuple[PortFact, ...]
    opsets: tuple[OpsetFact, ...]
    functions: tuple[FunctionFact, ...]
    operators: tuple[OperatorCount, ...]
    unused: tuple[OperatorCount, ...]
    nodes: tuple[NodeFact, ...]
    weights: tuple[WeightFact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model; `graph` is there when its meaning was asked for.

    `metadata_sha256` covers metadata properties, doc strings of model and graph, model version,
    domain and training graphs: nothing that inference looks at.
    """

    graph_sha256: str
    files: tuple[FileFact, ...]
    ir_version: int
    opsets: tuple[OpsetFact, ...]
    producer_name: str
    producer_version: str
    metadata_sha256: str
    function_domains: tuple[str, ...]
    graph: GraphFacts | None = None
