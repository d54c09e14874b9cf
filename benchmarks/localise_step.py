"""The step after a failed comparison, alone: both sides have run, the node is not known."""

import pickle
import tempfile
import time
from pathlib import Path

from ci_parity.base.progress import SilentProgress
from ci_parity.config import load
from ci_parity.fixtures.signature import read_signature
from ci_parity.stages import inputs_for_diff
from ci_parity.stages.boundary_floors import floors_of
from ci_parity.stages.judge import judge
from ci_parity.stages.localising.boundary import BoundarySearch
from ci_parity.stages.noise import Calibrator
from ci_parity.stages.pairs import pair_of_two
from ci_parity.stages.suite import run_pairs

_KEPT = "judged.pickle"


def search(folder: Path, *, explain: bool) -> dict[str, object]:
    """Name the first node that went wrong between `good.onnx` and `bad.onnx` on `inputs.npz`.

    The first call runs and judges both sides, and keeps that in the folder; later ones begin where
    it ended.
    """
    kept = folder / _KEPT
    policy = load.policy({"latency": {"measure": False}})
    progress = SilentProgress()
    if not kept.exists():
        _judge(folder, kept)
    judged, inputs = pickle.loads(kept.read_bytes())  # noqa: S301 - written a moment ago, by us
    with tempfile.TemporaryDirectory() as scratch, progress.step("", 0) as step:
        calibrator = Calibrator(inputs, Path(scratch) / "noise", cache=folder, progress=progress)
        # As in a diff, where the boundary was judged by them.
        floors_of(judged.boundary, calibrator)
        start = time.perf_counter()
        found = BoundarySearch(
            judged=judged, inputs=inputs, policy=policy, calibrator=calibrator,
            folder=Path(scratch) / "search", budget=load.localise({}), step=step, explain=explain,
        ).divergence()  # fmt: skip
        seconds = time.perf_counter() - start
    names = [node.name for node in found.nodes]
    return {"seconds": seconds, "nodes": names, "conclusion": found.conclusion.value}


def _judge(folder: Path, kept: Path) -> None:
    policy, progress = load.policy({"latency": {"measure": False}}), SilentProgress()
    models = (folder / "good.onnx", folder / "bad.onnx")
    inputs = inputs_for_diff.collect(
        [folder / "inputs.npz"], models[0], read_signature(models[0]), {}, folder / "inputs"
    )
    target = load.target("here", {})
    pair = pair_of_two(models, (target, target), policy)
    runs = run_pairs([pair], inputs, None, policy, folder / "runs", progress)
    calibrator = Calibrator(inputs, folder / "noise", cache=folder, progress=progress)
    judged = judge(runs, policy, calibrator).boundaries[0]
    kept.write_bytes(pickle.dumps((judged, inputs)))
