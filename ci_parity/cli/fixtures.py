"""`ci-parity fixtures`: bring stored inputs and references into the ONNX test layout."""

import click

_EXAMPLES = """\b
Examples:
  ci-parity fixtures import --model model.onnx --out fixtures/ocr typical.npz smallest.npz
  ci-parity fixtures import --model model.onnx --out fixtures/ocr --class batch batch32.npz
  ci-parity fixtures import --model model.onnx --out fixtures/ocr --name one x=x.npy
"""


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Work with a fixture set."""
