"""What naming the first node that went wrong costs, beside Polygraphy marking all outputs.

PP-OCRv6 recognition, batch 4, one weight in the middle one per cent off. Polygraphy runs both sides
with every tensor an output and compares them, as its documentation advises; ours starts where a
failed comparison ends, and names the node. Wall time, and the peak of memory over all processes
(the sum of their resident sets, sampled). Also printed: the same with everything that explains the
node (local figures, optimizations, error by depth), and a two-sided tap of all tensors in chunks.

    python benchmarks/localise.py [--runs 3] [--skip-polygraphy]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# ruff: noqa: E402 - the tests' models are not installed
import numpy as np
import onnx

from tests.integration.support.published_models import perturbed, published_models

BATCH = 4
SHARE_OF_TIME, SHARE_OF_MEMORY = 1 / 20, 1 / 8

_OURS = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.localise_step import search
print(json.dumps(search(Path(sys.argv[2]), explain=sys.argv[3] == "explain")))
"""
_POLYGRAPHY = "polygraphy==0.53.6"
_LOADER = """
import numpy as np
def load_data():
    yield dict(np.load({path!r}))
"""
_TAP = """
import sys, time
import numpy as np, onnx, onnxruntime as ort
folder, chunk = sys.argv[1], 60
def session(path, names):
    model = onnx.load(path)
    known = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
names = [o for n in onnx.load(f"{folder}/good.onnx").graph.node for o in n.output if o]
feeds = dict(np.load(f"{folder}/inputs.npz"))
for start in range(0, len(names), chunk):
    part = names[start : start + chunk]
    sides = [session(f"{folder}/{side}.onnx", part).run(part, feeds) for side in ("good", "bad")]
    worst = max(float(np.abs(a.astype(float) - b).max(initial=0)) for a, b in zip(*sides))
"""


class Watch:
    """Runs a program and measures its wall time and the memory of its whole process tree."""

    def __init__(self, argv: list[str], cwd: Path) -> None:
        self.argv, self.cwd, self.peak_bytes, self.seconds, self.out = argv, cwd, 0, 0.0, ""

    def run(self) -> "Watch":
        """Run it to its end."""
        start = time.perf_counter()
        process = subprocess.Popen(self.argv, cwd=self.cwd, stdout=subprocess.PIPE, text=True)
        done = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(process.pid, done))
        sampler.start()
        self.out = process.communicate()[0]
        self.seconds = time.perf_counter() - start
        done.set()
        sampler.join()
        return self

    def _sample(self, pid: int, done: threading.Event) -> None:
        while not done.wait(0.01):
            self.peak_bytes = max(self.peak_bytes, tree_bytes(pid))


def tree_bytes(pid: int) -> int:
    """Return the resident bytes of a process and all it has started."""
    page = 4096
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = {c for task in tasks for c in (task / "children").read_text().split()}
    except (OSError, IndexError):
        return 0
    return own + sum(tree_bytes(int(child)) for child in children)


def main() -> None:
    """Measure, print, and say which bars are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-polygraphy", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        node = _write(folder)
        peer = None if options.skip_polygraphy else _polygraphy(folder)
        subprocess.run(
            [sys.executable, "-c", _OURS, str(PROJECT), str(folder), "prepare"], check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        named = _best(folder, "name", options.runs)
        told = _best(folder, "explain", 1)
        tap = Watch([sys.executable, "-c", _TAP, str(folder)], folder).run()
    print(f"planted in the weight {node}; named: {named[2]['nodes']} ({named[2]['conclusion']})")
    rows = {"naming": named[:2], "naming and explaining": told[:2]}
    rows["two-sided tap, 60 at a time"] = (tap.seconds, tap.peak_bytes)
    if peer is not None:
        rows["Polygraphy, all outputs marked"] = peer
    for what, (seconds, peak) in rows.items():
        print(f"{what:34} {seconds:7.2f} s {peak / 1e6:7.0f} MB")
    if peer is not None:
        time_share, memory_share = named[0] / peer[0], named[1] / peer[1]
        print(f"time {time_share:.4f} of the peer's (bar {SHARE_OF_TIME:.4f}), "
              f"memory {memory_share:.4f} (bar {SHARE_OF_MEMORY:.4f})")  # fmt: skip


def _write(folder: Path) -> str:
    model = next(model for model in published_models() if model.name == "ppocr6-rec")
    onnx.save(onnx.load(model.path), folder / "good.onnx")
    name = perturbed(model.path, folder / "bad.onnx")
    rows = model.cases[0]["x"].repeat(BATCH, axis=0)
    noise = np.random.default_rng(0).normal(0, 0.05, rows.shape).astype(np.float32)
    np.savez(folder / "inputs.npz", x=np.clip(rows + noise, -1, 1))
    return name


def _best(folder: Path, how: str, runs: int) -> tuple[float, int, dict[str, object]]:
    """Return the search's own seconds and memory in its best of several runs, and what it said."""
    found = []
    for _ in range(runs):
        argv = [sys.executable, "-c", _OURS, str(PROJECT), str(folder), how]
        watch = Watch(argv, PROJECT).run()
        said = json.loads(watch.out.splitlines()[-1])
        found.append((float(said["seconds"]), watch.peak_bytes, said))
    return min(found, key=lambda one: one[0])


def _polygraphy(folder: Path) -> tuple[float, int]:
    """Return what Polygraphy takes to run both sides with all outputs marked and compare them."""
    place = folder / "polygraphy"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    wanted = [_POLYGRAPHY, f"onnx=={onnx.__version__}", "onnxruntime", "colored"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    (folder / "loader.py").write_text(_LOADER.format(path=str(folder / "inputs.npz")))
    usual = ["--onnxrt", "--onnx-outputs", "mark", "all", "--data-loader-script", "loader.py"]
    command = [str(python), str(place / "bin" / "polygraphy"), "run"]
    outputs = str(folder / "outputs.json")
    sides = [
        Watch([*command, f"{side}.onnx", *usual, flag, outputs], folder).run()
        for side, flag in (("good", "--save-outputs"), ("bad", "--load-outputs"))
    ]
    return sum(side.seconds for side in sides), max(side.peak_bytes for side in sides)


if __name__ == "__main__":
    main()
