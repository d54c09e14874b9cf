"""`ci-parity fixtures`: bring stored inputs and references into the ONNX test layout."""

from pathlib import Path

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


@command.command("import", epilog=_EXAMPLES)
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--model", required=True, type=click.Path(path_type=Path), help="The model the cases are for."
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path),
    help="Folder of the fixture set, new or not.",
)  # fmt: skip
@click.option(
    "--outputs", "references", multiple=True,
    help="References in files of their own, one for each source, in that order.",
)  # fmt: skip
@click.option("--name", "names", multiple=True, help="Name of a case; the file's by default.")
@click.option("--class", "classes", multiple=True, help="Class of the cases, such as typical.")
@click.option("--license", "license_", default="", help="Licence of a new fixture set.")
def import_(
    sources: tuple[str, ...], model: Path, out: Path, references: tuple[str, ...],
    names: tuple[str, ...], classes: tuple[str, ...], license_: str,
) -> int:  # fmt: skip
    """Store .npz or NAME=FILE.npy arrays as cases; arrays named like outputs are references."""
    from ci_parity.fixtures.importer import Labels, import_arrays, parse_source
    from ci_parity.fixtures.signature import read_signature

    folders = import_arrays(
        [parse_source(text) for text in sources],
        read_signature(model),
        out,
        references=[parse_source(text) for text in references],
        names=names,
        labels=Labels(classes=classes, license=license_),
    )
    for folder in folders:
        click.echo(f"stored {folder}")
    return 0
