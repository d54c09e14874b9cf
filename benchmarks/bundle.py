"""How fast and in how much memory a bundle with 2 GB of external data is built and verified.

Prints, from one run: `openssl dgst -sha256` of the weights, a build (which reads, hashes and writes
them), and the verification of the archive and of a folder; at least 0.8 of openssl's speed is asked
for. Each runs in a process of its own, in turn, with the files in the page cache where memory
allows. Seconds are the best of the rounds, those of the work without Python's start and imports;
the ratio is the median of the rounds, each to the run of openssl right before it.

    python benchmarks/bundle.py [--gib 2] [--rounds 3]
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from hash_model import TENSOR_BYTES, build, openssl, output, peak_mib, say

SIDES = ("archive", "verify archive", "folder", "verify folder")


def main() -> None:
    """Make the deployment, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        say(json.dumps(measure(options.root, options.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        root = deployment(Path(folder), round(options.gib * 2**30) // TENSOR_BYTES)
        compare(root, options.rounds)


def deployment(folder: Path, tensors: int) -> Path:
    """Write a model of so many 64 MiB tensors, and one case that nobody runs."""
    import numpy as np
    from onnx import numpy_helper

    root = folder / "user" / "model"
    root.mkdir(parents=True)
    build(root, tensors)
    case = root / "test_data_set_0"
    case.mkdir()
    values = np.zeros((1, 4096), np.float32)
    for name, port in (("input_0", "v0"), ("output_0", f"v{tensors}")):
        data = numpy_helper.from_array(values, port).SerializeToString()
        (case / f"{name}.pb").write_bytes(data)
    return root.parent


def measure(root: Path, what: str) -> dict[str, float]:
    """Do one thing in this process; return seconds and MiB of memory."""
    import jsonschema  # noqa: F401 - its import is not what is measured
    import onnx  # noqa: F401 - likewise

    import ci_parity.stages.identify  # noqa: F401 - likewise
    from ci_parity.release.bundle.verify import verify_bundle
    from ci_parity.stages.bundling import build as build_bundle

    place = root.parent / ("b.tar" if "archive" in what else "b")
    before, start = peak_mib(), perf_counter()
    if what.startswith("verify"):
        if not verify_bundle(place).whole:
            sys.exit("the bundle is not whole")
    else:
        build_bundle(root, "", place)
    return {"s": perf_counter() - start, "before_mib": before, "peak_mib": peak_mib()}


def compare(root: Path, rounds: int) -> None:
    """Run each side in turn and print the best of each."""
    data = root / "model" / "weights.bin"
    gb = data.stat().st_size / 1e9
    found: dict[str, list[dict[str, float]]] = {"openssl": [], **{what: [] for what in SIDES}}
    for _ in range(rounds):
        for what in SIDES:
            if not what.startswith("verify"):
                (root.parent / "b.tar").unlink(missing_ok=True)
                shutil.rmtree(root.parent / "b", ignore_errors=True)
            found["openssl"].append(openssl(data))
            command = [sys.executable, __file__, "--measure", what, "--root", str(root)]
            found[what].append(json.loads(output(command)))
    best = {what: min(runs, key=lambda run: run["s"]) for what, runs in found.items()}
    say(f"{'openssl':14} {best.pop('openssl')['s']:6.2f} s")
    for number, (what, run) in enumerate(best.items()):
        # Each run of a side is held against the run of openssl right before it.
        before = found["openssl"][number :: len(SIDES)]
        ratios = [o["s"] / r["s"] for o, r in zip(before, found[what], strict=True)]
        spread = f"{median(ratios):.2f} of openssl ({min(ratios):.2f} to {max(ratios):.2f})"
        more = run["peak_mib"] - run["before_mib"]
        memory = f"peak {run['peak_mib']:.0f} MiB ({more:.0f} more)"
        say(f"{what:14} {run['s']:6.2f} s  {gb / run['s']:5.2f} GB/s  {spread}, {memory}")
    say(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
