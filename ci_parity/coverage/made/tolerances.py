"""How far a right answer to a generated test may lie from the oracle's: from its own arithmetic.

`u` is half a unit in the last place of the output's element type (2^-24 for float32).

- What moves elements or picks among them must be equal.
- One correctly rounded operation may differ by one unit in the last place: rtol 2u.
- A sum of K products in any order: errors add up like a random walk, about sqrt(K) u of the largest
  result (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci.
  Comput. 41(5), 2019); four times that, with K from the operator's window or row.
- A function is approximated: rtol 64u and atol 32u of the largest result, which the approximations
  of onnxruntime, OpenVINO and tract stay within.

The standard's suite allows rtol 1e-3 throughout, 17,000 u: there a wrong rounding mode, or a sum in
half precision, passes.
"""

import math
from typing import TYPE_CHECKING

from ci_parity.coverage.made.blueprint import Blueprint
from ci_parity.coverage.operators import MOVING
from ci_parity.records.values import Values, element_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

_UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_ONE_STEP = frozenset(
    {"Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal", "Mod", "Cast", "CastLike", "Range",
     "LeakyRelu", "PRelu", "HardSigmoid", "ThresholdedRelu", "Shrink", "DequantizeLinear"}
)  # fmt: skip
_SUMS = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "AveragePool", "GlobalAveragePool",
     "ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "CumSum",
     "Sum", "Mean", "Resize", "Upsample", "Col2Im", "DFT", "GridSample", "LpPool"}
)  # fmt: skip


def tolerance_of(blueprint: Blueprint, outputs: Values) -> tuple[float, float]:
    """Return rtol and atol of a test.

    Args:
        blueprint: what is computed.
        outputs: what it must give.
    """
    import numpy as np

    floats = [np.asarray(v) for v in outputs.values() if isinstance(v, np.ndarray)]
    floats = [array for array in floats if element_type(array) in _UNITS]
    moves = not blueprint.domain and blueprint.op_type in MOVING and not _adds(blueprint)
    if not floats or moves:
        return 0.0, 0.0
    unit = max(_UNITS[name] for name in {*map(element_type, floats), *_inner(blueprint)})
    if not blueprint.domain and blueprint.op_type in _ONE_STEP:
        return 2 * unit, 0.0
    largest = max(_largest(array) for array in floats)
    if not blueprint.domain and blueprint.op_type in _SUMS:
        share = 4 * unit * (1 + math.sqrt(terms_of(blueprint)))
        return share, share * largest
    return 64 * unit, 32 * unit * largest


def terms_of(blueprint: Blueprint) -> int:
    """Return how many terms one result is the sum of, at most."""
    first = blueprint.feed(0)
    if first is None or not first.shape:
        return max(len(blueprint.inputs), 1)
    second = blueprint.feed(1)
    match blueprint.op_type:
        case "MatMul":
            return max(first.shape[-1], 1)
        case "Gemm":
            return max(*first.shape, 1)
        case "Conv" | "ConvTranspose" if second is not None:
            return max(math.prod(second.shape[1:]), 1)
        case "AveragePool" | "LpPool":
            kernel: list[int] = blueprint.attribute("kernel_shape") or [1]
            return max(math.prod(kernel), 1)
        case "Resize" | "Upsample" | "GridSample":
            return 16
        case _:
            return max(first.count, len(blueprint.inputs), 1)


def _adds(blueprint: Blueprint) -> bool:
    """Whether an operator that moves is told to add up what meets."""
    return blueprint.attribute("reduction", "none") in {"add", "mul"}


def _inner(blueprint: Blueprint) -> set[str]:
    """Return the float types that go in: a wide result of narrow operands is no better."""
    return {feed.dtype for feed in blueprint.inputs if feed.dtype in _UNITS}


def _largest(array: "Array") -> float:
    import numpy as np

    wide = np.abs(array.astype(np.float64))
    wide = wide[np.isfinite(wide)]
    return float(wide.max()) if wide.size else 0.0
