"""What the operators of a model cost a machine that has measured nothing, alone and with others.

    python benchmarks/coverage_shared.py MODEL [ROUNDS]

Alone, it asks the oracles what the tests made for MODEL must give, and runs all tests on the
onnxruntime at hand. With others, a recorded run has left both in a store, a folder here, and a new
machine takes them from there. Both take turns, each round on an empty cache folder; environments
and the standard's own tests, which are written once, lie there already. The best round counts.
"""

import argparse
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import policy
from ci_parity.config.systems import Target
from ci_parity.coverage.suite import suite_cases, suite_folder
from ci_parity.records.coverage_observation import CoverageObservation
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.folder import FolderPlace
from ci_parity.run.environments import cache_folder
from ci_parity.stages.coverage.measure import AskedModel, CoverageOptions, observe_coverage
from ci_parity.stages.coverage.sharing import SharedResults

TARGET = Target(name="cpu", runtime="current")


def main() -> None:
    """Record once, then measure in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    given = parser.parse_args()
    suite_cases(cache_folder(), SilentProgress())
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        recording = shared(scratch, records=True)
        observed, _ = measured(given.model, machine(scratch, "main"), recording)
        index = recording.publish()
        alone, taken, ran = [], [], set()
        for number in range(given.rounds):
            first, seconds = measured(given.model, machine(scratch, f"alone{number}"), None)
            alone.append(seconds)
            second, seconds = measured(
                given.model, machine(scratch, f"taken{number}"), shared(scratch, index)
            )
            taken.append(seconds)
            ran.add((len(first.targets[0].measured), len(second.targets[0].measured)))
        size = sum(stored.size_bytes for stored in store(scratch).objects())
    print(f"{len(observed.targets[0].results)} tests, {size:,} bytes in the store, load {load()}")
    for name, seconds in (("alone", alone), ("with others", taken)):
        print(f"{name:12} {min(seconds):6.2f} s   of {', '.join(f'{s:.2f}' for s in seconds)}")
    print(f"tests that ran, alone and with others: {sorted(ran)}")


def machine(scratch: Path, name: str) -> Path:
    """Return the cache folder of a machine that has measured nothing."""
    cache = scratch / name
    links = {suite_folder(cache): suite_folder(cache_folder())}
    links |= {cache / part: cache_folder() / part for part in ("environments", "locks")}
    for link, place in links.items():
        place.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(place)
    return cache


def store(scratch: Path) -> CheckedStore:
    """Return the store."""
    return CheckedStore(FolderPlace(scratch / "store"))


def shared(scratch: Path, *named: str, records: bool = False) -> SharedResults:
    """Return what runs share."""
    today = datetime.now(UTC).date()
    return SharedResults(lambda: store(scratch), named, records=records, today=today)


def measured(
    model: Path, cache: Path, by: SharedResults | None
) -> tuple[CoverageObservation, float]:
    """Observe the operators of a model; return that, and the seconds."""
    options = CoverageOptions(
        models=[AskedModel(path=model, name=model.name, targets=(TARGET,))], targets=[TARGET],
        policy=policy({}).coverage, cache=cache, shared=by,
    )  # fmt: skip
    start = time.perf_counter()
    found = observe_coverage(options, SilentProgress())
    return found, time.perf_counter() - start


def load() -> str:
    """Return the machine's load of the last minute, for its number of cores."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
