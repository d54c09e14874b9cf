"""Step 0 of a trustworthy latency: what this machine shows where there is nothing to show.

One system is timed against itself by the complete rule, several times over; the model is one's own
or, by default, a small convolutional one that takes a millisecond or two.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.progress import Progress
from ci_parity.config.model import Policy
from ci_parity.config.systems import Target
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.latency import Calibration
from ci_parity.records.observation import InputSet
from ci_parity.run.environments import cache_folder
from ci_parity.stages import inputs_for_diff
from ci_parity.stages.calibrations import Trial, judged_trial, keep_calibration, summed_up
from ci_parity.stages.pairs import pair_of_two
from ci_parity.stages.timing import Sides, time_pair

_CHANNELS, _SIZE, _LAYERS = 16, 48, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """What is timed against itself, by which policy, and how many complete decisions are made.

    Without a `model` it is a small one of ours; `clock` tells the seconds since the epoch.
    """

    target: Target
    policy: Policy
    trials: int
    model: Path | None = None
    inputs: Sequence[Path] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    clock: Callable[[], float] = time.time


def calibrate(options: CalibrateOptions, progress: Progress) -> tuple[Calibration, Path]:
    """Time a system against itself; return what that says of this machine, and where it is kept.

    Raises:
        CiParityError: the model, its inputs or the runtime cannot be used, or nothing was timed.
    """
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        work = Path(scratch)
        model = options.model or small_model(work / "model.onnx")
        inputs = _inputs(options, model, work / "inputs")
        pair = pair_of_two((model, model), (options.target, options.target), options.policy)
        assert pair.baseline is not None
        sides = Sides(baseline=pair.baseline, candidate=pair.candidate)
        trials = []
        for number in range(options.trials):
            title = f"calibration {number + 1} of {options.trials}"
            trial = _trial(title, sides, inputs, work / f"trial{number}", options.policy, progress)
            trials.append(trial)
    found = summed_up(trials, options.policy.latency.pin, options.clock())
    return found, keep_calibration(found, cache_folder())


def _inputs(options: CalibrateOptions, model: Path, folder: Path) -> InputSet:
    dims = options.dims if options.model is not None else {}
    signature = read_signature(model)
    return inputs_for_diff.collect(options.inputs, model, signature, dims, folder)


def _trial(
    title: str, sides: Sides, inputs: InputSet, folder: Path, policy: Policy, progress: Progress
) -> Trial:
    names = {case.case for case in inputs.cases}
    with progress.step(title, policy.latency.sessions) as step:
        run = time_pair(sides, inputs, names, folder, policy.latency, 1, step)
    trial = judged_trial(run, policy)
    if trial is None:
        raise EvidenceError(
            f"nothing could be timed: {run.failure or 'fewer than two sessions were timed'}",
            remedy="let nothing else run on this machine meanwhile, then try again",
        )
    return trial


def small_model(path: Path) -> Path:
    """Write a convolutional model of a fixed shape and fixed weights; return its path."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    generator = np.random.default_rng(0)
    shape = [1, _CHANNELS, _SIZE, _SIZE]
    scale = 1 / np.sqrt(9 * _CHANNELS)
    nodes, weights = [], []
    for layer in range(_LAYERS):
        weight = scale * generator.standard_normal((_CHANNELS, _CHANNELS, 3, 3))
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w{layer}"))
        source = f"y{layer}" if layer else "x"
        convolution = helper.make_node(
            "Conv", [source, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]
        )
        nodes += [convolution, helper.make_node("Relu", [f"c{layer}"], [f"y{layer + 1}"])]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name in ("x", f"y{_LAYERS}")
    ]
    graph = helper.make_graph(nodes, "calibration", ports[:1], ports[1:], weights)
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    return path
