"""`ci-parity log attest`: a line's in-toto Statement in a signed envelope, for other tools."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_parity.base.errors import ConfigError
from ci_parity.cli import options
from ci_parity.cli.logs import open_configured

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

    from ci_parity.records.release import LogLine

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_EXAMPLES = """\b
Examples:
  ci-parity log attest 17 --signing-key log.key --out release.intoto.json
  ci-parity log attest 17 --key-uri awskms:alias/releases --public-key releases.pub
  ci-parity log attest sha256:DIGEST --sigstore --github acme/models
  ci-parity log attest 17 --unsigned --out statement.json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("which", metavar="SEQ|sha256:HEX")
@options.root
@options.log
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file; line-SEQ.intoto.json by default, line-SEQ.sigstore.json with --sigstore.",
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
@click.option(
    "--sigstore",
    is_flag=True,
    help="Sign without a key, as the job that this is: a Sigstore bundle, logged in public.",
)
@click.option(
    "--trust-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --sigstore, another Sigstore than the public one: its ClientTrustConfig.",
)
@click.option(
    "--public-log",
    is_flag=True,
    help="With --sigstore, let the public log show the name of a repository that is not public.",
)
@click.option(
    "--github",
    "repository",
    default="",
    metavar="OWNER/NAME",
    help="With --sigstore, also store it beside this repository, by the token in GITHUB_TOKEN or "
    "GH_TOKEN.",
)
@click.option("--unsigned", is_flag=True, help="The bare Statement, for a tool that signs itself.")
def attest(
    which: str, root: Path, log: str, out: Path | None, signing_key: Path | None, key_uri: str,
    public_key: Path | None, trust_config: Path | None, repository: str, *, sigstore: bool,
    public_log: bool, unsigned: bool,
) -> int:  # fmt: skip
    """Write the in-toto Statement of a line, signed: a DSSE envelope, or a Sigstore bundle.

    The line is number SEQ, as `log show` counts, or the newest about a bundle. The log is verified
    first. What is written tells other tools what was judged; that the line stands in the log is
    what `log prove` shows.
    """
    from ci_parity.base.files import write_atomic

    _refuse_mixture(
        (sigstore, unsigned, bool(signing_key or key_uri or public_key)),
        bool(trust_config or repository or public_log),
    )
    seq, count, statement = _statement(root, log, which)
    if sigstore:
        content, words = _keyless(statement, trust_config, public_log=public_log)
    elif unsigned:
        content, words = statement + b"\n", "unsigned"
    else:
        content, words = _by_key(statement, signing_key, key_uri, public_key)
    path = out or Path(f"line-{seq}.{'sigstore' if sigstore else 'intoto'}.json")
    write_atomic(path, content)
    click.echo(f"{path}: record {seq} in a log of {count}, {words}")
    if repository:
        # After it is written: what was signed stands in the public log, whatever GitHub says.
        click.echo(_kept(content, repository))
    return 0


def _statement(root: Path, log: str, which: str) -> tuple[int, int, bytes]:
    """Return a line's number, how many there are, and its Statement, of a log that verifies."""
    from ci_parity.release.attestation import statement_of
    from ci_parity.release.chain import verify

    opened = open_configured(root, log)
    # Read once: the line that is attested is one that was verified.
    stored = opened.stored() or b""
    whole = stored[: stored.rfind(b"\n") + 1]
    lines = verify(whole, origin=None, where=opened.label) if whole else ()
    seq = _seq_of(which, lines)
    return seq, len(lines), statement_of(whole.split(b"\n")[seq])


def _seq_of(which: str, lines: "Sequence[LogLine]") -> int:
    """Return the number of the line that was named by it, or by the bundle it is about."""
    remedy = "name a line by the number that `ci-parity log show` prints, or a bundle that it lists"
    if match := _DIGEST.fullmatch(which):
        about = [line.seq for line in lines if line.entry.bundle == match[1]]
        if not about:
            raise ConfigError("no line is about this bundle", where=which, remedy=remedy)
        return about[-1]
    if not (which.isascii() and which.isdigit() and len(which) < 13):
        raise ConfigError(
            f"{which!a} is neither a line's number nor a digest", where="SEQ", remedy=remedy
        )
    if int(which) >= len(lines):
        raise ConfigError(f"the log has {len(lines)} lines", where="SEQ", remedy=remedy)
    return int(which)


def _refuse_mixture(ways: Sequence[bool], keyless: bool) -> None:
    if sum(ways) > 1 or (keyless and not ways[0]):
        raise ConfigError(
            "more than one way to sign is named",
            where="log attest",
            remedy="sign by a key, or by --sigstore with its --trust-config, --public-log and "
            "--github, or not at all by --unsigned",
        )


def _by_key(
    statement: bytes, signing_key: Path | None, key_uri: str, public_key: Path | None
) -> tuple[bytes, str]:
    from ci_parity.release.attestation import attest as attest_statement

    content = attest_statement(statement, _signer(signing_key, key_uri, public_key))
    return content, f"signed by {key_uri or 'the private key'}"


def _keyless(statement: bytes, trust_config: Path | None, *, public_log: bool) -> tuple[bytes, str]:
    from ci_parity.release.keyless import sign_keyless

    signed = sign_keyless(statement, trust_config, publish_name=public_log)
    return signed.bundle, f"signed as {signed.identity}"


def _kept(bundle: bytes, repository: str) -> str:
    from ci_parity.stages.releasing.attesting import Beside, keep

    return keep(bundle, Beside.of(repository, os.environ))


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
            remedy=f"pass one, set {KEY_VARIABLE}, name one by --key-uri, or say --sigstore or "
            "--unsigned",
        )
    return local_signer(text.encode() + b"\n", KEY_VARIABLE)
