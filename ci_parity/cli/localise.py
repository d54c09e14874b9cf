"""`ci-parity localise`: two systems that disagree, and the first node that went wrong."""

from typing import Any

import click

from ci_parity.cli import diff, options
from ci_parity.cli.output import files_in_any_case, show_progress, write_files, write_json

_EXAMPLES = """\b
Examples:
  ci-parity localise model.onnx --candidate-runtime onnxruntime==1.32.0
  ci-parity localise model.onnx --baseline-option graph_optimization_level=disable_all
  ci-parity localise float.onnx int8.onnx --inputs fixtures/ocr --repro-dir repro
"""
_NO_LATENCY = {"latency": False, "max_latency_regression": "", "pin": "", "batch_sizes": ()}
_LEFT_OUT = {"localise", *_NO_LATENCY}


def _localise(**given: Any) -> int:  # noqa: ANN401 - click hands options over by name
    from ci_parity.pipeline import diff as run
    from ci_parity.report import json_v1, text
    from ci_parity.stages.report_folder import json_bytes

    usual = {"localise": True, **_NO_LATENCY}
    files = options.asked_files(given)
    with files_in_any_case(files):
        verdict = run(diff.diff_options({**given, **usual}, "localise"), show_progress())
    if given["json_path"] != "-":
        click.echo(text.render_divergences(verdict), nl=False)
    if given["json_path"]:
        write_json(json_bytes(json_v1.render_diff(verdict)), given["json_path"])
    return write_files(verdict, files, given["repro_dir"])


command = diff.DiffCommand(
    "localise",
    params=[param for param in diff.command.params if param.name not in _LEFT_OUT],
    callback=_localise,
    help="Run BASELINE and CANDIDATE (the same model by default) and name the node, or the fused "
    "nodes, that make the candidate's outputs differ. Exit codes are those of diff.",
    epilog=_EXAMPLES,
)
