"""A Statement signed without a key: by the identity that this job has, as a Sigstore bundle.

The library `sigstore` asks the runner for the job's identity token, an authority for a certificate
of ten minutes about it, and a public log to hold the signature; what comes of it is verified before
it is given out. The library is an extra (`ci-parity[sigstore]`) and imported on use. What was
signed is judged by `release.vouched`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, NoReturn

from ci_parity.base.errors import ConfigError, InfrastructureError, PublishError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken

MAX_FILE_BYTES = 1024 * 1024
"""The limit of an attestation or a file of trusted roots; a log line has 64 KiB at most."""

_PUBLIC = "public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A Sigstore bundle, version 0.3, as JSON, and whose signature it holds."""

    bundle: bytes
    identity: str


def sign_keyless(
    statement: bytes, trust_config: Path | None, *, publish_name: bool, patience_s: float = 180.0
) -> Signed:
    """Sign a Statement as the job that this is.

    1. Who we are.  2. The name may become public.  3. Where to sign, and whom to trust.
    4. The signature, its certificate and its entry in the log.  5. It verifies.

    Args:
        statement: an in-toto Statement.
        trust_config: a ClientTrustConfig of another Sigstore than the public one.
        publish_name: whether the public log may show, for ever, the name of a repository that is
            not public.
        patience_s: how long the services may take in all; the library would wait for ever.

    Raises:
        ConfigError: the library, an identity, a usable file or the leave to publish is missing.
        InfrastructureError: the public Sigstore's roots cannot be had.
        PublishError: a service refuses, or what it signed does not verify.
    """
    require_library()
    token = _token()
    if trust_config is None and not publish_name:
        _refuse_private(str(token))
    config = _config(trust_config)
    return _within(patience_s, lambda: _sign(statement, config, token))


def read_limited(path: Path, remedy: str) -> bytes:
    """Return the bytes of a file that is not longer than any of its kind.

    Raises:
        ConfigError: it cannot be read, or is longer.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the file: {error.strerror or error}", where=str(path), remedy=remedy
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            f"the file has more than {MAX_FILE_BYTES} bytes", where=str(path), remedy=remedy
        )
    return data


def public_roots() -> "ClientTrustConfig":
    """Return where the public Sigstore is and whom it trusts, brought up to date by TUF.

    Raises:
        InfrastructureError: it cannot be reached, or not be trusted.
    """
    from sigstore.models import ClientTrustConfig

    try:
        return ClientTrustConfig.production()
    except Exception as error:  # TUF's, the network's and the library's own have no common root
        raise InfrastructureError(
            f"the public Sigstore's roots cannot be had: {_words(error)}",
            where="tuf-repo-cdn.sigstore.dev",
            remedy="give this machine a way there, or the roots in a file",
        ) from error


def names_in(certificate: "Certificate") -> tuple[str, ...]:
    """Return whom a certificate is of: addresses of workflows, or of mail."""
    from cryptography.x509 import RFC822Name, SubjectAlternativeName, UniformResourceIdentifier

    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    return (
        *names.get_values_for_type(UniformResourceIdentifier),
        *names.get_values_for_type(RFC822Name),
    )


def require_library() -> None:
    """Raise unless the extra is installed.

    Raises:
        ConfigError: it is not.
    """
    try:
        import sigstore.models  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ConfigError(
            f"Sigstore needs a library that is not installed: {error}",
            where="sigstore",
            remedy="install it: pip install 'ci-parity[sigstore]'; the container image has not got "
            "it",
        ) from error


def _config(path: Path | None) -> "ClientTrustConfig":
    if path is None:
        return public_roots()
    from sigstore.errors import Error
    from sigstore.models import ClientTrustConfig

    remedy = "name a ClientTrustConfig, as `sigstore --trust-config` takes it"
    data = read_limited(path, remedy)
    try:
        return ClientTrustConfig.from_json(data.decode())
    except (Error, ValueError) as error:
        raise ConfigError(
            f"not a ClientTrustConfig in JSON: {_words(error)}", where=str(path), remedy=remedy
        ) from error


def _token() -> "IdentityToken":
    from sigstore.oidc import IdentityError, IdentityToken, detect_credential

    try:
        raw = detect_credential()
        if raw is None:
            _refuse_nobody("this is no job of a CI system that Sigstore knows")
        return IdentityToken(raw)
    except IdentityError as error:
        _refuse_nobody(_words(error), error)


def _refuse_nobody(why: str, cause: Exception | None = None) -> NoReturn:
    raise ConfigError(
        f"there is no identity to sign as: {why}",
        where="--sigstore",
        remedy="give the job `permissions: {id-token: write}`; by hand, sign with --signing-key",
    ) from cause


def _refuse_private(token: str) -> None:
    import jwt

    # Whoever issues the certificate verifies the token; here it only says what we are about to do.
    claims = jwt.decode(token, options={"verify_signature": False})
    visibility = str(claims.get("repository_visibility", _PUBLIC))
    if visibility != _PUBLIC:
        raise ConfigError(
            f"the repository is {visibility}, and the public log would show its name, workflow and "
            "commit to everyone, for ever",
            where="--sigstore",
            remedy="say --public-log if that may be, name a Sigstore of your own by "
            "--trust-config, or sign with a key",
        )


def _within(patience_s: float, sign: Callable[[], Signed]) -> Signed:
    """Return what was signed in time; a thread that is late is left behind, and ends by itself."""
    box: SimpleQueue[Signed | PublishError] = SimpleQueue()

    def work() -> None:
        outcome: Signed | PublishError = PublishError("signing ended without a result")
        try:
            outcome = sign()
        except PublishError as error:
            outcome = error
        finally:
            box.put(outcome)

    Thread(target=work, name="ci-parity-sigstore", daemon=True).start()
    try:
        done = box.get(timeout=patience_s)
    except Empty:
        raise PublishError(
            f"the Statement was not signed within {patience_s:g} s",
            where="Sigstore",
            remedy="run again; a signature that the log holds already does no harm",
        ) from None
    if isinstance(done, PublishError):
        raise done
    return done


def _sign(statement: bytes, config: "ClientTrustConfig", token: "IdentityToken") -> Signed:
    from sigstore.dsse import Statement
    from sigstore.sign import SigningContext
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    try:
        with SigningContext.from_trust_config(config).signer(token) as signer:
            bundle = signer.sign_dsse(Statement(statement))
        (name,) = names_in(bundle.signing_certificate)
        Verifier(trusted_root=config.trusted_root).verify_dsse(bundle, Identity(identity=name))
    except Exception as error:  # a client's, the network's and the library's own: no common root
        raise PublishError(
            f"the Statement was not signed: {type(error).__name__}: {_words(error)}",
            where="Sigstore",
            remedy="run again; a signature that the log holds already does no harm",
        ) from error
    return Signed(bundle=bundle.to_json().encode() + b"\n", identity=name)


def _words(error: Exception) -> str:
    return ascii(str(error) or type(error).__name__)[1:-1][:300]
