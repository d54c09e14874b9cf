"""The commented config that `init` writes; valid under the schema as it stands."""

import json
import re
from collections.abc import Mapping, Sequence


def starter_config(
    model: str, path: str, fixtures: str, runtime: str, ports: Mapping[str, Sequence[str]]
) -> str:
    """Return the text of a ci-parity.yml.

    Args:
        model: the model's name, the deployment's too.
        path: the model, relative to the config.
        fixtures: folder of the fixture set, relative to the config.
        runtime: the pinned requirement, or `current`.
        ports: descriptions of the model's `inputs` and `outputs`.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "-", model).lstrip("._-")[:64] or "model"
    described = [f"#   {side}: {_comment(line)}" for side, lines in ports.items() for line in lines]
    return "\n".join(
        (
            "# What CI Parity checks whenever the runtime, the model or its options change.",
            "# Every key: docs/config.md. The model as it is now:",
            *described,
            "version: 1",
            f"deployment: {name}",
            "variants:",
            "  exported:",
            f"    path: {json.dumps(path)}",
            "targets:",
            "  cpu:",
            "    # The runtime production uses; an update bot changes it in a pull request.",
            f"    runtime: {json.dumps(runtime)}",
            "    provider: CPUExecutionProvider",
            "# Stored inputs, with the outputs of the system the model was made from.",
            f"fixtures: {json.dumps(fixtures)}",
            "policy:",
            "  # ladder: by element type. Or explicit: {rtol: 1e-4, atol: 1e-6}.",
            "  tolerance: ladder",
            "  latency:",
            "    max_regression: 5%",
            "    # true turns a latency regression into a failure.",
            "    enforce: false",
            "# release:",
            "#   log: branch:ci-parity-log",
            "",
        )
    )


def _comment(text: str) -> str:
    return " ".join(text.split())
