"""Errors that say what a runtime lacks, and errors that say only that it failed; all were met."""

import pytest

from ci_parity.coverage.refusals import says_it_lacks

LACKING = (
    "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Swish(24)",
    "Fatal error: ai.onnx.preview:FlexAttention(-1) is not a registered function/op",
    "layout_ == 0 was false. Batchwise recurrent operations (layout == 1) are not supported.",
    "IsScalarOr1ElementVector was false. Non per-tensor quantization is not supported now.",
    "Unsupported model IR version: 12, max supported IR version: 10",
    "Opset 22 is under development and support for this is limited",
    "nodes that are assigned to it, but fallback to CPU EP has been explicitly disabled",
    "FrontEnd API failed with OpConversionFailure: Model wasn't fully converted.",
    "Translating node #2 Foo Unimplemented(Foo) ToTypedTranslator",
    "Unknown DatumType Bfloat16",
    "This is an invalid model. Error Unrecognized attribute: left_window for operator Attention",
    "'y' is not declared as a tensor; Candle has tensors",
    "Translating node #1 Dft ToTypedTranslator Caused by: Axis input must be a known scalar",
    "Expected dim and value to be determined, got ,F32 and 2,F32",
    "expected axes as a constant",
    "y_scale must be a const",
    "Translating node #2 'reshaped' Reshape ToTypedTranslator Caused by: shape input is variable",
    "unsupported op_type Scaler for op NodeProto",
    "input 'x' is int8, which Candle does not have",
    "'x' has element type 23, which candle-onnx does not know",
    "panic: not yet implemented: no unary function for i64",
    "No registered implementation for operator 'Scatter' and domain ''",
    "Pillow must be installed to use the reference implementation of the ImageDecoder operator",
)
FAILING = (
    "Shape mismatch, got buffer of size 24 which is compatible with shape [2, 3, 1, 12]",
    "ReduceMax is not defined for empty set with bool type",
    "inconsistent total_sequence_length (between attn_mask and past_key and past_value)",
    "Failed to construct locale with name:en_US.UTF-8:locale::facet::_S_create_c_locale",
    "missing inputs ['x'], inputs that the model lacks ['y']",
    "panic: index out of bounds: the len is 2 but the index is 2",
    "sum: dimension index -1 out of range for shape [1, 3]",
    "x and y have different dtype: <class 'NoneType'> != <class 'numpy.ndarray'>",
    "",
)


@pytest.mark.parametrize("words", LACKING)
def test_a_runtime_that_says_it_lacks_something_refuses(words: str) -> None:
    """In whatever words it has for it."""
    assert says_it_lacks(words)


@pytest.mark.parametrize("words", FAILING)
def test_any_other_error_is_a_failure(words: str) -> None:
    """It has the operator, and does not compute it."""
    assert not says_it_lacks(words)
