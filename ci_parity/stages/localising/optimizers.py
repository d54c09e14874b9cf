"""Which of onnxruntime's graph optimizations a fault depends on.

The stretch at fault is run with all of them off, then with fewer and fewer of them off, until those
are left without which it is good. Optimizations that have no name to be turned off by are not told
apart.
"""

from collections.abc import Callable, Sequence

from ci_parity.base.canonical import Json
from ci_parity.config.runtimes import CURRENT, ONNXRUNTIME
from ci_parity.stages.localising.handover import Handover
from ci_parity.stages.localising.locate import MoreTime, Stretch

_LEVEL = "graph_optimization_level"
_OFF = "disable_all"

OPTIMIZERS = (
    "AttentionFusion", "BiasDropoutFusion", "BiasGeluFusion", "BiasSkipLayerNormFusion",
    "BiasSoftmaxFusion", "CastChainElimination", "CastElimination", "ClipQuantRewrite",
    "CommonSubexpressionElimination", "ConstantFolding", "ConstantFoldingDQ", "ConstantSharing",
    "ConvActivationFusion", "ConvAddActivationFusion", "ConvAddFusion", "ConvBNFusion",
    "ConvMulFusion", "DivMulFusion", "DoubleQDQPairsRemover", "DQMatMulNBitsFusion",
    "DynamicQuantizeMatMulFusion", "EliminateDropout", "EliminateIdentity", "EliminateSlice",
    "EmbedLayerNormFusion", "EnsureUniqueDQForNodeUnit", "ExpandElimination", "FastGeluFusion",
    "FreeDimensionOverrideTransformer", "FuseReluClip", "GatherSliceToSplitFusion",
    "GatherToSliceFusion", "GatherToSplitFusion", "GeluApproximation", "GeluFusionL1",
    "GeluFusionL2", "GemmActivationFusion", "GemmSumFusion", "GemmTransposeFusion",
    "GroupQueryAttentionFusion", "GroupQueryAttentionPreNormFusion", "LabelEncoderFusion",
    "LayerNormFusionL1", "LayerNormFusionL2", "MatMulActivationFusion", "MatMulAddFusion",
    "MatMulIntegerToFloatFusion", "MatMulNBitsFusion", "MatMulNBitsMlpFusion",
    "MatMulNBitsQkvFusion", "MatMulScaleFusion", "MatMul_BatchNormalization_Fusion",
    "MatmulTransposeFusion", "NchwcTransformer", "NhwcTransformer", "NoopElimination",
    "NotWhereFusion", "Pad_Fusion", "PreShapeNodeElimination", "PropagateCastOps",
    "QDQFinalCleanupTransformer", "QDQPropagationTransformer", "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer", "QuickGeluFusion", "ReluQuantRewrite", "ReshapeFusion",
    "SimplifiedLayerNormFusion", "SkipLayerNormFusion", "SliceConcatToSpaceToDepthFusion",
    "SwiGluFusion", "TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider",
    "UnsqueezeElimination", "WeightBiasQuantization", "LayerNormFusion", "GeluFusion",
)  # fmt: skip
"""Names that `disabled_optimizers` knows, of onnxruntime 1.16 to 1.32; others are ignored there."""


def optimizers_of(
    handover: Handover, stretch: Stretch, more_time: MoreTime
) -> tuple[str, ...] | None:
    """Return the optimizations that a stretch needs to break the case.

    None where it breaks without any too, or that cannot be tried, as for a system that does not
    repeat itself; empty where it needs them and none that has a name is to blame.
    """
    job = handover.candidate.bench.job
    own = dict(job.target.session_options)
    off = own.get(_LEVEL) == _OFF
    if off or job.repeat > 1 or not is_onnxruntime(job.target.runtime):
        return None

    def is_good(options: dict[str, Json]) -> bool:
        return _effect(handover, stretch, options) is False

    if not is_good({**own, _LEVEL: _OFF}):
        return None

    def helps(names: Sequence[str]) -> bool:
        return is_good({**own, "disabled_optimizers": list(names)})

    return _fewest(OPTIMIZERS, helps, more_time) if helps(OPTIMIZERS) else ()


def _fewest(
    names: tuple[str, ...], helps: Callable[[Sequence[str]], bool], more_time: MoreTime
) -> tuple[str, ...]:
    """Return few names that help as all of them do: halves first, then without each that is left.

    Args:
        names: they help together.
        helps: whether some of them do.
        more_time: whether another try may be made.
    """
    parts = 2
    while len(names) > 1 and more_time():
        size = -(-len(names) // parts)
        pieces = [names[at : at + size] for at in range(0, len(names), size)]
        rests = [tuple(n for n in names if n not in piece) for piece in pieces]
        better = next((one for one in (*pieces, *rests) if one and helps(one)), None)
        if better is not None and len(better) < len(names):
            names, parts = better, 2
        elif parts >= len(names):
            break
        else:
            parts = min(len(names), parts * 2)
    return names


def _effect(handover: Handover, stretch: Stretch, options: dict[str, Json]) -> bool | None:
    """Whether a stretch breaks the case with other session options."""
    given = handover.given(stretch.start)
    if given is None:
        return None
    seen = handover.candidate.compute(given, handover.wanted(stretch.end), options)
    effect = handover.judged(seen, stretch.end)
    return None if effect is None else effect.bad


def is_onnxruntime(runtime: str) -> bool:
    """Whether a target's runtime is onnxruntime, in whichever distribution."""
    package = runtime.partition("==")[0].strip()
    return runtime == CURRENT or package in ONNXRUNTIME.distributions
