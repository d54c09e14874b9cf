"""The README of a reproduction, for a maintainer who has never heard of us.

Names, messages and options come from models and runtimes: they stand in code spans, which end where
we say, or are made harmless. A command holds a requirement only where that is one.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.escape import code, prose
from ci_parity.localise.handout import results
from ci_parity.localise.reproduction_files import plain
from ci_parity.records.observation import RunStatus

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

    from ci_parity.localise.reproduction import Observed, Reproduction, System
    from ci_parity.localise.specimen import Specimen

_VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,3}", re.ASCII)
_SHOWN_NODES = 40
_SHOWN_GAPS = 20
_SHOWN_ELEMENTS = 16
_LONG = 2000


def readme(
    specimen: "Specimen", baseline: "Observed", candidate: "Observed", about: "Reproduction"
) -> str:
    """Return the whole text."""
    blocks = (
        f"# {prose(about.title)}",
        prose(about.sentence, _LONG),
        _INTRODUCTION,
        "## Run it",
        *_commands(about),
        "## What differs",
        *_difference(baseline, candidate),
        *_table(("", ""), about.figures),
        f"## The model\n\n{_models(specimen)}",
        *_nodes(specimen, about),
        "## The two systems",
        *_systems(about),
        *_origin(about),
        "## Files",
        _FILES,
    )
    return "\n\n".join(block for block in blocks if block) + "\n"


_INTRODUCTION = (
    "Two systems, the baseline and the candidate, disagree on the model and the inputs in this "
    "folder. They were cut out of a larger model: the inputs are what the baseline had there, and "
    "what the two still disagree without was left out where that could be found."
)
_FILES = """\
| file | what it is |
|---|---|
| `model.onnx`, `candidate.onnx` | the model; the second one where the candidate runs another |
| `test_data_set_0/` | inputs and the baseline's outputs, laid out as ONNX backend tests are |
| `test_data_set_candidate/` | the same inputs and the candidate's outputs |
| `inputs.npz`, `baseline.npz`, `candidate.npz` | the same for NumPy; `repro.json` has the names |
| `repro.json` | both systems, their options and results, digests |
| `reproduce.py`, `results.py`, `runtimes.py` | the script |"""
_STATUSES = """\
The script needs NumPy and the runtime, nothing else; with another version installed it says what
that one does. Its last line says which recorded result came out, and so does its exit status: 0 the
baseline's, 1 the candidate's, 2 neither, 3 it could not be run."""
_REPEATED = (
    "It runs the model {} times, as when the fault was found: runs that differ from each other, "
    "and not all of them as the baseline's, are the fault."
)
_EXPECTED = {"candidate": "fault reproduced: …", "baseline": "no fault: …"}


def _commands(about: "Reproduction") -> Iterator[str]:
    made: dict[Sequence[str], str] = {}
    for side, system, status in (
        ("candidate", about.candidate, 1),
        ("baseline", about.baseline, 0),
    ):
        if not system.family:
            yield f"The {side} ran on {code(system.runtime)}, which the script cannot start."
            continue
        python, packages = _packages(system)
        folder = made.setdefault((python, packages), f"{side}-environment")
        lines = [f"{folder}/bin/python reproduce.py --side {side}"]
        if folder.startswith(side):
            lines[:0] = [f"{python} -m venv {folder}", f"{folder}/bin/pip install {packages}"]
        block = "\n".join(("```sh", *lines, "```"))
        words = f"The {side}: it ends with status {status} and `{_EXPECTED[side]}`."
        if system.repeat > 1:
            words += f" {_REPEATED.format(system.repeat)}"
        yield f"{words}\n\n{block}"
    yield _STATUSES


def _packages(system: "System") -> tuple[str, str]:
    """Return the interpreter that makes an environment, and what is to be installed there."""
    from packaging.requirements import Requirement

    found = _VERSION.match(system.python)
    python = "python" + (".".join(found[0].split(".")[:2]) if found else "3")
    numpy = f"numpy=={system.numpy}" if _VERSION.fullmatch(system.numpy) else "numpy"
    runtime = Requirement(system.runtime)
    # It is met by the interpreter.
    runtime.marker = None
    return python, shlex.join([str(runtime), numpy])


def _difference(baseline: "Observed", candidate: "Observed") -> Iterator[str]:
    if not baseline.status is candidate.status is RunStatus.OK:
        for side, observed in (("baseline", baseline), ("candidate", candidate)):
            ended = f"ends with {observed.status.value}: {code(observed.message, 400)}"
            yield f"The {side} {ended if observed.status is not RunStatus.OK else 'runs'}."
        return
    sides = [{name: plain(v) for name, v in o.outputs.items()} for o in (candidate, baseline)]
    found = [gap for gap in results.gaps(*sides) if gap.problem or gap.size]
    yield from _table(
        ("output", "largest difference", "where: candidate instead of baseline"),
        [
            (gap.path, f"{gap.size:.6g}" if gap.size else "", gap.problem or gap.place)
            for gap in found[:_SHOWN_GAPS]
        ],
    )
    if len(found) > _SHOWN_GAPS:
        yield f"{len(found) - _SHOWN_GAPS} more differ."
    if not found:
        yield "Nothing in these results: what differs is not the same from run to run."


def _models(specimen: "Specimen") -> str:
    count = len(specimen.baseline.graph.node)
    words = f"{count} node{'s' if count != 1 else ''}, operator sets {_opsets(specimen)}"
    return words + ("." if specimen.one_model else "; the candidate's is `candidate.onnx`.")


def _opsets(specimen: "Specimen") -> str:
    return ", ".join(
        f"{code(entry.domain or 'ai.onnx')} {entry.version}"
        for entry in specimen.baseline.opset_import
    )


def _nodes(specimen: "Specimen", about: "Reproduction") -> Iterator[str]:
    guilty = {name for node in about.nodes for name in node.outputs}
    nodes = specimen.baseline.graph.node
    yield from _table(
        ("at fault", "operator", "name", "inputs", "outputs", "attributes"),
        [
            (
                "yes" if guilty & set(node.output) else "",
                f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
                node.name,
                ", ".join(node.input),
                ", ".join(node.output),
                _attributes(node),
            )
            for node in nodes[:_SHOWN_NODES]
        ],
    )
    if len(nodes) > _SHOWN_NODES:
        yield f"{len(nodes) - _SHOWN_NODES} more nodes are in the file."


def _attributes(node: "NodeProto") -> str:
    return ", ".join(f"{a.name}={_attribute(a)}" for a in node.attribute)


def _attribute(attribute: "AttributeProto") -> str:
    """Return a short text of an attribute's value."""
    from onnx import AttributeProto, helper

    plain_kinds = (
        AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.FLOATS,
        AttributeProto.INTS, AttributeProto.STRINGS,
    )  # fmt: skip
    if attribute.type not in plain_kinds:
        return f"({AttributeProto.AttributeType.Name(attribute.type).lower()})"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int | float):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    shown = [f"{item:.6g}" if isinstance(item, float) else str(item) for item in value]
    more = ["…"] if len(shown) > _SHOWN_ELEMENTS else []
    return f"[{', '.join(shown[:_SHOWN_ELEMENTS] + more)}]"


def _systems(about: "Reproduction") -> Iterator[str]:
    pair = (about.baseline, about.candidate)
    options = [{"session": s.session_options, "provider": s.provider_options} for s in pair]
    rows = (
        ("runtime", *(s.runtime for s in pair)),
        ("its own version", *(s.version for s in pair)),
        ("execution provider", *(s.provider for s in pair)),
        *(
            (f"{kind} options", *(canonical_bytes(side[kind]).decode() for side in options))
            for kind in ("session", "provider")
        ),
        ("Python", *(s.python for s in pair)),
        ("NumPy", *(s.numpy for s in pair)),
    )
    yield from _table(("", "baseline", "candidate"), [row for row in rows if any(row[1:])])
    yield from _table(("", "this machine"), about.host)


def _origin(about: "Reproduction") -> Iterator[str]:
    words = []
    if about.model:
        words.append(f"Cut out of {code(about.model)}")
    if about.model_digest:
        words.append(f"SHA-256 {code(about.model_digest)}")
    if about.case:
        words.append(f"case {code(about.case)}")
    if words:
        yield ", ".join(words) + "."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table, its first column as prose and the others as code; nothing without rows."""
    if rows:
        lines = (" | ".join((prose(first), *(code(cell, 300) for cell in rest)))
                 for first, *rest in rows)  # fmt: skip
        yield "\n".join(
            (
                f"| {' | '.join(head)} |",
                f"|{'---|' * len(head)}",
                *(f"| {line} |" for line in lines),
            )
        )
