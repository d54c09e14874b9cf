"""`ci-parity bundle attested`: who vouches, by Sigstore, for what was judged of a bundle."""

import os
import re
from pathlib import Path

import click

from ci_parity.base.errors import EvidenceError
from ci_parity.base.escape import visible
from ci_parity.records.outcome import Outcome

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_EXAMPLES = """\b
Examples:
  ci-parity bundle attested release.tar --attestation release.sigstore.json \\
    --identity 'https://github.com/acme/models/.github/workflows/release.yml@refs/tags/*'
  ci-parity bundle attested sha256:DIGEST --github acme/models --trusted-root trusted_root.json \\
    --identity https://github.com/acme/models/.github/workflows/release.yml@refs/heads/main
"""


@click.command(epilog=_EXAMPLES)
@click.argument("bundle", metavar="BUNDLE|sha256:HEX")
@click.option(
    "--attestation",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="A Sigstore bundle, or one in each line; each must vouch.",
)
@click.option(
    "--github",
    "repository",
    default="",
    metavar="OWNER/NAME",
    help="Also look beside this repository, with the token in GITHUB_TOKEN or GH_TOKEN.",
)
@click.option(
    "--identity",
    required=True,
    help="Who must have signed: the workflow's address with its ref, of which /* may leave open "
    "the end.",
)
@click.option(
    "--issuer",
    default="",
    help="Who must have vouched for that identity: an OpenID issuer; GitHub Actions' by default.",
)
@click.option(
    "--trusted-root",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Whom to trust, a trusted_root.json; by default the public Sigstore's, brought by TUF.",
)
def command(
    bundle: str, files: tuple[Path, ...], repository: str, identity: str, issuer: str,
    trusted_root: Path | None,
) -> int:  # fmt: skip
    """Judge the Sigstore attestations of a bundle: what `log attest --sigstore` signed.

    A folder or archive is held to its manifest first. What vouches is the signature of the identity
    named, under a certificate of its issuer, held by a public log, of a Statement about this very
    bundle. Its newest result that says pass or fail is the answer. With a trusted root in a file
    nothing is asked of any network. That a bundle was revoked since, only the release log tells.

    Exit codes: 0 it passed; 1 it failed, or an attestation is refused; 3 unsigned, or it says
    neither; 4 the bundle is not whole, or something is malformed.
    """
    from ci_parity.release.vouched import GITHUB_ISSUER, Asked, Roots
    from ci_parity.stages.releasing.attesting import Beside, attested

    asked = Asked(digest=_digest_of(bundle), identity=identity, issuer=issuer or GITHUB_ISSUER)
    beside = Beside.of(repository, os.environ) if repository else None
    outcome = attested(asked, files, beside, Roots(trusted_root), _say)
    if outcome is Outcome.PASS:
        _say(f"sha256:{asked.digest}: attested")
    return outcome.exit_code


def _digest_of(bundle: str) -> str:
    """Return the digest that was named, or that of a bundle that is whole.

    Raises:
        EvidenceError: the bundle is not.
    """
    from ci_parity.release.bundle.verify import verify_bundle

    if match := _DIGEST.fullmatch(bundle):
        return match[1]
    found = verify_bundle(Path(bundle))
    if not found.whole:
        raise EvidenceError(
            f"the bundle is not whole: {found.problems[0]}",
            where=bundle,
            remedy="bring it again; `ci-parity bundle verify` names everything that is wrong",
        )
    return found.digest


def _say(words: str) -> None:
    click.echo(visible(words, 600))
