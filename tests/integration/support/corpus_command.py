"""A case of the corpus as the words of a diff, on its stored inputs or on none."""

from pathlib import Path

from tests.corpus.catalogue import Case
from tests.integration.support.conversion_tools import convert, lacks_tool
from tests.integration.support.diff_command import lacks_wheels


def missing_for(case: Case) -> str:
    """Say what it takes to run a case and is not here; empty if nothing."""
    sides = (case.baseline, case.candidate)
    wheels = (lacks_wheels(side.requirement) or lacks_tool(side.tool) for side in sides)
    return case.lacking or next((reason for reason in wheels if reason), "")


def words_of(case: Case, model: Path, inputs: Path) -> list[str]:
    """Return the words that run a case's two sides on a model, without inputs.

    Where the candidate's model is a tool's, it is made beside the original.

    Args:
        case: what is run.
        model: its model.
        inputs: its inputs, for the tools that calibrate.
    """
    words = [str(model)]
    side = case.candidate
    if side.tool:
        converted = model.with_name("converted.onnx")
        convert(side.tool, side.tool_options, model, inputs, converted)
        words.append(str(converted))
    words += ["--repeat", str(side.repeat)]
    for name, side in (("baseline", case.baseline), ("candidate", case.candidate)):
        words += [f"--{name}-runtime", side.requirement]
        words += [word for option in side.session_options for word in (f"--{name}-option", option)]
    return words
