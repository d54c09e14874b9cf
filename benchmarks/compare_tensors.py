"""How fast and in how much memory two float32 tensors of 256 MB are compared, with every figure.

Prints, from one run on the same two files: `numpy.allclose`, our scales and metrics (on all
processors and on one), and Polygraphy's default comparison, installed into a temporary folder where
a package index is at hand. Asked for are at most the time of `numpy.allclose`, a twentieth of
Polygraphy's, and memory of a few MB beside the inputs. Each side runs in processes of its own, in
turn; the best of the rounds counts.

    python benchmarks/compare_tensors.py [--mib 256] [--rounds 3]
"""

import argparse
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from ci_parity.base import process

MIB = 2**20
REPEATS = 3
POLYGRAPHY = "polygraphy==0.53.6"
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write the tensors, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=sorted(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.mib * MIB // 4)
        peer = install(Path(folder) / "peer")
        compare(Path(folder), options.rounds, peer=peer)


def write(folder: Path, elements: int) -> None:
    """Write what a model and the same one on another runtime may bring: noise of a few ULP."""
    import numpy as np

    chance = np.random.default_rng(0)
    with (folder / "b").open("wb") as baseline, (folder / "c").open("wb") as candidate:
        for start in range(0, elements, MIB):
            left = chance.standard_normal(min(MIB, elements - start), np.float32)
            noise = chance.standard_normal(left.size, np.float32)
            left.tofile(baseline)
            (left * (1 + noise * np.float32(1e-6))).tofile(candidate)


def install(folder: Path) -> bool:
    """Install the peer; return whether that was possible."""
    import uv

    command = [uv.find_uv_bin(), "pip", "install", "--no-deps", "--target", str(folder), POLYGRAPHY]
    environment = process.packaging_environment()
    done = process.run(command, env=environment, timeout_s=120, cwd=folder.parent)
    if done.returncode:
        print(f"{POLYGRAPHY} cannot be installed and is left out: {done.last_words}")
    return done.returncode == 0


def allclose(left: Any, right: Any) -> None:  # noqa: ANN401 - arrays
    """Compare as NumPy does."""
    import numpy as np

    np.allclose(right, left)


def ours(left: Any, right: Any, threads: int | None = None) -> None:  # noqa: ANN401 - arrays
    """Compare as `compare.outputs` does."""
    from ci_parity.compare.metrics import LinearAllowance, float_metrics, scales_of

    allowance = LinearAllowance(rtol=1e-4, fraction=2e-5, scales=scales_of(left))
    float_metrics(left, right, allowance, threads=threads)


def single(left: Any, right: Any) -> None:  # noqa: ANN401 - arrays
    """Compare on one processor."""
    ours(left, right, threads=1)


def polygraphy(left: Any, right: Any) -> None:  # noqa: ANN401 - arrays
    """Compare as Polygraphy does unless told otherwise."""
    from polygraphy.comparator import CompareFunc, IterationResult
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    sides = [IterationResult(outputs={"y": array}) for array in (left, right)]
    CompareFunc.simple()(*sides)


SIDES: dict[str, Callable[[Any, Any], None]] = {
    "allclose": allclose, "ours": ours, "ours, one thread": single, "polygraphy": polygraphy,
}  # fmt: skip


def measure(side: str, folder: Path) -> dict[str, float]:
    """Compare in this process; return the seconds of the best repeat and MiB of memory."""
    import numpy as np

    left, right = (np.fromfile(folder / name, np.float32) for name in ("b", "c"))
    channels = 64
    if left.size % (8 * channels) == 0:
        left, right = (array.reshape(8, channels, -1) for array in (left, right))
    small = left[..., :1], right[..., :1]
    SIDES[side](*(np.ascontiguousarray(array) for array in small))
    gc.collect()
    before = peak_mib()
    seconds = []
    for _ in range(1 if side == "polygraphy" else REPEATS):
        start = perf_counter()
        SIDES[side](left, right)
        seconds.append(perf_counter() - start)
    return {"s": min(seconds), "more_mib": peak_mib() - before}


def peak_mib() -> float:
    """Return the most memory this process has held (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [peak] = [line for line in lines if line.startswith("VmHWM")]
    return int(peak.split()[1]) / 1024


def compare(folder: Path, rounds: int, *, peer: bool) -> None:
    """Run each side in turn and print the best of each."""
    extra = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "peer")])}
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds):
        for side in SIDES:
            if side == "polygraphy" and (turn or not peer):
                continue
            command = [sys.executable, __file__, "--measure", side, "--folder", str(folder)]
            environment = process.worker_environment(extra)
            done = process.run(command, env=environment, timeout_s=600, cwd=ROOT)
            if done.returncode:
                sys.exit(f"{side} failed: {done.last_words}")
            found.setdefault(side, []).append(json.loads(done.stdout.splitlines()[-1]))
    best = {side: min(runs, key=lambda run: run["s"]) for side, runs in found.items()}
    load = os.getloadavg()[0]
    for side, run in best.items():
        print(f"{side:18} {run['s']:7.3f} s  {run['more_mib']:6.0f} MiB beside the inputs")
    print(f"ours / allclose    {best['ours']['s'] / best['allclose']['s']:7.2f}")
    if "polygraphy" in best:
        print(f"polygraphy / ours  {best['polygraphy']['s'] / best['ours']['s']:7.1f}")
    print(f"load average {load:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
