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
            f"deployment: {_quoted(name)}",
            "variants:",
            "  exported:",
            f"    path: {_quoted(path)}",
            "targets:",
            "  cpu:",
            "    # The runtime production uses; an update bot changes it in a pull request.",
            f"    runtime: {_quoted(runtime)}",
            "    provider: CPUExecutionProvider",
            "# Stored inputs, with the outputs of the system the model was made from.",
            f"fixtures: {_quoted(fixtures)}",
            "policy:",
            "  # ladder: by element type. Or explicit: {rtol: 1e-4, atol: 1e-6}.",
            "  tolerance: calibrated",
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
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _quoted(text: str) -> str:
    """Return text in double quotes, with the escapes of YAML where a character does not print."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
