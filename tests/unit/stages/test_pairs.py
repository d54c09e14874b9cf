"""Which systems a deployment needs beside its candidates; no environment is built for it."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from ci_parity.config.load import load_deployment
from ci_parity.config.model import Deployment
from ci_parity.records.identity import BaselineSource, ChangeSet, PairName
from ci_parity.stages.identify import Baseline
from ci_parity.stages.pairs import pairs_to_run
from ci_parity.stages.suite import Pair
from tests.support.models import save_linear

CONFIG = """\
version: 1
variants:
  int8: {path: int8.onnx, from: exported}
  exported: {path: exported.onnx}
targets:
  cpu: {}
  gpu: {session_options: {execution_mode: parallel}}
  npu: {session_options: {inter_op_num_threads: 2}, variants: [int8]}
fixtures: fixtures
policy: {repeat: 3}
"""
NOTHING = Baseline(source=BaselineSource(kind="none"))
Key = tuple[str, str]


def deployment(folder: Path, text: str = CONFIG) -> Deployment:
    """Write a config and its models."""
    for name in ("exported", "int8"):
        save_linear(folder / f"{name}.onnx")
    (folder / "ci-parity.yml").write_text(text, encoding="utf-8")
    return load_deployment(folder / "ci-parity.yml")


def pairs(found: Deployment, *wanted: Key) -> dict[Key, Pair]:
    """Return the wanted pairs by name, all of them by default."""
    names = wanted or tuple(
        (target.name, variant.name)
        for target in found.targets
        for variant in found.variants_on(target)
    )
    changes = ChangeSet(
        source=NOTHING.source, changes=(), identities=(), baselines=(),
        to_run=tuple(PairName(target=target, variant=variant) for target, variant in names),
    )  # fmt: skip
    made = pairs_to_run(found, NOTHING, changes)
    return {(pair.target, pair.variant): pair for pair in made}


def test_each_pair_knows_its_neighbours(tmp_path: Path) -> None:
    """What it was made from on its own target, and itself on the reference target."""
    found = pairs(deployment(tmp_path))
    near = {
        key: (
            pair.made_from and (pair.made_from.name, pair.made_from.job.target.name),
            pair.reference and (pair.reference.name, pair.reference.job.model.name),
        )
        for key, pair in found.items()
    }
    assert near == {
        ("cpu", "int8"): (("exported", "cpu"), None),
        ("cpu", "exported"): (None, None),
        ("gpu", "int8"): (("exported", "gpu"), ("cpu", "int8.onnx")),
        ("gpu", "exported"): (None, ("cpu", "exported.onnx")),
        ("npu", "int8"): (("exported", "npu"), ("cpu", "int8.onnx")),
    }
    assert {key: pair.ancestors for key, pair in found.items()} == {
        (target, variant): ("exported",) if variant == "int8" else ()
        for target, variant in found
    }  # fmt: skip
    assert {pair.reference_target for pair in found.values()} == {"cpu"}


def test_what_is_not_deployed_runs_for_the_comparison_alone(tmp_path: Path) -> None:
    """On the target where something was made from it."""
    found = pairs(deployment(tmp_path))
    deployed = {key: pair.made_from.deployed for key, pair in found.items() if pair.made_from}
    assert deployed == {("cpu", "int8"): True, ("gpu", "int8"): True, ("npu", "int8"): False}


def test_another_target_may_be_the_reference(tmp_path: Path) -> None:
    """Targets that lack a variant are not compared by it."""
    text = CONFIG.replace("npu: {", "npu: {reference: true, ")
    found = pairs(deployment(tmp_path, text))
    compared = {key for key, pair in found.items() if pair.reference is not None}
    assert compared == {("cpu", "int8"), ("gpu", "int8")}


def test_neighbours_run_even_where_they_have_not_changed(tmp_path: Path) -> None:
    """A pair that must run needs its other sides, whatever else must."""
    (pair,) = pairs(deployment(tmp_path), ("gpu", "int8")).values()
    assert pair.made_from is not None
    assert pair.reference is not None


def test_the_candidate_alone_is_repeated(tmp_path: Path) -> None:
    """What it is compared with needs to run once."""
    pair = pairs(deployment(tmp_path))["gpu", "int8"]
    assert pair.candidate.repeat == 3
    assert pair.made_from is not None
    assert pair.reference is not None
    assert [side.job.repeat for side in (pair.made_from, pair.reference)] == [1, 1]


@pytest.mark.parametrize(
    ("quantized", "lacking"),
    [((), set()), (("int8",), set()), (("exported", "int8"), {"exported", "int8"}),
     (("exported",), {"exported"})],
)  # fmt: skip
def test_a_chain_must_hold_something_unquantized(
    tmp_path: Path, quantized: tuple[str, ...], lacking: set[str]
) -> None:
    """A variant that is, or was made from what is not, lacks nothing."""
    found = deployment(tmp_path)
    for name in quantized:
        path = tmp_path / f"{name}.onnx"
        model = onnx.load(path)
        model.graph.node.extend(
            [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="quantize")]
        )
        onnx.save(model, path)
    made = pairs(found, ("cpu", "exported"), ("cpu", "int8"))
    assert {key[1] for key, pair in made.items() if pair.lacks_unquantized} == lacking
