"""The step after a failed comparison, alone: both sides have run, the node is not known."""

import pickle
import tempfile
import time
from pathlib import Path

from ci_parity.base.progress import SilentProgress
from ci_parity.config import load
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.observation import InputSet
from ci_parity.stages import inputs_for_diff
from ci_parity.stages.boundaries import Judged
from ci_parity.stages.boundary_floors import floors_of
from ci_parity.stages.judge import judge
from ci_parity.stages.localising.boundary import BoundarySearch
from ci_parity.stages.noise import Calibrator
from ci_parity.stages.pairs import pair_of_two
from ci_parity.stages.suite import run_pairs

POLICY = load.policy({"latency": {"measure": False}})
_KEPT = "judged.pickle"


def search(folder: Path, *, explain: bool) -> dict[str, object]:
    """Name the first node that went wrong between `good.onnx` and `bad.onnx` on `inputs.npz`.

    The first call runs and judges both sides, and keeps that in the folder; later ones begin where
    it ended.
    """
    kept = folder / _KEPT
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
            judged=judged, inputs=inputs, policy=POLICY, calibrator=calibrator,
            folder=Path(scratch) / "search", budget=load.localise({}), step=step, explain=explain,
        ).divergence()  # fmt: skip
        seconds = time.perf_counter() - start
    names = [node.name for node in found.nodes]
    return {"seconds": seconds, "nodes": names, "conclusion": found.conclusion.value}


def _judge(folder: Path, kept: Path) -> None:
    kept.write_bytes(pickle.dumps(judged_pair(folder, folder, folder)[:2]))


def judged_pair(folder: Path, scratch: Path, cache: Path) -> tuple[Judged, InputSet, Calibrator]:
    """Run and judge `good.onnx` and `bad.onnx` of a folder on its `inputs.npz`.

    Args:
        folder: has the files.
        scratch: where inputs, outputs and noise floors go.
        cache: where noise floors are kept.
    """
    progress = SilentProgress()
    models = (folder / "good.onnx", folder / "bad.onnx")
    inputs = inputs_for_diff.collect(
        [folder / "inputs.npz"], models[0], read_signature(models[0]), {}, scratch / "inputs"
    )
    target = load.target("here", {})
    pair = pair_of_two(models, (target, target), POLICY)
    runs = run_pairs([pair], inputs, None, POLICY, scratch / "runs", progress)
    calibrator = Calibrator(inputs, scratch / "noise", cache=cache, progress=progress)
    return judge(runs, POLICY, calibrator).boundaries[0], inputs, calibrator
