import math

import pytest

from ci_parity.records.divergence import DepthPoint, NodeName
from ci_parity.report.divergence_words import (
    bar,
    deviation,
    facts,
    first_divergence,
    operator,
    other_nodes,
    plot_file,
    reproduction,
    shown_points,
)
from tests.unit.report.samples import depth_point, divergence, open_divergence


def test_the_first_that_names_nodes_comes_first() -> None:
    """What came to nothing is shown where there is nothing else."""
    named, other = divergence(), divergence(case="smallest")
    assert first_divergence((open_divergence(), named, other)) == named
    assert first_divergence((open_divergence(),)) == open_divergence()
    assert first_divergence(()) is None


def test_the_facts_are_sentences() -> None:
    """All that stands beside the nodes."""
    shares = "these nodes alone use 480 times, the whole run used 500 times"
    assert list(facts(divergence())) == [
        f"of what the outputs are allowed, {shares}",
        "depends on GemmActivationFusion",
        "more is wrong behind these nodes",
        "2 tensors without a counterpart, not compared",
        "found in 17 runs",
    ]


def test_what_is_not_known_is_not_said() -> None:
    """No number stands for none, nor for an infinite one."""
    assert list(facts(open_divergence())) == []
    found = divergence(used=math.inf, whole=7.0, optimizers=(), further=False, unpaired=(), tried=1)
    assert list(facts(found)) == [
        "of what the outputs are allowed, the whole run used 7 times",
        "depends on graph optimizations that have no name to turn off",
        "found in 1 run",
    ]


def test_operators_have_their_domain() -> None:
    """That of ONNX is empty."""
    assert operator(NodeName(name="a", op_type="Gemm")) == "Gemm"
    assert operator(NodeName(name="a", op_type="Gelu", domain="com.microsoft")) == (
        "com.microsoft.Gelu"
    )


def test_nodes_that_both_models_have_are_shown_once() -> None:
    """Only what the candidate calls otherwise is worth a table."""
    other = (NodeName(name="fused", op_type="FusedGemm"),)
    assert other_nodes(divergence(candidate_nodes=other)) == other
    assert other_nodes(divergence(candidate_nodes=divergence().nodes)) == ()


def test_files_are_named_where_there_are_any() -> None:
    """A plot of fewer than three tensors says nothing."""
    assert plot_file(2, divergence()) == "depth-2.svg"
    assert plot_file(1, divergence(depth=divergence().depth[:2])) == ""
    assert plot_file(1, divergence(depth=divergence().depth[:3])) == "depth-1.svg"
    assert reproduction(divergence()) == "repro-1/README.md"
    assert reproduction(open_divergence()) == ""


@pytest.mark.parametrize(
    ("count", "guilty", "expected"),
    [
        (0, None, []),
        (1, 0, [0]),
        (10, 4, list(range(10))),
        (48, 20, [0, 1, 2, "15", 18, 19, 20, 21, 22, "23", 46, 47]),
        (48, 0, [0, 1, 2, 3, 4, "38", 43, 44, 45, 46, 47]),
        (48, 47, [0, 1, 2, 3, 4, "38", 43, 44, 45, 46, 47]),
    ],
)
def test_the_first_the_guilty_and_the_last_tensors_are_shown(
    count: int, guilty: int | None, expected: list[int | str]
) -> None:
    """A dozen lines at most, those that count what is left out among them."""
    points = [depth_point(at, 1.0, guilty=at == guilty) for at in range(count)]
    shown = shown_points(points)
    assert [p.position if isinstance(p, DepthPoint) else str(p) for p in shown] == expected
    assert len(shown) <= 12


@pytest.mark.parametrize("guilty", range(48))
def test_none_is_lost_between_the_shown_ones(guilty: int) -> None:
    """Shown and counted make all; the guilty one and both ends are always shown."""
    points = [depth_point(at, 1.0, guilty=at == guilty) for at in range(48)]
    shown = shown_points(points)
    assert sum(1 if isinstance(p, DepthPoint) else p for p in shown) == 48
    assert {points[0], points[guilty], points[47]} <= {
        p for p in shown if isinstance(p, DepthPoint)
    }
    assert len(shown) <= 12


@pytest.mark.parametrize(
    ("noise", "blocks"),
    [
        (None, ""), (0.0, ""), (math.nan, ""), (-1.0, ""), (0.01, ""), (0.1, ""), (0.4, "▌"),
        (1.0, "█"), (64.0, "███"), (4100.0, "████▌"), (1e12, "█" * 13), (1e300, "█" * 16),
        (math.inf, "█" * 16),
    ],
)  # fmt: skip
def test_a_bar_counts_powers_of_ten(noise: float | None, blocks: str) -> None:
    """From a tenth of the noise floor on; it ends somewhere."""
    assert bar(noise) == blocks


def test_a_deviation_is_a_number_or_equal() -> None:
    """A hyphen for what is no number."""
    assert deviation(depth_point(0, 0.0)) == "equal"
    assert deviation(depth_point(0, 100.0)) == "0.0001"
    assert deviation(depth_point(0, 1.0, max_abs=None)) == "-"
