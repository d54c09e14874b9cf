import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.errors import ConfigError
from ci_parity.config.contract import MAX_SHAPES, contract, listed_sizes
from ci_parity.config.filling import schema
from ci_parity.config.load import load_deployment
from ci_parity.config.model import Contract, Padding, PortContract
from ci_parity.records.values import ELEMENT_TYPES

MINIMAL = "version: 1\nvariants: {exported: {path: m.onnx}}\nfixtures: cases\n"
FULL = """\
contract:
  opset: 17
  inputs:
    x: {dtype: float32, shape: [batch, 3.0, 48, width], layout: NCHW, range: [-1, 1]}
    lengths: {dtype: int64, shape: [batch], range: [1, width]}
    mask: {}
  outputs: {probs: {dtype: float32, shape: [batch, time, null], range: [0, null]}}
  sizes: {batch: [1, 2, 8], width: [32, 320]}
  batch: batch
  padding: {axis: width, values: {x: 0}}
"""
X: dict[str, Any] = {"inputs": {"x": {"shape": ["batch", "width"]}}}


def loaded(folder: Path, text: str) -> Any:
    """Read a config with this contract."""
    path = folder / "ci-parity.yml"
    path.write_text(MINIMAL + text, encoding="utf-8")
    return load_deployment(path)


def test_a_full_contract_is_read_whole(tmp_path: Path) -> None:
    """Every key arrives where it belongs; 3.0 is a size, and null no bound."""
    assert loaded(tmp_path, FULL).contract == Contract(
        opset={"ai.onnx": 17},
        inputs={
            "x": PortContract(
                dtype="float32", shape=("batch", 3, 48, "width"), layout="NCHW", range=(-1, 1)
            ),
            "lengths": PortContract(dtype="int64", shape=("batch",), range=(1, "width")),
            "mask": PortContract(),
        },
        outputs={
            "probs": PortContract(
                dtype="float32", shape=("batch", "time", None), range=(0, math.inf)
            )
        },
        sizes={"batch": (1, 2, 8), "width": (32, 320)},
        batch="batch",
        padding=Padding(axis="width", values={"x": 0}),
    )


def test_operator_sets_by_domain(tmp_path: Path) -> None:
    """A version each."""
    text = "contract: {opset: {ai.onnx: 17, ai.onnx.ml: 3}}\n"
    assert loaded(tmp_path, text).contract.opset == {"ai.onnx": 17, "ai.onnx.ml": 3}


def test_the_contract_is_part_of_the_policy(tmp_path: Path) -> None:
    """Whoever changes it changes what is judged by; without one nothing is different."""
    without = loaded(tmp_path, "").policy_json
    assert "contract" not in json.loads(without)
    assert loaded(tmp_path, "contract: {}\n").policy_json == without
    strict = loaded(tmp_path, "contract: {opset: 17}\n").policy_json
    loose = loaded(tmp_path, "contract: {opset: 18}\n").policy_json
    assert len({without, strict, loose}) == 3
    assert json.loads(strict) == json.loads(without) | {"contract": {"opset": 17}}


def test_every_element_type_can_be_stated() -> None:
    """The schema lists those that values can have, and no other."""
    listed = schema()["$defs"]["port_contract"]["properties"]["dtype"]["enum"]
    assert sorted(listed) == sorted([*ELEMENT_TYPES, "string"])


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (X | {"sizes": {"time": [1]}}, "'time' is no symbol"),
        (X | {"batch": "rows"}, "'rows' is no symbol"),
        ({"batch": "batch"}, "'batch' is no symbol"),
        (X | {"padding": {"axis": "time", "values": {"x": 0}}}, "'time' is no symbol"),
        (X | {"padding": {"axis": "width", "values": {"y": 0}}}, "'y' has no such dimension"),
        ({"inputs": {"x": {"range": [2, 1]}}}, "ends at 1, below its start 2"),
        ({"inputs": {"x": {"range": [0, "width"]}}}, "'width' is no symbol"),
        ({"inputs": {"x": {"dtype": "string", "range": [0, 1]}}}, "string has no range"),
        ({"inputs": {"x": {"layout": "NC"}}}, "does not name every dimension"),
        ({"inputs": {"x": {"layout": "NCH", "shape": [1, 2]}}}, "does not name every dimension"),
        ({"inputs": {"x": {"layout": "NN", "shape": [1, 2]}}}, "names a dimension twice"),
        ({"outputs": {"y": {"range": [0, "width"]}}}, "'width' is no symbol"),
    ],
)
def test_parts_that_do_not_fit_are_refused(raw: dict[str, Any], what: str) -> None:
    """With what is wrong, and where."""
    with pytest.raises(ConfigError) as caught:
        contract(raw)
    assert what in caught.value.what
    assert "$.contract" in str(caught.value)


def test_an_output_may_have_symbols_of_its_own() -> None:
    """Its range may name them; sizes belong to inputs alone."""
    stated = contract({"outputs": {"y": {"shape": ["time"], "range": [0, "time"]}}})
    assert stated.outputs["y"].range == (0, "time")


def test_every_problem_is_reported_at_once() -> None:
    """As those of the schema are."""
    with pytest.raises(ConfigError, match="2 problems in the contract") as caught:
        contract({"batch": "rows", "inputs": {"x": {"range": [2, 1]}}})
    assert "$.contract.batch" in caught.value.what
    assert "$.contract.inputs.x" in caught.value.what


@pytest.mark.parametrize(
    "words",
    [
        "{opset: 0}", "{opset: {}}", "{inputs: {}}", "{inputs: {x: {shape: [-1]}}}",
        "{inputs: {x: {shape: [1.5]}}}", "{inputs: {x: {dtype: float}}}", "{sizes: {batch: []}}",
        "{sizes: {batch: [1, 1]}}", "{inputs: {x: {range: [0]}}}", "{inputs: {x: {layout: nchw}}}",
        "{padding: {axis: width}}", "{unknown: 1}", "{inputs: {x: {shapes: []}}}",
    ],
)  # fmt: skip
def test_the_schema_refuses_what_is_no_contract(tmp_path: Path, words: str) -> None:
    """Wrong types, unknown keys, empty lists."""
    with pytest.raises(ConfigError, match="problem"):
        loaded(tmp_path, f"contract: {words}\n")


def test_too_much_to_run_is_refused() -> None:
    """Counted before anything is written."""
    names = [f"s{i}" for i in range(5)]
    many = {
        "inputs": {"x": {"shape": names}},
        "sizes": {name: list(range(1, 21)) for name in names},
    }
    with pytest.raises(ConfigError, match=f"{MAX_SHAPES} is the most"):
        contract(many)
    large = X | {"sizes": {"batch": [1, 100_000], "width": [10, 10_000]}}
    with pytest.raises(ConfigError, match="input elements"):
        contract(large)


# Which sizes are run.


def sizes(**listed: tuple[int, ...]) -> list[dict[str, int]]:
    """Return the runs that some listed sizes ask for."""
    ports = {"x": PortContract(shape=tuple(listed))}
    return [dict(run) for run in listed_sizes(Contract(inputs=ports, sizes=listed))]


def test_sizes_are_run_around_the_first_and_at_both_ends() -> None:
    """Each once."""
    assert sizes(b=(2, 1), w=(8, 16)) == [
        {"b": 2, "w": 8}, {"b": 1, "w": 8}, {"b": 2, "w": 16},
    ]  # fmt: skip
    assert sizes(b=(2, 1, 4), w=(8, 16)) == [
        {"b": 2, "w": 8}, {"b": 1, "w": 8}, {"b": 4, "w": 8}, {"b": 2, "w": 16},
        {"b": 4, "w": 16},
    ]  # fmt: skip


def test_no_sizes_are_one_run() -> None:
    """Of whatever is stored."""
    assert sizes() == [{}]


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple),
        max_size=4,
    )
)
def test_every_listed_size_is_run(listed: dict[str, tuple[int, ...]]) -> None:
    """With a size for every symbol, and no run twice."""
    runs = sizes(**listed)
    assert {s: {run[s] for run in runs} for s in listed} == {s: set(v) for s, v in listed.items()}
    assert all(run.keys() == listed.keys() for run in runs)
    assert len({tuple(sorted(run.items())) for run in runs}) == len(runs)


def test_limits_are_numbers_where_sizes_are_known() -> None:
    """A symbol without a size bounds nothing."""
    assert PortContract(range=(0, "width")).limits({"width": 32}) == (0, 32)
    assert PortContract(range=(0, "width")).limits({}) == (0, math.inf)
    assert PortContract().limits({}) == (-math.inf, math.inf)
