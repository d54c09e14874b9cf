"""Which tensors a runtime still has once it has optimized a graph.

A cut through tensors that are gone anyway takes fusions apart, and may hide what they broke; one
through these does not. onnxruntime writes its optimized graph on request; of other runtimes nothing
is known.
"""

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ci_parity.base.errors import CiParityError
from ci_parity.base.onnx_model import load_graph
from ci_parity.config.runtimes import CPU_PROVIDER
from ci_parity.stages.localising.optimizers import is_onnxruntime
from ci_parity.stages.localising.sides import Side

if TYPE_CHECKING:
    from ci_parity.base.canonical import Json

logger = logging.getLogger(__name__)

_LEVEL = "graph_optimization_level"
_OFF, _ALL = "disable_all", "enable_all"
# Layouts of the last level have names of their own for tensors that are otherwise still there.
_LAST_BEFORE_LAYOUT = "enable_extended"


def survivors(side: Side) -> Collection[str] | None:
    """Return the tensors that are left after optimization, by the side's own names.

    None where that is not known.
    """
    target = side.bench.job.target
    level = str(target.session_options.get(_LEVEL, _ALL))
    if level == _OFF and is_onnxruntime(target.runtime):
        return frozenset(side.graph.makers)
    file = side.home / f"{side.label}_optimized.onnx"
    entries = target.session_options.get("config_entries")
    options: dict[str, Json] = {
        **target.session_options,
        _LEVEL: _LAST_BEFORE_LAYOUT if level == _ALL else level,
        "optimized_model_filepath": str(file),
        "config_entries": {
            **(entries if isinstance(entries, dict) else {}),
            "session.optimized_model_external_initializers_file_name": f"{file.stem}.bin",
            "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
        },
    }
    if target.provider != CPU_PROVIDER or not side.load_whole(options) or not file.exists():
        return None
    try:
        graph = load_graph(file).graph
    except CiParityError as error:
        logger.info("the optimized graph cannot be read: %s", error)
        return None
    finally:
        for leftover in (file, file.with_suffix(".bin")):
            leftover.unlink(missing_ok=True)
    return frozenset(name for node in graph.node for name in node.output if name)
