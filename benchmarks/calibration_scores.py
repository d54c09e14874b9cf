"""One comparison of the calibration study, judged by the product and by its peers.

The rule is the product's: `compare.observations` gives the verdict, `compare.noise` the scores, at
the number of seeds and the grain in force and at others.
"""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ci_parity.base import process
from ci_parity.compare import noise
from ci_parity.compare.metrics import float_metrics
from ci_parity.compare.observations import compare_observations
from ci_parity.compare.tolerance import Calibrated, Limits, Tolerated
from ci_parity.config.load import policy
from ci_parity.records.arrays import flatten
from ci_parity.records.finding import Subject
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.observation import CaseRun, Observation, RunStatus
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import element_type, read_value

POLYGRAPHY = "polygraphy==0.53.6"
POLICY = policy({"tolerance": "calibrated"})
LADDER = policy({"tolerance": "ladder"})
Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How floors are measured and bounded: perturbed runs, and the least floor in ULP."""

    seeds: int
    grain: float

    def __str__(self) -> str:
        return f"{self.seeds} seeds, {self.grain:g} ULP"


IN_FORCE = Setting(seeds=8, grain=noise.GRAIN_ULP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The worst of all outputs, in parts of the limits; `inf` where a NaN or infinity was lost.

    `noise` is the largest floor of those that differ, relative to its output's scale.
    """

    whole: float = 0.0
    element: float = 0.0
    noise: float = 0.0

    @property
    def used(self) -> float:
        """The part of the stricter limit."""
        return max(self.whole, self.element)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides compared over all cases.

    `kind` is `harmless`, `noise` or a fault; `verdict` is the product's, `scores` by setting;
    `ladder`, `allclose` and `polygraphy` say whether these flag it, None where they were not asked.
    `to_scale` is the largest difference relative to its output's scale, `fixed` the one number for
    rtol and atol that would just have passed it.
    """

    subject: str
    kind: str
    what: str
    verdict: str
    differs: bool
    to_scale: float
    scores: Mapping[str, Score]
    ladder: bool | None = None
    allclose: bool | None = None
    polygraphy: bool | None = None
    fixed: float | None = None
    note: str = ""

    @property
    def score(self) -> Score:
        """The score at the setting in force."""
        return self.scores.get(str(IN_FORCE), Score())

    @property
    def flagged(self) -> bool:
        """Whether the product fails it."""
        return self.verdict == Outcome.FAIL.value


class Judge:
    """Judges comparisons with one set of floors at each setting."""

    def __init__(self, floors: Mapping[Setting, NoiseFloors], peers: "Peers") -> None:
        self.floors = floors
        self.peers = peers
        self._limits: dict[tuple[str, str, str, Setting], Tolerated] = {}

    def compare(
        self, subject: str, kind: str, what: str, baseline: Observation, candidate: Observation,
    ) -> Comparison:  # fmt: skip
        """Judge a candidate against a baseline over the baseline's cases, by all and sundry."""
        names = [run.case for run in baseline.cases]
        floors = self.floors.get(IN_FORCE)
        found = compare_observations(Subject(), baseline, candidate, names, POLICY, floors)
        serious = [finding for finding in found.findings if not finding.advisory]
        failed = [finding for finding in serious if finding.outcome is not Outcome.PASS]
        settings = list(self.floors) if kind != "noise" else [IN_FORCE, *_by_seeds(self.floors)]
        scores = {str(one): self._score(baseline, candidate, one) for one in settings}
        peers = self.peers.flags(baseline, candidate) if kind != "noise" else (None, None)
        return Comparison(
            subject=subject, kind=kind, what=what,
            verdict=Outcome.worst([finding.outcome for finding in serious]).value,
            differs=bool(failed) or any(output.mismatched for output in found.outputs),
            to_scale=max((output.rel_to_scale or 0.0 for output in found.outputs), default=0.0),
            scores=scores, ladder=_ladder(names, baseline, candidate),
            allclose=peers[0], polygraphy=peers[1],
            fixed=_fixed(baseline, candidate),
            note=f"{failed[0].id}: {failed[0].evidence[:300]}" if failed else "",
        )  # fmt: skip

    def _score(self, baseline: Observation, candidate: Observation, setting: Setting) -> Score:
        whole = element = loudest = 0.0
        for case, path, left, right in _pairs(baseline, candidate):
            if element_type(left) != element_type(right) or left.shape != right.shape:
                continue
            if not left.size or "float" not in element_type(left) or np.array_equal(left, right):
                continue
            tolerated = self._tolerated(baseline, case, path, left, setting)
            if not isinstance(tolerated, Calibrated):
                continue
            measured = float_metrics(left, right, tolerated.allowance)
            score = tolerated.floor.score(right, measured.excess)
            lost = np.inf if measured.nonfinite else 0.0
            whole = max(whole, lost, score.group / score.group_limit)
            element = max(element, score.element / score.element_limit)
            loudest = max(loudest, score.noise)
        return Score(whole=whole, element=element, noise=loudest)

    def _tolerated(
        self, baseline: Observation, case: str, path: str, left: Any,  # noqa: ANN401 - an array
        setting: Setting,
    ) -> Tolerated:  # fmt: skip
        """Return the tolerance of an array, read once for each baseline."""
        key = (baseline.folder, case, path, setting)
        if key not in self._limits:
            limits = Limits(policy=POLICY, floors=self.floors[setting])
            kept, noise.GRAIN_ULP = noise.GRAIN_ULP, setting.grain
            try:
                self._limits[key] = limits.of(case, path.partition("[")[0], path, left)
            finally:
                noise.GRAIN_ULP = kept
        return self._limits[key]


def _fixed(baseline: Observation, candidate: Observation) -> float:
    """Return the smallest number that passes as rtol and atol of floats, infinite where none is."""
    needed = 0.0
    with np.errstate(all="ignore"):
        for _, _, left, right in _pairs(baseline, candidate):
            if left.shape != right.shape or left.dtype.kind not in "fc" or not left.size:
                continue
            same = (left == right) | (np.isnan(left) & np.isnan(right))
            wide = left.astype(np.float64), right.astype(np.float64)
            ratios = np.abs(wide[0] - wide[1]) / (1 + np.abs(wide[0]))
            found = np.where(same, 0.0, np.nan_to_num(ratios, nan=np.inf, posinf=np.inf))
            needed = max(needed, float(found.max()))
    return needed


def _ladder(names: Sequence[str], baseline: Observation, candidate: Observation) -> bool:
    """Say whether the product fails a candidate by the fixed ladder."""
    found = compare_observations(Subject(), baseline, candidate, names, LADDER)
    return any(f.outcome is Outcome.FAIL for f in found.findings if not f.advisory)


def _by_seeds(settings: Mapping[Setting, NoiseFloors]) -> list[Setting]:
    return [one for one in settings if one.grain == IN_FORCE.grain and one != IN_FORCE]


def _pairs(left: Observation, right: Observation) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield case, path and both arrays of everything that both sides produced."""
    others = {run.case: run for run in right.cases if run.status is RunStatus.OK}
    for run in left.cases:
        if run.status is RunStatus.OK and run.case in others:
            before = arrays(run, Path(left.folder))
            after = arrays(others[run.case], Path(right.folder))
            for path in before.keys() & after.keys():
                yield run.case, path, before[path], after[path]


def arrays(run: CaseRun, folder: Path) -> Arrays:
    """Return the arrays among the outputs of a case by path."""
    found: dict[str, Any] = {}
    for record in run.outputs:
        found.update(flatten(record.name, read_value(record, folder)))
    return found


class Peers:
    """`numpy.allclose` and Polygraphy, both at their defaults, on the same arrays."""

    def __init__(self, folder: Path) -> None:
        """Install Polygraphy into a folder of this run."""
        import uv

        place = folder / "polygraphy"
        words = ["pip", "install", "--no-deps", "--target", str(place), POLYGRAPHY]
        environment = process.packaging_environment()
        command = [uv.find_uv_bin(), "--quiet", *words]
        done = process.run(command, env=environment, timeout_s=300, cwd=folder)
        if done.returncode:
            sys.exit(f"cannot install {POLYGRAPHY}: {done.last_words}")
        sys.path.append(str(place))

    def flags(self, baseline: Observation, candidate: Observation) -> tuple[bool, bool]:
        """Say whether `numpy.allclose` and whether Polygraphy calls the two sides different.

        A side that does not load or run is seen by both: there is nothing to compare then.
        """
        others = {run.case: run for run in candidate.cases}
        found = [False, False]
        if baseline.load is not RunStatus.OK or candidate.load is not RunStatus.OK:
            return True, True
        for run in baseline.cases:
            other = others.get(run.case)
            if other is None or {run.status, other.status} != {RunStatus.OK}:
                return True, True
            before = arrays(run, Path(baseline.folder))
            after = arrays(other, Path(candidate.folder))
            found[0] |= not _all_close(before, after)
            found[1] |= not _polygraphy(before, after)
        return found[0], found[1]


def _all_close(before: Arrays, after: Arrays) -> bool:
    """Compare as `numpy.allclose(candidate, baseline)` does; text must be equal."""
    if before.keys() != after.keys():
        return False
    for name, left in before.items():
        right = after[name]
        if left.shape != right.shape:
            return False
        same = np.array_equal if left.dtype.kind in "OUS" else np.allclose
        with np.errstate(all="ignore"):
            if not same(right, left):
                return False
    return True


def _polygraphy(before: Arrays, after: Arrays) -> bool:
    """Compare as Polygraphy's command line does unless told otherwise."""
    from polygraphy.comparator import CompareFunc, IterationResult
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            found = CompareFunc.simple()(
                *(IterationResult(outputs=dict(side)) for side in (before, after))
            )
        return before.keys() == after.keys() and all(bool(result) for result in found.values())
    except (Exception, SystemExit):  # noqa: BLE001 - whatever a peer dies of, it did not pass
        return False
