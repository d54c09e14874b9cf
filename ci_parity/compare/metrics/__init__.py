"""The numbers of two arrays of one shape and dtype, in blocks, with bounded memory.

Between the tensors of two observations and `compare.outputs`, which judges. Refuses nothing and
decides nothing: what differs is counted and measured.
"""

from ci_parity.compare.metrics.allowance import Allowance, LinearAllowance
from ci_parity.compare.metrics.exact import exact_metrics
from ci_parity.compare.metrics.figures import ExactMetrics, FloatMetrics, index_of
from ci_parity.compare.metrics.floats import float_metrics
from ci_parity.compare.metrics.scales import Scales, channel_scales, scales_of

__all__ = [
    "Allowance", "ExactMetrics", "FloatMetrics", "LinearAllowance", "Scales", "channel_scales",
    "exact_metrics", "float_metrics", "index_of", "scales_of",
]  # fmt: skip
