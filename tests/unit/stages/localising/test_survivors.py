"""Which tensors are left once a runtime has optimized a graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.canonical import Json
from ci_parity.config.systems import Target
from ci_parity.localise.graph import FlatGraph
from ci_parity.localise.prepare import PREPARED
from ci_parity.stages.localising.sides import Side
from ci_parity.stages.localising.survivors import survivors
from tests.fakes.simulated_bench import SimulatedBench
from tests.support.graphs import model_of

FUSED = model_of(["Gelu: x -> b", "Sum: b -> y"])
EXTENDED = "enable_extended"


class Optimizing(SimulatedBench):
    """Writes what it makes of a graph, as onnxruntime does; `content` is written where given."""

    def __init__(self, target: Target, content: bytes | None = None, message: str = "") -> None:
        super().__init__({}, Path(), target=target)
        self.content = FUSED.SerializeToString() if content is None else content
        self.message = message
        self.asked: list[Mapping[str, Any]] = []

    def load(
        self, model: Path, inputs: Sequence[str], outputs: Sequence[str],
        session_options: Mapping[str, Json] | None = None,
    ) -> str:  # fmt: skip
        """Load a model and write the optimized one."""
        assert (model.name, tuple(inputs), tuple(outputs)) == (PREPARED, ("x",), ("y",))
        assert session_options is not None
        self.asked.append(session_options)
        file = Path(str(session_options["optimized_model_filepath"]))
        if self.content:
            file.write_bytes(self.content)
            file.with_suffix(".bin").write_bytes(b"weights")
        return self.message


def side(folder: Path, bench: Optimizing) -> Side:
    """Return a side that runs `a`, `b` and `y`."""
    graph = FlatGraph(model_of(["Sum: x -> a", "Sum: a -> b", "Sum: b -> y"]))
    return Side(label="b", graph=graph, home=folder, bench=bench, case={})


def test_tensors_that_nodes_still_make_are_left(tmp_path: Path) -> None:
    """Those that a fused operator swallowed are not; no file is left behind."""
    bench = Optimizing(Target(name="cpu"))
    assert survivors(side(tmp_path, bench)) == {"b", "y"}
    assert list(tmp_path.iterdir()) == []


def test_the_graph_is_optimized_as_the_system_does_it(tmp_path: Path) -> None:
    """Layouts aside, which rename tensors that are still there; own entries stay."""
    options: dict[str, Json] = {
        "intra_op_num_threads": 1, "config_entries": {"session.use_env_allocators": "1"}
    }  # fmt: skip
    bench = Optimizing(Target(name="cpu", session_options=options))
    survivors(side(tmp_path, bench))
    (asked,) = bench.asked
    assert asked["graph_optimization_level"] == EXTENDED
    assert asked["intra_op_num_threads"] == 1
    assert asked["config_entries"]["session.use_env_allocators"] == "1"
    assert Path(asked["optimized_model_filepath"]).parent == tmp_path
    assert options["config_entries"] == {"session.use_env_allocators": "1"}


@pytest.mark.parametrize(
    ("own", "asked"),
    [("enable_all", EXTENDED), ("enable_extended", EXTENDED), ("enable_basic", "enable_basic")],
)
def test_a_level_of_the_system_is_kept_up_to_layouts(own: str, asked: str, tmp_path: Path) -> None:
    """Less is optimized where the system optimizes less."""
    bench = Optimizing(Target(name="cpu", session_options={"graph_optimization_level": own}))
    survivors(side(tmp_path, bench))
    assert [options["graph_optimization_level"] for options in bench.asked] == [asked]


def test_a_system_that_optimizes_nothing_is_not_asked(tmp_path: Path) -> None:
    """All tensors are left then."""
    off = {"graph_optimization_level": "disable_all"}
    bench = Optimizing(Target(name="cpu", session_options=off))
    assert survivors(side(tmp_path, bench)) == {"a", "b", "y"}
    assert bench.asked == []


@pytest.mark.parametrize(
    "bench",
    [
        Optimizing(Target(name="gpu", provider="CUDAExecutionProvider")),
        Optimizing(Target(name="cpu"), message="no kernel"),
        Optimizing(Target(name="cpu"), content=b""),
        Optimizing(Target(name="cpu"), content=b"\xff" * 50),
    ],
    ids=["another provider", "not loaded", "not written", "not readable"],
)
def test_where_it_is_not_known_nothing_is_said(bench: Optimizing, tmp_path: Path) -> None:
    """Every cut counts as harmless then."""
    assert survivors(side(tmp_path, bench)) is None
