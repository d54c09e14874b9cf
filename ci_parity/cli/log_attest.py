"""`ci-parity log attest`: a line's in-toto Statement in a signed envelope, for other tools."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import ConfigError
from ci_parity.cli import options
from ci_parity.cli.logs import open_configured

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

_EXAMPLES = """\b
Examples:
  ci-parity log attest 17 --signing-key log.key --out release.intoto.json
  ci-parity log attest 17 --key-uri awskms:alias/releases --public-key releases.pub
  ci-parity log attest 17 --unsigned --out statement.json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("seq", type=click.IntRange(min=0))
@options.root
@options.log
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file; line-SEQ.intoto.json by default.",
)
@click.option(
    "--signing-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Private key, PEM: Ed25519, ECDSA or RSA; else the one in CI_PARITY_SIGNING_KEY.",
)
@click.option(
    "--key-uri",
    default="",
    metavar="SCHEME:KEY",
    help="A key that stays where it is kept: awskms:, gcpkms:, azurekms:, hsm:, hv:.",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The public half of --key-uri, PEM.",
)
@click.option("--unsigned", is_flag=True, help="The bare Statement, for a tool that signs itself.")
def attest(
    seq: int,
    root: Path,
    log: str,
    out: Path | None,
    signing_key: Path | None,
    key_uri: str,
    public_key: Path | None,
    *,
    unsigned: bool,
) -> int:
    """Write the in-toto Statement of line SEQ, as `log show` counts, in a signed DSSE envelope.

    The log is verified first. The envelope tells other tools what was judged; that the line stands
    in the log is what `log prove` shows.
    """
    from ci_parity.base.files import write_atomic
    from ci_parity.release.attestation import attest as attest_statement
    from ci_parity.release.attestation import statement_of
    from ci_parity.release.chain import verify

    opened = open_configured(root, log)
    # Read once: the line that is attested is one that was verified.
    stored = opened.stored() or b""
    whole = stored[: stored.rfind(b"\n") + 1]
    lines = verify(whole, origin=None, where=opened.label) if whole else ()
    if seq >= len(lines):
        raise ConfigError(
            f"the log has {len(lines)} lines",
            where="SEQ",
            remedy="name a line by the number that `ci-parity log show` prints",
        )
    statement = statement_of(whole.split(b"\n")[seq])
    if unsigned:
        content, words = statement + b"\n", "unsigned"
    else:
        content = attest_statement(statement, _signer(signing_key, key_uri, public_key))
        words = f"signed by {key_uri or 'the private key'}"
    path = out or Path(f"line-{seq}.intoto.json")
    write_atomic(path, content)
    click.echo(f"{path}: line {seq + 1} of {len(lines)}, {words}")
    return 0


def _signer(signing_key: Path | None, key_uri: str, public_key: Path | None) -> "Signer":
    from ci_parity.release.attestation import local_signer, remote_signer
    from ci_parity.release.signing import KEY_VARIABLE, key_bytes

    if key_uri:
        if public_key is None or signing_key is not None:
            raise ConfigError(
                "a key that is kept elsewhere needs its public half, and no private one",
                where="--key-uri",
                remedy="export it from there, and pass --public-key FILE alone beside it",
            )
        return remote_signer(key_uri, key_bytes(public_key), str(public_key))
    if signing_key is not None:
        return local_signer(key_bytes(signing_key), str(signing_key))
    text = os.environ.get(KEY_VARIABLE, "").strip()
    if not text:
        raise ConfigError(
            "there is no key to sign with",
            where="--signing-key",
            remedy=f"pass one, set {KEY_VARIABLE}, name one by --key-uri, or say --unsigned",
        )
    return local_signer(text.encode() + b"\n", KEY_VARIABLE)
