"""The parts of a fixture set that several runners took, put together into one kept run.

The cases of a system are joined in the order of the set, whoever ran them; everything else of two
parts must be the same, or they are no parts of one run. Files of the parts get names of their own
in one folder. What a part lacks is lacking afterwards too: the judgement finds it.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.records.kept import KeptFloors, KeptPair, KeptRun, KeptSystem
from ci_parity.records.noise import NoiseFloors
from ci_parity.records.observation import CaseRun, InputSet, Observation, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.stages.kept_runs import is_plain

_Key = tuple[str, str]


def merge(
    parts: Sequence[KeptRun], inputs: InputSet, references: Observation | None, scratch: Path
) -> KeptRun:
    """Return one kept run of all parts, over the whole set.

    Args:
        parts: of one or more targets; of one target, in the order of the parts.
        inputs: the whole set, as it is here.
        references: the stored ones, as they are here.
        scratch: where files of several parts are put together.

    Raises:
        EvidenceError: two parts of a target are not of the same systems.
    """
    by_pair: dict[_Key, list[tuple[KeptRun, KeptPair]]] = {}
    for part in parts:
        for pair in part.pairs:
            by_pair.setdefault((pair.target, pair.variant), []).append((part, pair))
    joined = _Joined(order=tuple(case.case for case in inputs.cases), scratch=scratch)
    stored = joined.number(references) if references is not None else None
    pairs = [joined.pair(found, stored) for found in by_pair.values()]
    return replace(
        parts[0],
        inputs=inputs,
        derived=tuple(dict.fromkeys(item for part in parts for item in part.derived)),
        observations=tuple(joined.observations),
        pairs=tuple(pairs),
        floors=tuple(joined.floors(parts)),
        files=(),
    )


@dataclass(slots=True)
class _Joined:
    """Observations of several parts, each joined one numbered."""

    order: tuple[str, ...]
    scratch: Path
    observations: list[Observation] = field(default_factory=list)
    known: dict[tuple[tuple[int, int], ...], int] = field(default_factory=dict)
    folders: int = 0

    def number(self, observation: Observation) -> int:
        """Add an observation; return its number."""
        self.observations.append(observation)
        return len(self.observations) - 1

    def pair(self, found: Sequence[tuple[KeptRun, KeptPair]], stored: int | None) -> KeptPair:
        """Return one pair of all its parts; what is asked for once comes from the first.

        `stored` is the number of the stored references, where there are some.
        """
        run, first = found[0]
        for _, other in found[1:]:
            if _system_words(other) != _system_words(first):
                raise _different(first, "the parts ran different systems")
        systems = {
            name: self._system(name, found)
            for name in ("candidate", "baseline", "made_from", "reference")
        }
        candidate = systems["candidate"]
        assert candidate is not None
        derived = self._derived(run, first, self.observations[candidate.observation])
        threads = first.threads
        if threads.observation is not None:
            number = self.number(run.observations[threads.observation])
            threads = replace(threads, observation=number)
        return replace(
            first, expected=self.order, candidate=candidate, baseline=systems["baseline"],
            made_from=systems["made_from"], reference=systems["reference"], derived=derived,
            threads=threads, references=None if first.references is None else stored,
        )  # fmt: skip

    def _derived(self, run: KeptRun, pair: KeptPair, candidate: Observation) -> int | None:
        """Return the further runs of a candidate, which are read in its folder."""
        if pair.derived is None:
            return None
        side = run.observations[pair.derived]
        source, folder = Path(side.folder), Path(candidate.folder)
        if source != folder:
            cases = tuple(_moved_run(case, source, folder, "p1_") for case in side.cases)
            side = replace(side, folder=str(folder), cases=cases)
        return self.number(side)

    def _system(self, name: str, found: Sequence[tuple[KeptRun, KeptPair]]) -> KeptSystem | None:
        systems: list[KeptSystem | None] = [getattr(pair, name) for _, pair in found]
        first = systems[0]
        if first is None:
            return None
        numbers = tuple(
            (id(run), system.observation)
            for (run, _), system in zip(found, systems, strict=True)
            if system is not None
        )
        if numbers not in self.known:
            sides = [
                run.observations[number]
                for (run, _), (_, number) in zip(found, numbers, strict=True)
            ]
            self.known[numbers] = self.number(self._observation(sides, found[0][1]))
        return replace(first, observation=self.known[numbers])

    def _observation(self, sides: Sequence[Observation], pair: KeptPair) -> Observation:
        first = sides[0]
        if len(sides) == 1:
            return first
        loaded = [side for side in sides if side.load is RunStatus.OK]
        if len(set(map(_asked, sides))) > 1 or len(set(map(_said, loaded))) > 1:
            raise _different(pair, "the parts ran where runtime or providers differ")
        folder = self._folder()
        cases = [
            _moved_run(run, Path(side.folder), folder, f"p{number}_")
            for number, side in enumerate(sides, 1)
            for run in side.cases
        ]
        failed = [side for side in sides if side.load is not RunStatus.OK]
        return replace(
            failed[0] if failed else first,
            folder=str(folder),
            cases=tuple(sorted(cases, key=lambda run: self._place(run.case))),
            warnings=tuple(dict.fromkeys(line for side in sides for line in side.warnings)),
        )

    def floors(self, parts: Sequence[KeptRun]) -> list[KeptFloors]:
        """Return the noise floors of every boundary, those of its parts joined."""
        found: dict[tuple[int, str, str], list[KeptFloors]] = {}
        for part in parts:
            for one in part.floors:
                found.setdefault((one.kind, one.target, one.variant), []).append(one)
        return [replace(ones[0], floors=self._joined_floors(ones)) for ones in found.values()]

    def _joined_floors(self, ones: Sequence[KeptFloors]) -> NoiseFloors:
        every = [one.floors for one in ones]
        measured = [floors for floors in every if floors.seeds or floors.failure]
        if len(every) == 1 or not measured:
            return every[0]
        folder = self._folder()
        return replace(
            measured[0],
            folder=str(folder),
            exact=all(floors.exact for floors in measured),
            rounding=any(floors.rounding for floors in measured),
            failure=next((floors.failure for floors in measured if floors.failure), ""),
            cases=tuple(
                replace(
                    case,
                    outputs=tuple(
                        replace(o, file=_linked(o.file, Path(floors.folder), folder, f"p{number}_"))
                        for o in case.outputs
                    ),
                )
                for number, floors in enumerate(measured, 1)
                for case in floors.cases
            ),
        )

    def _folder(self) -> Path:
        self.folders += 1
        folder = self.scratch / f"joined{self.folders}"
        folder.mkdir(parents=True)
        return folder

    def _place(self, case: str) -> int:
        return self.order.index(case) if case in self.order else len(self.order)


def _system_words(pair: KeptPair) -> tuple[object, ...]:
    """Return what two parts of a pair must have in common."""
    systems = (pair.candidate, pair.baseline, pair.made_from, pair.reference)
    return (
        pair.unavailable, pair.ancestors, pair.reference_target, pair.lacks_unquantized,
        *(system and replace(system, observation=0) for system in systems),
    )  # fmt: skip


def _asked(side: Observation) -> tuple[object, ...]:
    return side.label, side.environment, side.providers_requested


def _said(side: Observation) -> tuple[object, ...]:
    """Return what a system said of itself, which one that was not loaded cannot."""
    return side.runtime, side.providers_used


def _moved_run(run: CaseRun, source: Path, folder: Path, prefix: str) -> CaseRun:
    def moved(records: Iterable[ValueRecord]) -> tuple[ValueRecord, ...]:
        return tuple(
            replace(
                record, items=moved(record.items),
                file=_linked(record.file, source, folder, prefix) if record.file else "",
            )
            for record in records
        )  # fmt: skip

    return replace(
        run, outputs=moved(run.outputs), repeats=tuple(moved(again) for again in run.repeats)
    )


def _linked(name: str, source: Path, folder: Path, prefix: str) -> str:
    """Put a file into another folder under another name; one that is missing stays so.

    A name that leads elsewhere is none of a file that was kept; whoever reads the value refuses it.
    """
    if not is_plain(name):
        return name
    target = folder / f"{prefix}{name}"
    if (source / name).is_file() and not target.exists():
        try:
            os.link(source / name, target, follow_symlinks=False)
        except OSError:
            shutil.copyfile(source / name, target, follow_symlinks=False)
    return target.name


def _different(pair: KeptPair, what: str) -> EvidenceError:
    return EvidenceError(
        what,
        where=f"{pair.target}/{pair.variant}",
        remedy="give every part a runner with the same runtime and hardware, or do not split",
    )
