"""A runner whose onnxruntime knows one operator more: BusyWait, which burns time and copies.

It is started by `latency_trials.py` in an environment with onnxruntime, its extensions and NumPy,
and speaks the worker protocol through our own worker. The operator is a custom one of the domain
`ai.onnx.contrib`, called by onnxruntime for every inference: it spins on the clock for as many
microseconds as its attribute says, then returns its input.
"""

import runpy
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime_extensions import PyCustomOpDef, get_library_path, onnx_op

WORKER = Path(__file__).resolve().parents[1] / "ci_parity/run/workers/onnxruntime_worker.py"


@onnx_op(
    op_type="BusyWait",
    inputs=[PyCustomOpDef.dt_float],
    outputs=[PyCustomOpDef.dt_float],
    attrs={"microseconds": PyCustomOpDef.dt_float},
)
def busy_wait(tensor: NDArray[np.float32], microseconds: float) -> NDArray[np.float32]:
    """Return a tensor after so long, the CPU busy meanwhile."""
    end = time.perf_counter_ns() + round(1000 * microseconds)
    while time.perf_counter_ns() < end:
        pass
    return tensor


def main() -> None:
    """Serve as the worker does, every session with the operator registered."""
    plain = onnxruntime.SessionOptions

    def with_operator() -> onnxruntime.SessionOptions:
        options = plain()
        options.register_custom_ops_library(get_library_path())
        return options

    onnxruntime.SessionOptions = with_operator
    sys.argv = [str(WORKER)]
    runpy.run_path(str(WORKER), run_name="__main__")


if __name__ == "__main__":
    main()
