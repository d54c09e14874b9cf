"""`ci-parity fixtures`: bring stored inputs and references into the ONNX test layout."""

from pathlib import Path

import click

from ci_parity.cli import options

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


_ADD_EXAMPLES = """\b
Examples:
  ci-parity fixtures add door --raw door.png
  ci-parity fixtures add door --raw door.png --class typical --snapshot
  ci-parity fixtures add pair --raw left.png --raw right.png
"""


@command.command("add", epilog=_ADD_EXAMPLES)
@click.argument("name")
@click.option(
    "--raw", "raw", multiple=True, required=True, metavar="[INPUT=]FILE",
    help="What the application got; several are the rows of a batch.",
)  # fmt: skip
@options.root
@options.config
@click.option("--class", "classes", multiple=True, help="Class of the case, such as typical.")
@click.option("--description", default="", help="What the case shows.")
@click.option(
    "--snapshot", is_flag=True,
    help="Let the first variant answer at once; without it, 'fixtures capture' asks the source.",
)  # fmt: skip
def add_(
    name: str, raw: tuple[str, ...], root: Path, config: str, classes: tuple[str, ...],
    description: str, snapshot: bool,
) -> int:  # fmt: skip
    """Store a case from a raw file, its tensors made by the pipeline of the config."""
    from ci_parity.cli.output import show_progress
    from ci_parity.stages.adding import AddOptions, add_case, parse_raw

    wanted = AddOptions(
        root=root, config=config, name=name, raw=parse_raw(raw), classes=classes,
        description=description, snapshot=snapshot,
    )  # fmt: skip
    done = add_case(wanted, show_progress())
    click.echo(f"stored {done.folder}: {', '.join(done.inputs)} made of {', '.join(raw)}")
    if done.outputs:
        click.echo(f"  references by the model itself, a snapshot: {', '.join(done.outputs)}")
    else:
        click.echo("  without references; 'ci-parity fixtures capture' asks the source for them")
    return 0


_SUGGEST_EXAMPLES = """\b
Examples:
  ci-parity fixtures suggest
  ci-parity fixtures suggest --model model.onnx --fixtures fixtures/ocr
  ci-parity fixtures suggest --model model.onnx --fixtures fixtures/ocr --write
"""


@command.command("suggest", epilog=_SUGGEST_EXAMPLES)
@options.root
@options.config
@click.option(
    "--model", type=click.Path(path_type=Path),
    help="The model to read, instead of the first variant of the config.",
)  # fmt: skip
@click.option(
    "--fixtures", "folder", type=click.Path(path_type=Path),
    help="Folder of the fixture set, new or not, instead of the config's.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Store what is missing as cases without references.")
@click.option("--seed", type=int, default=20260101, show_default=True, help="Seed of the values.")
@click.option(
    "--json", "json_path", default="",
    help="Write the suggestions as JSON to a file, or - for standard output.",
)  # fmt: skip
def suggest_(
    root: Path, config: str, model: Path | None, folder: Path | None, write: bool, seed: int,
    json_path: str,
) -> int:  # fmt: skip
    """Name the cases a fixture set lacks for this graph and its contract; nothing is run."""
    from ci_parity.base.canonical import canonical_bytes
    from ci_parity.cli.output import write_json
    from ci_parity.fixtures.suggest import chosen, lines, render, store, suggest

    wanted = chosen(root, config, model, folder)
    found = suggest(wanted.model, wanted.fixtures, seed, wanted.contract)
    stored = store(found, wanted.folder_to_write()) if write else ()
    if json_path != "-":
        for line in lines(found, stored):
            click.echo(line)
    if json_path:
        write_json(canonical_bytes(render(found, stored)) + b"\n", json_path)
    return 0


_CAPTURE_EXAMPLES = """\b
Examples:
  ci-parity fixtures capture
  ci-parity fixtures capture --case typical --case smallest
  ci-parity fixtures capture --replace --dry-run
"""


@command.command("capture", epilog=_CAPTURE_EXAMPLES)
@options.root
@options.config
@click.option(
    "--case", "cases", multiple=True, help="Case to capture; all without references by default."
)
@click.option(
    "--replace", is_flag=True, help="Also compute references that exist, and say how far they are."
)
@click.option("--dry-run", is_flag=True, help="Run and check the source, store nothing.")
def capture_(root: Path, config: str, cases: tuple[str, ...], replace: bool, dry_run: bool) -> int:
    """Run the configured source on the stored inputs and store its outputs as references."""
    import os

    from ci_parity.cli.output import show_progress
    from ci_parity.stages.capture import CapturedCase, CaptureOptions, capture

    verb = "would capture" if dry_run else "captured"

    def tell(case: CapturedCase) -> None:
        apart = case.repeat_max_abs
        repeats = f"repeats within {apart:.3g}" if apart else "repeats exactly"
        words = [*case.outputs, repeats, *([case.change] if case.change else [])]
        click.echo(f"{verb} {case.name}: {', '.join(words)}")
        if case.nan:
            click.echo(f"  warning: {case.nan} of its elements are NaN")

    wanted = CaptureOptions(root=root, config=config, cases=cases, replace=replace, dry_run=dry_run)
    done = capture(wanted, os.environ, show_progress(), tell)
    for warning in done.warnings:
        click.echo(f"  warning: {warning}")
    if done.cases:
        click.echo(f"  source: {done.provenance}")
    else:
        click.echo("every case has references; --replace computes them again")
    return 0
