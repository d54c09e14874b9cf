"""The noise floor as a limit: formulas by hand, planted faults, and what must not matter."""

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.compare import metrics
from ci_parity.compare.noise import (
    ELEMENT_LIMIT,
    GRAIN_ULP,
    GROUP_LIMIT,
    STEP_LIMIT,
    NoiseFloor,
    NoiseScore,
)
from ci_parity.records.noise import OutputFloor, group_axis
from ci_parity.records.values import element_type

ROUNDOFF = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip


def floor_of(
    folder: Path, baseline: Any, spread: Any, *, rounding: bool = False, step: float = 0.0,
    peaks: tuple[float, ...] | None = None,
) -> NoiseFloor:  # fmt: skip
    """Return the floor of an output with these spreads; peaks are 3 spreads if not given."""
    spreads = np.broadcast_to(np.asarray(spread, "<f4"), baseline.shape)
    spreads.tofile(folder / "floor.f32")
    axis = group_axis(baseline.shape)
    if peaks is None:
        groups = baseline.shape[axis] if axis is not None else 1
        peaks = (3 * float(spreads.max(initial=0)),) * groups
    record = OutputFloor(output="y", shape=baseline.shape, file="floor.f32", axis=axis, peaks=peaks)
    return NoiseFloor(
        baseline, element_type(baseline), record, folder, rounding=rounding, step=step
    )


def exact(baseline: Any) -> NoiseFloor:
    """Return the floor of an output on whose way nothing rounds."""
    return NoiseFloor(baseline, element_type(baseline), None, Path(), rounding=False)


def scored(floor: NoiseFloor, candidate: Any) -> NoiseScore:
    """Return the score of a candidate as it is judged."""
    measured = metrics.float_metrics(floor.baseline, candidate, floor)
    return floor.score(candidate, measured.excess)


def normal(*shape: int, seed: int = 1, scale: float = 1.0) -> Any:
    """Return normally distributed float32 numbers."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return values.astype(np.float32)


def limit_of(count: int, limit: float = GROUP_LIMIT) -> float:
    """Return the limit of a group of so many elements."""
    return limit * math.sqrt(1 + 3 / count)


# Formulas.


def test_a_group_is_judged_by_its_root_mean_square(tmp_path: Path) -> None:
    """Against that of the spreads, and the grain of its largest magnitude."""
    baseline = np.array([0.5, -2.0, 1.0, 0.25], np.float32)
    spread = np.array([1e-5, 2e-5, 0, 3e-5], np.float32)
    difference = np.array([2e-5, -1e-5, 4e-5, 0], np.float32)
    found = scored(floor_of(tmp_path, baseline, spread), baseline + difference)
    grain = GRAIN_ULP * 2.0**-24 * 2.0
    floor = math.sqrt(float((spread.astype(float) ** 2).mean()) + grain**2)
    moved = (baseline + difference).astype(float) - baseline.astype(float)
    assert found.group == pytest.approx(math.sqrt((moved**2).mean()) / floor, rel=1e-6)
    assert found.group_limit == pytest.approx(limit_of(4))
    assert found.noise == pytest.approx(math.sqrt((spread.astype(float) ** 2).mean()) / 2.0)
    blank = math.sqrt((baseline.astype(float) ** 2).mean()) / floor / limit_of(4)
    assert found.blank == pytest.approx(blank)


def test_an_element_is_judged_by_its_own_floor_and_its_groups(tmp_path: Path) -> None:
    """Half of each, in squares, 64 times, beside the grain."""
    baseline = normal(50)
    spread = np.abs(normal(50, seed=2)) * np.float32(1e-5)
    allowed = floor_of(tmp_path, baseline, spread, peaks=(0.0,)).at(0, 50)
    own, group = spread.astype(float) ** 2, (spread.astype(float) ** 2).mean()
    grain = GRAIN_ULP * 2.0**-24 * np.abs(baseline).max()
    expected = ELEMENT_LIMIT * np.sqrt(0.5 * own + 0.5 * group + float(grain) ** 2)
    np.testing.assert_allclose(allowed, expected, rtol=1e-6)


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 40), 1), ((40, 3), 1), ((2, 40, 3), 2)])
def test_every_element_has_the_floor_of_its_group(
    shape: tuple[int, ...], axis: int, tmp_path: Path
) -> None:
    """Wherever the elements of a channel or column stand in memory."""
    place = [3 if index == axis else 1 for index in range(len(shape))]
    spread = np.broadcast_to(np.float32([1, 2, 3]).reshape(place), shape)  # type: ignore[arg-type]
    floor = floor_of(tmp_path, np.ones(shape, np.float32), spread, peaks=(0.0,) * 3)
    np.testing.assert_allclose(floor.at(0, spread.size), ELEMENT_LIMIT * spread.ravel(), rtol=1e-6)


def test_what_was_seen_is_allowed(tmp_path: Path) -> None:
    """An element may differ by the largest deviation of its group over the seeds."""
    baseline = normal(50)
    spread = np.zeros(50, np.float32)
    allowed = floor_of(tmp_path, baseline, spread, peaks=(0.125,)).at(0, 50)
    assert allowed.tolist() == [0.125] * 50


@pytest.mark.parametrize("start", [0, 1, 7, 99])
@pytest.mark.parametrize("shape", [(100,), (25, 4), (2, 3, 40)])
def test_positions_are_those_in_c_order(shape: tuple[int, ...], start: int, tmp_path: Path) -> None:
    """Any part of the allowance is that part of the whole."""
    baseline = normal(*shape) * np.geomspace(0.1, 10, shape[-1], dtype=np.float32)
    spread = np.abs(normal(*shape, seed=2)) * np.float32(1e-5)
    floor = floor_of(tmp_path, baseline, spread)
    whole = floor.at(0, baseline.size)
    assert whole.shape == (baseline.size,)
    count = min(37, baseline.size - start)
    np.testing.assert_array_equal(floor.at(start, count), whole[start : start + count])


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_the_grain_is_that_of_the_type(dtype: str) -> None:
    """Three units in the last place of the scale; for one element no more than for the whole."""
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    baseline = np.linspace(0, 4, 200).astype(kind)
    floor = exact(baseline)
    unit = GRAIN_ULP * ROUNDOFF[dtype] * 4
    assert floor.grain == pytest.approx(unit)
    element = GROUP_LIMIT * unit if unit > 1e-3 else ELEMENT_LIMIT * unit
    assert floor.at(0, 200) == pytest.approx(element)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_narrow_types_have_no_floor(dtype: str) -> None:
    """Three units in the last place of eight-bit floats are more than a third of their scale."""
    baseline = np.ones(8, getattr(ml_dtypes, dtype))
    with pytest.raises(EvidenceError, match="too few numbers for a noise floor"):
        exact(baseline)


def test_a_graph_that_rounds_to_steps_has_its_own_limit(tmp_path: Path) -> None:
    """Its noise is larger than any runtime's, so that less of it is allowed."""
    baseline = normal(300)
    smooth = floor_of(tmp_path, baseline, 1e-3)
    steps = floor_of(tmp_path, baseline, 1e-3, rounding=True)
    assert scored(smooth, baseline).group_limit == pytest.approx(limit_of(300))
    assert scored(steps, baseline).group_limit == pytest.approx(limit_of(300, STEP_LIMIT))


def test_one_step_of_the_output_is_no_evidence(tmp_path: Path) -> None:
    """Two elements may be one away, one more than that or two steps is a fault."""
    step = 0.05
    baseline = (np.round(normal(400) / step) * step).astype(np.float32)
    floor = floor_of(tmp_path, baseline, 0.0, rounding=True, step=step)

    def off(*steps: int) -> bool:
        candidate = baseline.copy()
        candidate[: len(steps)] += np.float32(step) * np.array(steps, np.float32)
        return scored(floor, candidate).used > 1

    assert not off(1)
    assert not off(1, -1)
    assert off(1, -1, 1)
    assert off(2)
    without = floor_of(tmp_path, baseline, 0.0, rounding=True)
    assert scored(without, baseline + np.float32(step) * (np.arange(400) == 3)).used > 1


@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_few_elements_have_a_wider_limit(count: int, tmp_path: Path) -> None:
    """Their floor is itself an estimate."""
    baseline = np.ones(count, np.float32)
    found = scored(floor_of(tmp_path, baseline, 1e-6), baseline)
    assert found.group_limit == pytest.approx(limit_of(count))


def test_limits_are_sharp(tmp_path: Path) -> None:
    """A little less than the limit passes, a little more fails, in both questions."""
    baseline = np.ones(100, np.float64)
    floor = floor_of(tmp_path, baseline, 1e-3, peaks=(0.0,))
    wide, one = limit_of(100) * 1e-3, np.arange(100) == 42
    assert (
        scored(floor, baseline + 0.999 * wide).used
        < 1
        < scored(floor, baseline + 1.001 * wide).used
    )
    few = floor_of(tmp_path, np.ones(10**5), 1e-3, peaks=(0.0,))
    spike = np.arange(10**5) == 42
    edge = ELEMENT_LIMIT * 1e-3
    assert scored(few, np.ones(10**5) + 0.999 * edge * spike).used < 1
    assert scored(few, np.ones(10**5) + 1.001 * edge * spike).used > 1
    assert scored(floor, baseline + one * 0.0).used == 0


# Faults.


def test_a_single_fault_fails_though_the_whole_hardly_moves(tmp_path: Path) -> None:
    """Among a million elements."""
    baseline = normal(1, 10**6)
    floor = floor_of(tmp_path, baseline, 1e-6)
    candidate = baseline.copy()
    candidate[0, 777_777] += np.float32(1e-3)
    found = scored(floor, candidate)
    assert found.group < found.group_limit
    assert found.element > found.element_limit
    assert found.used > 1


def test_a_small_shift_of_everything_fails_though_no_element_does(tmp_path: Path) -> None:
    """Five floors each: far below what one element may differ by."""
    baseline = normal(1000)
    floor = floor_of(tmp_path, baseline, 1e-5)
    found = scored(floor, baseline + np.float32(5e-5))
    assert found.element < found.element_limit
    assert found.group > found.group_limit


@pytest.mark.parametrize(("shape", "channel"), [((1, 4, 200), 1), ((300, 4), 1), ((2, 50, 4), 2)])
def test_a_group_is_judged_on_its_own_scale(
    shape: tuple[int, ...], channel: int, tmp_path: Path
) -> None:
    """Scores beside box coordinates, as channels or as columns of packed detections."""
    scales = np.array([640, 640, 1, 0.01], np.float32)
    spread = 1e-6 * scales
    place = [1] * len(shape)
    place[channel] = 4
    baseline = normal(*shape) * scales.reshape(place)
    floor = floor_of(tmp_path, baseline, np.broadcast_to(spread.reshape(place), shape))
    assert floor.axis == channel
    at = [slice(None)] * len(shape)
    for index in range(4):
        candidate = baseline.copy()
        at[channel] = slice(index, index + 1)
        candidate[tuple(at)] += np.float32(3e-5) * scales[index]
        assert scored(floor, candidate).used > 1, index
    assert scored(floor, baseline + normal(*shape, seed=3) * spread.reshape(place)).used < 0.5


def test_what_is_far_below_the_rest_has_a_least_scale() -> None:
    """A dead channel is not judged in units of its own noise."""
    baseline = np.stack([normal(1, 50), np.full((1, 50), 1e-30, np.float32)], axis=1)
    floor = exact(baseline)
    assert floor.scales[1] == pytest.approx(1e-4 * floor.scales[0])


def test_a_nan_or_infinity_is_no_number_to_score(tmp_path: Path) -> None:
    """`compare.tolerance` fails it; the others are scored as if it were not there."""
    baseline = normal(200)
    floor = floor_of(tmp_path, baseline, 1e-6)
    candidate = baseline + np.float32(1e-6)
    plain = scored(floor, candidate)
    candidate[17] = np.nan
    assert scored(floor, candidate).group == pytest.approx(plain.group, rel=0.02)
    baseline = baseline.copy()
    baseline[3], candidate[3] = np.inf, np.inf
    assert math.isfinite(scored(floor_of(tmp_path, baseline, 1e-6), candidate).used)


# Sentinels.


@pytest.mark.parametrize("sentinels", [[-1e9], [-1e9, 3e38], [1e5, 1e9, -1e13], [np.inf, -np.inf]])
def test_sentinels_set_no_scale(sentinels: list[float], tmp_path: Path) -> None:
    """A logit that is wrong fails beside the mask as it does without it."""
    baseline = np.concatenate([normal(500), np.float32(sentinels)])  # type: ignore[arg-type]
    floor = floor_of(tmp_path, baseline, 1e-6)
    assert floor.scales[0] == pytest.approx(np.abs(baseline[:500]).max())
    candidate = baseline.copy()
    candidate[7] += np.float32(0.01)
    assert scored(floor, candidate).used > 1


def test_a_sentinel_is_judged_by_its_own_size(tmp_path: Path) -> None:
    """Its last digits may differ, and no more."""
    baseline = np.append(normal(500), np.float32(-1e9))
    floor = floor_of(tmp_path, baseline, 1e-6, peaks=(5e8,))
    near, far = baseline.copy(), baseline.copy()
    near[-1] += 64
    far[-1] = -9e8
    assert scored(floor, near).used < 1
    assert scored(floor, far).used > 1


def test_what_a_sentinel_may_differ_by_is_its_own(tmp_path: Path) -> None:
    """Its spread and its grain, not those of its group."""
    baseline = np.append(normal(500), np.float32(-1e9))
    spread = np.append(np.full(500, 5e3), 1e3).astype(np.float32)
    allowed = floor_of(tmp_path, baseline, spread).at(500, 1)
    grain = GRAIN_ULP * 2.0**-24 * 1e9
    assert allowed[0] == pytest.approx(ELEMENT_LIMIT * math.hypot(1e3, grain), rel=1e-6)


def test_an_output_of_sentinels_alone_is_judged_element_by_element(tmp_path: Path) -> None:
    """There is no group; a blank output would not pass, since every element would fail."""
    baseline = np.full(30, -1e9, np.float32)
    found = scored(floor_of(tmp_path, baseline, 0.0), baseline + np.float32(64))
    assert (found.group, found.blank) == (0.0, math.inf)
    assert found.used < 1
    assert scored(floor_of(tmp_path, baseline, 0.0), np.zeros(30, np.float32)).used > 1


def test_large_numbers_in_company_are_no_sentinels(tmp_path: Path) -> None:
    """Half a million is what some outputs are."""
    baseline = np.concatenate([normal(50), normal(50) * np.float32(1e5)])
    floor = floor_of(tmp_path, baseline, 1e-3)
    assert floor.scales[0] == pytest.approx(np.abs(baseline).max())


# What cannot be judged.


def test_noise_as_large_as_the_output_tests_nothing(tmp_path: Path) -> None:
    """An output of zeros would pass, and the score says so."""
    baseline = normal(500)
    found = scored(floor_of(tmp_path, baseline, 0.3), baseline + np.float32(0.1))
    assert found.used < 1
    assert found.blank < 1
    assert scored(floor_of(tmp_path, baseline, 0.2), np.zeros(500, np.float32)).blank > 1


def test_zeros_that_rounding_alone_makes_something_test_nothing(tmp_path: Path) -> None:
    """There is no scale to relate the noise to."""
    baseline = np.zeros(100, np.float32)
    found = scored(floor_of(tmp_path, baseline, 1e20), np.full(100, 1e19, np.float32))
    assert (found.noise, found.blank) == (0.0, 0.0)


def test_an_empty_output_has_nothing_to_score(tmp_path: Path) -> None:
    """And nothing to fail."""
    empty = np.zeros((0, 5), np.float32)
    assert scored(floor_of(tmp_path, empty, 0.0), empty).used == 0
    assert scored(exact(empty), empty).used == 0


# An exact graph.


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_exact_graph_allows_no_more_than_the_grain(dtype: Any) -> None:
    """Its floor is 0; a difference of some units in the last place is not one of meaning."""
    baseline = np.linspace(1, 2, 300).astype(dtype)
    one = float(np.finfo(dtype).eps)
    assert scored(exact(baseline), baseline).used == 0
    assert scored(exact(baseline), (baseline + one).astype(dtype)).used < 1
    assert scored(exact(baseline), (baseline + 40 * one).astype(dtype)).used > 1


def test_of_zeros_an_exact_graph_makes_zeros() -> None:
    """The smallest difference fails."""
    assert scored(exact(np.zeros(9, np.float32)), np.full(9, 1e-30, np.float32)).used > 1


# Files that hold no floor.


@pytest.mark.parametrize(
    ("shape", "size", "peaks", "fill"),
    [
        ((10,), 9, (1.0,), 0.0), ((10,), 11, (1.0,), 0.0), ((5, 2), 10, (1.0,), 0.0),
        ((10,), 10, (), 0.0), ((10,), 10, (1.0, 1.0), 0.0), ((10,), 10, (-1.0,), 0.0),
        ((10,), 10, (math.nan,), 0.0), ((10,), 10, (math.inf,), 0.0), ((10,), 10, (1.0,), -1.0),
        ((10,), 10, (1.0,), math.nan), ((10,), 10, (1.0,), math.inf),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_such_floor_is_refused(
    shape: tuple[int, ...], size: int, peaks: tuple[float, ...], fill: float, tmp_path: Path
) -> None:
    """A floor that is broken must not let everything pass."""
    np.full(size, fill, "<f4").tofile(tmp_path / "f")
    record = OutputFloor(output="y", shape=shape, file="f", axis=None, peaks=peaks)
    with pytest.raises(EvidenceError):
        NoiseFloor(np.ones(10, np.float32), "float32", record, tmp_path, rounding=False)


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    """By the error of the file system."""
    record = OutputFloor(output="y", shape=(1,), file="f", axis=None, peaks=(0.0,))
    with pytest.raises(FileNotFoundError):
        NoiseFloor(np.ones(1, np.float32), "float32", record, tmp_path, rounding=False)


# Properties.

SHAPES = [(40,), (7, 3), (20, 4), (1, 3, 24), (2, 2, 5, 5)]


@settings(max_examples=60, deadline=None)
@given(
    shape=st.sampled_from(SHAPES), seed=st.integers(0, 10**6), part=st.floats(0.01, 1),
    size=st.floats(1e-7, 10), growth=st.floats(1, 100),
)  # fmt: skip
def test_more_difference_never_scores_less(
    shape: tuple[int, ...], seed: int, part: float, size: float, growth: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Wherever it stands and however large it is."""
    folder = tmp_path_factory.getbasetemp()
    rng = np.random.default_rng(seed)
    baseline = rng.standard_normal(shape)
    floor = floor_of(folder, baseline, np.abs(rng.standard_normal(shape)) * 1e-5)
    moved = rng.standard_normal(shape) * size * (rng.uniform(size=shape) < part)
    less, more = (scored(floor, baseline + moved * factor) for factor in (1, growth))
    assert more.used >= less.used * (1 - 1e-9)
    assert more.group / more.group_limit >= less.group / less.group_limit * (1 - 1e-9)
    assert more.element >= less.element * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 10**6), power=st.integers(-30, 9))
def test_a_unit_changes_nothing(
    shape: tuple[int, ...], seed: int, power: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Everything times a power of two scores the same, as long as nothing becomes a sentinel."""
    folder = tmp_path_factory.getbasetemp()
    rng = np.random.default_rng(seed)
    factor = np.float32(2.0**power)
    baseline, moved = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    spread = (np.abs(rng.standard_normal(shape)) * 1e-5).astype(np.float32)
    candidate = baseline + moved * np.float32(1e-4)
    before = scored(floor_of(folder, baseline, spread), candidate)
    after = scored(floor_of(folder, baseline * factor, spread * factor), candidate * factor)
    for name in ("group", "group_limit", "element", "noise", "blank"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 50))
def test_the_order_of_rows_changes_nothing(
    seed: int, rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Columns are groups, rows are not."""
    folder = tmp_path_factory.getbasetemp()
    rng = np.random.default_rng(seed)
    baseline = rng.standard_normal((rows, 5)) * [1, 10, 100, 1e-3, 1]
    spread = (np.abs(rng.standard_normal((rows, 5))) * 1e-5).astype(np.float32)
    candidate = baseline + rng.standard_normal((rows, 5)) * 1e-4
    order = rng.permutation(rows)
    before = scored(floor_of(folder, baseline, spread), candidate)
    after = scored(floor_of(folder, baseline[order], spread[order]), candidate[order])
    assert after.used == pytest.approx(before.used, rel=1e-9)


@pytest.mark.parametrize(
    "shape", [(300_000,), (3, 100_001), (2, 3, 70_000), (70_000, 3), (1, 70_000, 16)]
)
def test_large_outputs_are_scored_in_pieces(shape: tuple[int, ...], tmp_path: Path) -> None:
    """As they would be at once."""
    baseline = normal(*shape).astype(np.float64)
    spread = np.abs(normal(*shape, seed=2)) * np.float32(1e-5)
    candidate = baseline + normal(*shape, seed=3) * 2e-5
    floor = floor_of(tmp_path, baseline, spread)
    axis = group_axis(shape)
    others = tuple(i for i in range(len(shape)) if i != axis)

    def mean(squares: Any) -> Any:
        return squares.mean() if axis is None else squares.mean(axis=others)

    scale = np.abs(baseline).max() if axis is None else np.abs(baseline).max(axis=others)
    grain = GRAIN_ULP * 2.0**-53 * scale
    floors = np.sqrt(mean(spread.astype(np.float64) ** 2) + grain**2)
    expected = np.sqrt(mean((candidate - baseline) ** 2)) / floors
    assert scored(floor, candidate).group == pytest.approx(np.max(expected), rel=1e-6)


@pytest.mark.parametrize("shape", [(4096,), (3, 5, 512), (640, 8), (2, 3, 20, 30)])
def test_what_a_sample_shows_to_be_exceeded_fails(shape: tuple[int, ...], tmp_path: Path) -> None:
    """And what passes is never called exceeded; in between a sample says nothing."""
    baseline = normal(*shape).astype(np.float32)
    floor = floor_of(tmp_path, baseline, np.full(shape, 1e-6, np.float32))
    shown = 0
    for exponent in np.linspace(-8, -1, 29):
        offset = normal(*shape, seed=3, scale=10.0**exponent).astype(np.float32)
        candidate = baseline + offset
        passes = scored(floor, candidate).used <= 1
        exceeded = floor.surely_exceeded(candidate)
        assert not (passes and exceeded)
        shown += exceeded
    assert shown >= 12
    assert not floor.surely_exceeded(baseline)
