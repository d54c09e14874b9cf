"""The commented config that `init` writes; valid under the schema as it stands."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """What a first config says; paths are relative to it.

    `variants` are names with the path and the name of the variant each was made from. `requires` is
    the file that pins `runtime`, empty where the config itself does. `ports` are descriptions of
    the model's `inputs` and `outputs`, `generated` says that the cases were made from the graph.
    """

    deployment: str
    variants: Sequence[tuple[str, str, str]]
    fixtures: str
    runtime: str = "current"
    requires: str = ""
    target: str = "cpu"
    provider: str = "CPUExecutionProvider"
    runs_on: Sequence[str] = ("self-hosted",)
    ports: Mapping[str, Sequence[str]] = field(default_factory=dict)
    generated: bool = False
    log: str = ""


def starter_config(starter: Starter) -> str:
    """Return the text of a ci-parity.yml."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", starter.deployment).lstrip("._-")[:64] or "model"
    return "\n".join(
        (
            "# What CI Parity checks whenever the runtime, the model or its options change.",
            "# Every key: https://github.com/ci-parity/ci-parity/blob/main/docs/config.md",
            *_described(starter.ports),
            "version: 1",
            f"deployment: {_quoted(name)}",
            "variants:",
            *_variants(starter.variants),
            "targets:",
            f"  {starter.target}:",
            *_runtime(starter),
            f"    provider: {starter.provider}",
            f"    runs_on: [{', '.join(_quoted(label) for label in starter.runs_on)}]",
            *_fixtures(starter),
            "policy:",
            "  # Measured on the model's own noise. Or ladder, or {rtol: 1e-4, atol: 1e-6}.",
            "  tolerance: calibrated",
            "  # What the product decides is worth more than a number; such as, for class scores:",
            "  # decisions: {OUTPUT: {top_k: {k: 1, max_flips: 0}}}",
            "  latency:",
            "    max_regression: 5%",
            "    enforce: false  # true turns a latency regression into a failure",
            *_release(starter.log),
            "",
        )
    )


def _described(ports: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if ports:
        yield "# The model as it is now:"
    for side, lines in ports.items():
        for line in lines:
            yield f"#   {side}: {_comment(line)}"


def _variants(variants: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    for name, path, made_from in variants:
        yield f"  {name}:"
        yield f"    path: {_quoted(path)}"
        if made_from:
            yield f"    from: {made_from}  # both run on the same inputs and are compared"


def _runtime(starter: Starter) -> Iterator[str]:
    if starter.requires:
        yield f"    # What this file pins is what is judged; now {_comment(starter.runtime)}."
        yield f"    runtime: {{requires: {_quoted(starter.requires)}}}"
    else:
        yield "    # The runtime of production; or {requires: FILE}, the lock that pins it."
        yield f"    runtime: {_quoted(starter.runtime)}"


def _fixtures(starter: Starter) -> Iterator[str]:
    if starter.generated:
        yield "# Generated inputs. Their outputs, where there are any, are the exported model's"
        yield "# own: they show that nothing moves from now on. Whether the conversion was right,"
        yield "# and how it does on real data, only real inputs with its source's outputs show:"
        yield "# ci-parity fixtures import, ci-parity fixtures capture."
    else:
        yield "# Stored inputs, with the outputs of the system the model was made from."
    yield f"fixtures: {_quoted(starter.fixtures)}"


def _release(log: str) -> Iterator[str]:
    if log:
        yield from ("release:", f"  log: {_quoted(log)}")
    else:
        yield "# A log of what was validated makes the last validated state the baseline."
        yield from ("# release:", "#   log: branch:ci-parity-log")


def _comment(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _quoted(text: str) -> str:
    """Return text in double quotes, with the escapes of YAML where a character does not print."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
