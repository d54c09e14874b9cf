"""The ONNX standard's node tests: as onnx makes them, on real runtimes, and among accidents."""

import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.config.systems import Target
from ci_parity.records.coverage import NodeOutcome, NodeResult
from ci_parity.records.values import leaves, read_value
from ci_parity.stages.coverage.running import LIMIT_S, run_cases
from tests.integration.support.candle_runner import (
    candle_runner,
    candle_runner_before_reshape_fix,
)
from tests.integration.support.diff_command import environments
from tests.integration.support.node_suite import node_suite

SWITCH = "CI_PARITY_TEST_NODE_SUITE"
ONNXRUNTIME, OPENVINO = "onnxruntime==1.32.0", "openvino==2026.4.1"
DYING = Path(__file__).parents[1] / "fakes" / "dying_onnxruntime.py"

PASSING = [
    "test_abs", "test_add_bcast", "test_and_bcast4v2d", "test_argmax_default_axis_example",
    "test_averagepool_2d_ceil", "test_batchnorm_epsilon", "test_bitshift_left_uint8",
    "test_cast_FLOAT_to_BFLOAT16", "test_cast_FLOAT_to_FLOAT8E4M3FN", "test_cast_FLOAT_to_INT4",
    "test_cast_UINT4_to_FLOAT", "test_castlike_FLOAT_to_BFLOAT16", "test_cast_BFLOAT16_to_FLOAT",
    "test_cast_INT2_to_INT8", "test_cast_e8m0_FLOAT8E8M0_to_FLOAT", "test_ceil",
    "test_clip_default_inbounds", "test_compress_0", "test_concat_1d_axis_negative_1",
    "test_constantofshape_int_zeros", "test_conv_with_strides_padding",
    "test_cumsum_1d_exclusive", "test_depthtospace_example", "test_einsum_sum",
    "test_equal_string", "test_expand_dim_changed", "test_gather_negative_indices",
    "test_gemm_default_zero_bias", "test_greater_equal_bcast", "test_hardmax_one_hot",
    "test_identity_opt", "test_identity_sequence", "test_if_seq", "test_isnan_float16",
    "test_layer_normalization_2d_axis0", "test_loop11", "test_lstm_with_peepholes",
    "test_matmulinteger", "test_max_float32", "test_maxpool_with_argmax_2d_precomputed_pads",
    "test_mod_mixed_sign_float16", "test_nonzero_example", "test_or2d",
    "test_qlinearmatmul_2D_int8_float32", "test_reduce_max_empty_set",
    "test_reshape_allowzero_reordered", "test_reshape_zero_and_negative_dim", "test_scan_sum",
    "test_sequence_insert_at_back", "test_split_zero_size_splits_opset18", "test_string_concat",
    "test_tfidfvectorizer_tf_only_bigrams_skip0", "test_top_k", "test_where_example", "test_xor2d",
]  # fmt: skip
FAILING = [
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "test_dft",
    "test_maxunpool_export_with_output_shape",
    "test_reduce_max_empty_set_bool",
    "test_resize_downsample_scales_linear_align_corners",
]
REFUSED = [
    "test_adam", "test_convinteger_with_padding", "test_gru_batchwise",
    "test_image_decoder_decode_png_rgb", "test_max_int16",
]  # fmt: skip
OPEN = ["test_bernoulli_seed", "test_training_dropout"]


def results_of(names: list[str], target: Target, cache: Path) -> dict[str, str]:
    """Return the outcomes of tests by name."""
    return {name: result.outcome.value for name, result in shown(names, target, cache)}


def shown(
    names: list[str], target: Target, cache: Path, timeout_s: float = LIMIT_S
) -> list[tuple[str, NodeResult]]:
    """Run tests of the suite on a target; return name and result."""
    cases = [node_suite()[name] for name in names]
    ran = run_cases(cases, target, cache=cache, progress=SilentProgress(), timeout_s=timeout_s)
    return list(zip(names, ran.results, strict=True))


def expected(**outcomes: list[str]) -> Mapping[str, str]:
    """Return names with their outcomes."""
    return {name: outcome for outcome, names in outcomes.items() for name in names}


def test_the_suite_is_whole() -> None:
    """Every test that onnx makes, each with a model and all of its files."""
    cases = node_suite().values()
    assert len({case.id for case in cases}) == len(cases) >= 1800
    if version("onnx") == "1.23.2":
        assert len(cases) == 1884
        assert sum(bool(case.undefined) for case in cases) == 10
    for case in cases:
        assert case.outputs
        files = [leaf.file for leaf in leaves((*case.inputs, *case.outputs)) if leaf.file]
        assert all((case.folder / file).is_file() for file in [*files, "model.onnx"])


def test_the_suite_has_values_of_every_kind() -> None:
    """Among inputs and outputs: what NumPy lacks, strings, sequences, optionals."""
    found: Counter[str] = Counter()
    for case in node_suite().values():
        records = [*case.inputs, *case.outputs]
        found.update(leaf.dtype or leaf.kind for leaf in leaves(records))
    wanted = {
        "string", "bfloat16", "float16", "float8e4m3fn", "float8e5m2fnuz", "float8e8m0", "int4",
        "uint4", "int2", "float4e2m1", "bool", "uint64", "sequence", "absent",
    }  # fmt: skip
    assert wanted <= set(found)


def test_models_and_values_are_those_of_onnx() -> None:
    """Made here once more: the model to the byte, the values to the bit."""
    from onnx.backend.test.case.node import _NodeTestCases

    # Importing one of its modules makes the tests in it.
    importlib.import_module("onnx.backend.test.case.node.reshape")
    made = {test.name: test for test in _NodeTestCases if test.name.startswith("test_reshape_")}
    assert len(made) > 5
    for name, test in made.items():
        case = node_suite()[name]
        assert test.model is not None
        assert test.data_sets is not None
        assert case.model.read_bytes() == test.model.SerializeToString()
        assert (case.rtol, case.atol) == (test.rtol, test.atol)
        ((inputs, outputs),) = test.data_sets
        for record, value in zip(
            (*case.inputs, *case.outputs), (*inputs, *outputs), strict=True
        ):  # fmt: skip
            np.testing.assert_array_equal(np.asarray(read_value(record, case.folder)), value)
        graph = onnx.load(case.model).graph
        assert [record.name for record in case.inputs] == [port.name for port in graph.input]


@pytest.mark.network
def test_a_selection_on_onnxruntime(tmp_path: Path) -> None:
    """Every kind of operator, value and outcome, on a pinned version."""
    target = Target(name="cpu", runtime=ONNXRUNTIME)
    (tmp_path / "environments").symlink_to(environments() / "environments")
    (tmp_path / "locks").symlink_to(environments() / "locks")
    wanted = expected(**{"pass": PASSING, "fail": FAILING, "refused": REFUSED, "skipped": OPEN})
    assert len(wanted) > 60
    assert results_of(list(wanted), target, tmp_path) == wanted


def test_an_accident_costs_its_test_alone(tmp_path: Path) -> None:
    """A crash, a hang, garbage, a wrong result; what crashes after others alone is run anew."""
    fate = {
        "aborts": ["test_and2d"], "hangs": ["test_asin"], "babbles": ["test_atan"],
        "tires": ["test_ceil"], "errs": ["test_cos"],
    }  # fmt: skip
    command = json.dumps([sys.executable, "-I", "-B", str(DYING), json.dumps(fate)])
    target = Target(name="cpu", runtime=f"command:{command}")
    names = [
        "test_abs", "test_and2d", "test_acos", "test_asin", "test_add", "test_atan", "test_exp",
        "test_ceil", "test_cos", "test_sin",
    ]  # fmt: skip
    results = dict(shown(names, target, tmp_path, timeout_s=20))
    outcomes = [results[name].outcome for name in names]
    assert outcomes == [
        NodeOutcome.PASS, NodeOutcome.CRASHED, NodeOutcome.PASS, NodeOutcome.TIMED_OUT,
        NodeOutcome.PASS, NodeOutcome.CRASHED, NodeOutcome.PASS, NodeOutcome.PASS,
        NodeOutcome.FAIL, NodeOutcome.PASS,
    ]  # fmt: skip
    assert "SIGABRT" in results["test_and2d"].evidence
    assert "no answer to 'load' within 20 s" in results["test_asin"].evidence
    assert "good day" in results["test_atan"].evidence


@pytest.mark.network
def test_openvino_is_given_what_it_folds_into_its_inputs(tmp_path: Path) -> None:
    """It drops names that a node's output stands for, and inputs that no value comes from."""
    names = [
        "test_sum_one_input",
        "test_castlike_FLOAT16_to_FLOAT",
        "test_relu_expanded_ver18",
        "test_dropout_default",
    ]
    (tmp_path / "environments").symlink_to(environments() / "environments")
    (tmp_path / "locks").symlink_to(environments() / "locks")
    found = results_of(names, Target(name="cpu", runtime=OPENVINO), tmp_path)
    assert found == dict.fromkeys(names, "pass")


@pytest.mark.network
def test_candles_reshape_fails_before_its_fix_and_passes_after(tmp_path: Path) -> None:
    """huggingface/candle#3907: both releases list Reshape; what it means was tested by no list."""
    names = ["test_reshape_allowzero_reordered", "test_reshape_zero_and_negative_dim"]
    found = []
    for program in (candle_runner_before_reshape_fix(), candle_runner()):
        target = Target(name="edge", runtime=f"command:{json.dumps([str(program)])}")
        found.append(results_of([*names, "test_reshape_one_dim"], target, tmp_path))
    before, after = found
    assert [before[name] for name in names] == ["fail", "fail"]
    assert set(after.values()) == {"pass"}
    assert before["test_reshape_one_dim"] == "pass"


@pytest.mark.network
@pytest.mark.skipif(SWITCH not in os.environ, reason=f"half a minute: asked for with {SWITCH}=1")
def test_all_of_it_on_onnxruntime(tmp_path: Path) -> None:
    """The numbers of docs/coverage.md."""
    target = Target(name="cpu", runtime=ONNXRUNTIME)
    (tmp_path / "environments").symlink_to(environments() / "environments")
    (tmp_path / "locks").symlink_to(environments() / "locks")
    counts = Counter(results_of(list(node_suite()), target, tmp_path).values())
    assert counts == {"pass": 1740, "fail": 24, "refused": 110, "skipped": 10}
