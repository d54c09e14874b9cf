"""What operators do with rounding: which results are exact, which operands enter a sum.

Names without a domain are those of ai.onnx, ai.onnx.ml and com.microsoft, whose names do not
collide. An operator that is not listed rounds its float results.
"""

from collections.abc import Mapping

# Results are copies, selections, comparisons or roundings of operands: exact in every runtime.
EXACT = frozenset(
    {
        "Abs", "ArgMax", "ArgMin", "ArrayFeatureExtractor", "Binarizer", "Cast", "CastLike",
        "CategoryMapper", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat",
        "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace", "DequantizeLinear",
        "DictVectorizer", "Dropout", "Equal", "Expand", "EyeLike", "FeatureVectorizer", "Flatten",
        "Floor", "Gather", "GatherElements", "GatherND", "GlobalMaxPool", "Greater",
        "GreaterOrEqual", "Hardmax", "Identity", "If", "Imputer", "IsInf", "IsNaN", "LabelEncoder",
        "Less", "LessOrEqual", "Loop", "Max", "MaxPool", "MaxUnpool", "Min", "Neg",
        "NonMaxSuppression", "NonZero", "OneHot", "OneHotEncoder", "Optional",
        "OptionalGetElement", "OptionalHasElement", "Pad", "QuantizeLinear", "Range", "ReduceMax",
        "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Round", "Scan", "SequenceAt",
        "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
        "SequenceMap", "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split",
        "SplitToSequence", "Squeeze", "StringNormalizer", "ThresholdedRelu", "Tile", "TopK",
        "Transpose", "Trilu", "Unique", "Unsqueeze", "Where", "ZipMap",
    }
)  # fmt: skip

# Every product of operands enters a sum whose terms may cancel: the operands are perturbed too.
SUMMING = frozenset(
    {
        "Attention", "AveragePool", "BatchNormalization", "BiasGelu", "Conv", "ConvTranspose",
        "CumSum", "DFT", "DeformConv", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "GRU",
        "Gemm", "GlobalAveragePool", "GlobalLpPool", "GridSample", "GroupNorm",
        "GroupNormalization", "InstanceNormalization", "LRN", "LSTM", "LayerNormalization",
        "LinearClassifier", "LinearRegressor", "LogSoftmax", "LpNormalization", "LpPool", "MatMul",
        "MeanVarianceNormalization", "MultiHeadAttention", "NhwcConv", "Normalizer",
        "RMSNormalization", "RNN", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
        "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "STFT", "SVMClassifier",
        "SVMRegressor", "SimplifiedLayerNormalization", "SkipLayerNormalization", "Softmax",
    }
)  # fmt: skip

# Their integer results depend on where float operands lie between two steps.
STEPPING = frozenset(
    {
        "ArgMax", "ArgMin", "Ceil", "DynamicQuantizeLinear", "Equal", "Floor", "Greater",
        "GreaterOrEqual", "Hardmax", "Less", "LessOrEqual", "NonMaxSuppression", "NonZero",
        "QuantizeLinear", "Round", "Sign", "TopK", "Unique", "TreeEnsemble",
        "TreeEnsembleClassifier", "TreeEnsembleRegressor", "Binarizer", "ThresholdedRelu",
    }
)  # fmt: skip

QUANTIZING = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})

# Operators of quantized arithmetic, ONNX's and onnxruntime's: float operands are scales.
QUANTIZED = frozenset(
    {
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul", "MatMulBnb4", "MatMulInteger", "MatMulInteger16",
        "MatMulIntegerToFloat", "MatMulNBits", "QAttention", "QEmbedLayerNormalization", "QGemm",
        "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearConv",
        "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMatMul", "QLinearMul",
        "QLinearReduceMean", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere", "QuantizeLinear",
        "QMoE",
    }
)  # fmt: skip
FOUR_BITS = frozenset({"MatMulNBits", "MatMulBnb4", "QMoE"})

# Quantized weights alone, beside activations that stay floats: nothing is rounded to steps.
STEPLESS = FOUR_BITS | {"DequantizeLinear", "GatherBlockQuantized"}

# Matrix operators, with the number of operands that quantizers quantize: activations and weights.
MATRIX: Mapping[str, int] = {
    "Attention": 3, "Conv": 2, "ConvTranspose": 2, "DeformConv": 2, "Einsum": 2, "FusedConv": 2,
    "FusedGemm": 2, "FusedMatMul": 2, "GRU": 3, "Gemm": 2, "GroupQueryAttention": 3, "LSTM": 3,
    "MatMul": 2, "MultiHeadAttention": 3, "NhwcConv": 2, "RNN": 3,
}  # fmt: skip

# What carries no noise from operands to results.
SHAPES = frozenset({"Shape", "Size"})

# Results of operators that ONNX does not know: those of the type of their first operand, and those
# that are all floats.
INTEGER_RESULTS = frozenset(
    {
        "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat",
        "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearReduceMean",
        "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere",
    }
)  # fmt: skip
FLOAT_RESULTS = frozenset(
    {
        "Attention", "GroupQueryAttention", "MultiHeadAttention", "SkipGroupNorm",
        "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
    }
)  # fmt: skip
