"""`ci-parity init`: a commented config for a model, from what can be read off it."""

from pathlib import Path

import click

from ci_parity.base.errors import ConfigError

_EXAMPLES = """\b
Examples:
  ci-parity init models/digits.onnx
  ci-parity init models/digits.onnx --fixtures fixtures/digits --out ci-parity.yml
"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--fixtures", default="", help="Folder of the fixture set; fixtures/MODEL by default."
)
@click.option(
    "--out", type=click.Path(path_type=Path), default="ci-parity.yml", show_default=True,
    help="The config to write.",
)  # fmt: skip
def command(model: Path, fixtures: str, out: Path) -> int:
    """Write a commented config for MODEL and say what comes next."""
    from ci_parity.base.files import write_atomic
    from ci_parity.config.discover import pinned_runtime
    from ci_parity.config.starter import starter_config
    from ci_parity.fixtures.signature import read_signature

    root = out.resolve().parent
    if out.exists():
        raise ConfigError(
            "there is a config already", where=str(out), remedy="edit it, or pass another --out"
        )
    signature = read_signature(model)
    if not model.resolve().is_relative_to(root):
        raise ConfigError(
            "the model lies outside the config's folder",
            where=str(model),
            remedy="write the config at the top of the repository that holds the model",
        )
    relative = model.resolve().relative_to(root).as_posix()
    folder = fixtures or f"fixtures/{model.stem}"
    ports = {
        side: [f"{port.name}: {port.dtype or port.kind} {port.describe_shape()}" for port in found]
        for side, found in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }
    text = starter_config(model.stem, relative, folder, pinned_runtime(root), ports)
    write_atomic(out, text.encode())
    click.echo(f"wrote {out}")
    click.echo("next:")
    if not (root / folder).is_dir():
        click.echo(f"  ci-parity fixtures import --model {relative} --out {folder} inputs.npz")
    click.echo("  ci-parity check --force")
    return 0
