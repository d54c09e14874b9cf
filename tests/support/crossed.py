"""Boundaries between observations that are numbers: what a system computes is one float a case."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.config.load import policy
from ci_parity.config.systems import Target
from ci_parity.records.observation import CaseRun, Observation, RunStatus
from ci_parity.run.execute import Job
from ci_parity.run.runtime import Launch
from ci_parity.stages.suite import Neighbour, Pair, PairRun
from tests.support.observations import case_run, failed_run, floats, observation, references

Value = float | RunStatus
CHAIN = ("exported", "simplified", "int8")
LIMIT_ONE = policy({"tolerance": {"rtol": 0, "atol": 1.0}, "latency": {"measure": False}})
"""Differences up to one pass."""


def job(name: str, target: str = "cpu") -> Job:
    """Return a job that is never started."""
    launch = Launch(argv=(), label=name, environment="")
    return Job(launch=launch, model=Path(f"{name}.onnx"), target=Target(name=target), timeout_s=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What every system of a chain computes, by target and variant; cases are `c`, or by name.

    `old` are the baselines, `source` the references. Each variant of `new` was made from the one
    before it there, in the order of `CHAIN`; the first target of `new` is the reference.
    """

    folder: Path
    new: Mapping[tuple[str, str], Value | Mapping[str, Value]]
    old: Mapping[tuple[str, str], Value | Mapping[str, Value]] = field(default_factory=dict)
    source: Value | Mapping[str, Value] | None = None

    def runs(self) -> list[PairRun]:
        """Return the runs of all pairs of `new`."""
        observed = {key: self._observed("new", key, value) for key, value in self.new.items()}
        before = {key: self._observed("old", key, value) for key, value in self.old.items()}
        stored = None
        if self.source is not None:
            stored = references(self.folder / "stored", *self._cases("stored", self.source))
        return [self._run(key, observed, before, stored) for key in self.new]

    def _run(
        self, key: tuple[str, str], observed: Mapping[tuple[str, str], Observation],
        before: Mapping[tuple[str, str], Observation], stored: Observation | None,
    ) -> PairRun:  # fmt: skip
        target, variant = key
        reference = next(iter(self.new))[0]
        chain = [name for name in CHAIN if name in {made for _, made in self.new}]
        above = tuple(reversed(chain[: chain.index(variant)]))
        near = (target, above[0]) if above and (target, above[0]) in observed else None
        there = (reference, variant) if target != reference else None
        there = there if there in observed else None
        pair = Pair(
            target=target, variant=variant, candidate=job(variant, target),
            baseline=job(f"old {variant}", target) if key in before else None,
            made_from=Neighbour(name=near[1], job=job(near[1], target)) if near else None,
            reference=Neighbour(name=reference, job=job(variant, reference)) if there else None,
            ancestors=above, reference_target=reference,
        )  # fmt: skip
        return PairRun(
            pair=pair, expected=self._names(), references=stored, baseline=before.get(key),
            candidate=observed[key], latency=None,
            made_from=observed[near] if near else None,
            reference=observed[there] if there else None,
        )  # fmt: skip

    def _names(self) -> tuple[str, ...]:
        value = next(iter(self.new.values()))
        return tuple(value) if isinstance(value, Mapping) else ("c",)

    def _observed(
        self, side: str, key: tuple[str, str], value: Value | Mapping[str, Value]
    ) -> Observation:
        name = f"{side}-{key[0]}-{key[1]}"
        if value is RunStatus.NOT_RUN:
            return observation(self.folder / name, load=RunStatus.ERROR, load_message="no such op")
        return observation(self.folder / name, *self._cases(name, value))

    def _cases(self, folder: str, value: Value | Mapping[str, Value]) -> list[CaseRun]:
        values = value if isinstance(value, Mapping) else {"c": value}
        return [
            failed_run(case, one) if isinstance(one, RunStatus)
            else case_run(self.folder / folder, case, {"y": floats(one)})
            for case, one in values.items()
        ]  # fmt: skip
