"""How fast and in how much memory a model with 2 GB of external data is hashed.

Prints, from one run on one file: `openssl dgst -sha256`, our reading of files (at least 0.8 of
openssl is asked for), and our reading of the meaning, which hashes the file and then each tensor.
Each side runs in a process of its own, in turn, with the file in the page cache where memory
allows; the best of the rounds counts.

    python benchmarks/hash_model.py [--gib 2] [--rounds 3]
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from ci_parity.base import process
from ci_parity.detect.model import read_model_facts

MIB = 2**20
TENSOR_BYTES = 64 * MIB
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Build the model, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=["files", "meaning"], help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        say(json.dumps(measure(options.model, semantic=options.measure == "meaning")))
        return
    with tempfile.TemporaryDirectory() as folder:
        model = build(Path(folder), round(options.gib * 2**30) // TENSOR_BYTES)
        compare(model, options.rounds)


def build(folder: Path, tensors: int) -> Path:
    """Write a model of so many MatMul, each with its own 64 MiB of an external file."""
    import numpy as np
    from onnx import TensorProto, helper

    size = 4096
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
        for name in ("v0", f"v{tensors}")
    ]
    nodes = [
        helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"], f"/layer{i}")
        for i in range(tensors)
    ]
    graph = helper.make_graph(nodes, "layers", ports[:1], ports[1:])
    chance = np.random.default_rng(0)
    with (folder / "weights.bin").open("wb") as stream:
        for number in range(tensors):
            tensor = graph.initializer.add(
                name=f"w{number}", data_type=TensorProto.FLOAT, dims=[size, size],
                data_location=TensorProto.EXTERNAL,
            )  # fmt: skip
            place = {"location": "weights.bin", "offset": stream.tell(), "length": TENSOR_BYTES}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            stream.write(chance.bytes(TENSOR_BYTES))
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def measure(model: Path, *, semantic: bool) -> dict[str, float]:
    """Read a model's facts in this process; return seconds and MiB of memory."""
    import onnx  # noqa: F401 - its import is not what is measured

    before = peak_mib()
    start = perf_counter()
    read_model_facts(model, semantic=semantic)
    return {"s": perf_counter() - start, "before_mib": before, "peak_mib": peak_mib()}


def peak_mib() -> float:
    """Return the most memory this process has held (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [peak] = [line for line in lines if line.startswith("VmHWM")]
    return int(peak.split()[1]) / 1024


def compare(model: Path, rounds: int) -> None:
    """Run each side in turn and print the best of each."""
    data = model.parent / "weights.bin"
    gb = data.stat().st_size / 1e9
    found: dict[str, list[dict[str, float]]] = {"openssl": [], "files": [], "meaning": []}
    for _ in range(rounds):
        found["openssl"].append(openssl(data))
        for what in ("files", "meaning"):
            command = [sys.executable, __file__, "--measure", what, "--model", str(model)]
            found[what].append(json.loads(output(command)))
    best = {what: min(runs, key=lambda run: run["s"]) for what, runs in found.items()}
    for what, run in best.items():
        memory = f", peak {run['peak_mib']:.0f} MiB" if "peak_mib" in run else ""
        grown = f" ({run['peak_mib'] - run['before_mib']:.0f} more)" if memory else ""
        say(f"{what:8} {run['s']:6.2f} s  {gb / run['s']:5.2f} GB/s{memory}{grown}")
    say(f"files against openssl: {best['openssl']['s'] / best['files']['s']:.2f} of its speed")


def openssl(data: Path) -> dict[str, float]:
    """Time the peer on the same file."""
    program = shutil.which("openssl")
    if program is None:
        sys.exit("this benchmark compares with the 'openssl' program, which is not installed")
    start = perf_counter()
    output([program, "dgst", "-sha256", str(data)])
    return {"s": perf_counter() - start}


def output(command: list[str]) -> str:
    """Run a program and return what it printed."""
    environment = process.worker_environment({"PYTHONPATH": str(ROOT)})
    done = process.run(command, env=environment, timeout_s=600, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {done.last_words}")
    return done.stdout.decode()


def say(line: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
