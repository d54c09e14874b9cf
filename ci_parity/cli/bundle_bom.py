"""`ci-parity bundle bom`: a bundle as a CycloneDX ML-BOM."""

from pathlib import Path

import click

from ci_parity.base.errors import EvidenceError

_EXAMPLES = """\b
Examples:
  ci-parity bundle bom release.tar --out release.cdx.json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file instead of the terminal.",
)
@click.option(
    "--digest",
    default="",
    metavar="sha256:HEX",
    help="The digest that the bundle must have, from the release log or another trusted place.",
)
def bom(path: Path, out: Path | None, digest: str) -> int:
    """Verify a bundle and write what is in it as a CycloneDX 1.6 ML-BOM."""
    from ci_parity.base.files import write_atomic
    from ci_parity.release.bundle.bom import ml_bom
    from ci_parity.release.bundle.verify import verify_bundle

    found = verify_bundle(path, digest)
    if not found.whole or found.manifest is None:
        raise EvidenceError(
            f"the bundle is refused: {found.problems[0]}",
            where=str(path),
            remedy="see all of it with `ci-parity bundle verify`, and fetch it again",
        )
    content = ml_bom(found.manifest, found.digest)
    if out is None:
        click.echo(content.decode(), nl=False)
    else:
        write_atomic(out, content)
        click.echo(f"{out}: {len(found.manifest.files)} files, sha256:{found.digest}")
    return 0
