"""`ci-parity init`: config, workflow and first fixtures, from what a repository says of itself."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.cli import options

if TYPE_CHECKING:
    from ci_parity.stages.starting.proposal import InitOptions, Proposal

_EXAMPLES = """\b
Examples:
  ci-parity init
  ci-parity init --dry-run
  ci-parity init models/reader.onnx --dim width=320
  ci-parity init models/reader.onnx --log branch:ci-parity-log
  ci-parity init --root services/ocr --platform forgejo
"""


@click.command(epilog=_EXAMPLES)
@click.argument("models", metavar="[MODEL]...", nargs=-1, type=click.Path(path_type=Path))
@options.root
@click.option(
    "--fixtures", default="", help="Folder of the fixture set; fixtures/MODEL by default."
)
@click.option("--out", default="", help="The config to write; ci-parity.yml by default.")
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=SIZE",
    help="Size of a symbolic dimension of the generated inputs.",
)  # fmt: skip
@click.option(
    "--platform", type=click.Choice(["github", "forgejo", "gitea", "gitlab"]),
    help="Whose workflow to write; the remote's by default.",
)  # fmt: skip
@click.option(
    "--log", default="", metavar="SPEC",
    help="Release log to keep, branch:NAME, s3://BUCKET/PREFIX or file:PATH; none by default.",
)  # fmt: skip
@click.option("--no-run", is_flag=True, help="Store inputs without references; run no model.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, write and run nothing.")
def command(
    models: tuple[Path, ...], root: Path, fixtures: str, out: str, dims: tuple[str, ...],
    platform: str | None, log: str, no_run: bool, dry_run: bool,
) -> int:  # fmt: skip
    """Write a config, a workflow and first fixtures for the repository's models.

    Models, runtime, platform, branch and runner labels are found where MODEL and options leave them
    open; what was guessed is said. Nothing that exists is changed.
    """
    from ci_parity.cli.diff import dims_of
    from ci_parity.stages.starting.proposal import InitOptions, propose

    wanted = InitOptions(
        root=root, models=models, fixtures=fixtures, out=out, platform=platform or "", log=log,
        dims=dims_of(dims), run=not no_run,
    )  # fmt: skip
    proposal = propose(wanted)
    for line in proposal.found:
        click.echo(f"found {line}")
    for path in proposal.kept:
        click.echo(f"kept {path.relative_to(proposal.surroundings.top)}: it is there already")
    if dry_run:
        _would(proposal)
    else:
        _write(proposal, wanted)
    if proposal.guessed:
        click.echo("guessed:")
    for line in proposal.guessed:
        click.echo(f"  {line}")
    return 0


def _would(proposal: "Proposal") -> None:
    top = proposal.surroundings.top
    for wanted in proposal.cases:
        click.echo(f"would write {wanted.folder.relative_to(top)}: generated inputs")
    for path, text in proposal.texts.items():
        click.echo(f"would write {path.relative_to(top)}:")
        for line in text.splitlines():
            click.echo(f"    {line}".rstrip())


def _write(proposal: "Proposal", wanted: "InitOptions") -> None:
    import tempfile

    from ci_parity.cli.output import show_progress
    from ci_parity.config import CONFIG_NAME
    from ci_parity.stages.starting.proposal import next_steps, write

    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        for line in write(proposal, wanted, Path(scratch), show_progress()):
            click.echo(line)
    if not proposal.texts and not proposal.cases:
        click.echo("nothing to write")
        return
    for config in proposal.configs:
        named = "" if config == CONFIG_NAME else f" --config {config}"
        click.echo(f"look with 'ci-parity check --force{named}'")
    click.echo("then:")
    for line in next_steps(proposal):
        click.echo(f"  {line}")
