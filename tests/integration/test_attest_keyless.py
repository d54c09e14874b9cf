"""`log attest --sigstore` and `bundle attested`: signed as a workflow, and held to it, for real.

The services are our own on the loopback interface (`tests.support.keyless`), in both versions of
the public log's interface; every signature, certificate and proof is real, and the library is told
where the services are as it is told of any private Sigstore.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sigstore.dsse import Statement
from sigstore.models import ClientTrustConfig
from sigstore.oidc import IdentityToken, detect_credential
from sigstore.sign import SigningContext

from ci_parity.base.errors import PublishError
from ci_parity.cli import run
from ci_parity.records.release import EntryKind
from ci_parity.release.keyless import sign_keyless
from ci_parity.release.vouched import Asked, Roots, examine
from tests.support.github_server import Fault, GitHubServer
from tests.support.keyless import changes
from tests.support.keyless.authority import Authority
from tests.support.keyless.stack import IDENTITY, ISSUER, WORKFLOW, Keyless
from tests.unit.release.samples import digest, entry, log_of

Output = pytest.CaptureFixture[str]
TAGS = IDENTITY.replace("@refs/tags/v1", "@refs/tags/*")
WHOLE = f"sha256:{digest('bundle 1')}"


def changed_kind(number: int, kind: EntryKind, **changes: Any) -> Any:
    """Return an entry of another kind about the same bundle as line 1."""
    return entry(
        number, kind=kind, bundle=digest("bundle 1"), idempotency=f"{number}/{kind.value}",
        **changes,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work beside a log of three lines, outside any CI system, without a key or a token."""
    for name in (
        "CI_PARITY_SIGNING_KEY", "GITHUB_ACTIONS", "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_API_URL",
        "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(log_of(*(entry(number) for number in range(3))))
    return tmp_path


@pytest.fixture(params=[1, 2], ids=["log-v1", "log-v2"])
def services(
    request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Keyless]:
    """Serve each version of the services, trusted by the files here, to a job that may sign."""
    with _serving(here, monkeypatch, version=request.param) as serving:
        yield serving


@pytest.fixture
def stack(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyless]:
    """Serve one version."""
    with _serving(here, monkeypatch) as serving:
        yield serving


def _serving(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Keyless:
    scratch = folder / "services"
    scratch.mkdir()
    serving = Keyless(scratch, **settings)
    serving.write(folder)
    for name, value in serving.environment.items():
        monkeypatch.setenv(name, value)
    return serving


def attest(which: str = "1", *words: str) -> int:
    """Sign a line's Statement by the services here, into `a.json`."""
    return run(
        ["log", "attest", which, "--log", "log.jsonl", "--sigstore", "--trust-config", "trust.json",
         "--out", "a.json", *words]
    )  # fmt: skip


def attested(*words: str, whole: str = WHOLE, identity: str = IDENTITY) -> int:
    """Judge attestations of a bundle, trusting the services here alone."""
    return run(
        ["bundle", "attested", whole, "--identity", identity, "--trusted-root",
         "trusted_root.json", *words]
    )  # fmt: skip


def rewritten(change: Callable[[dict[str, Any]], None]) -> None:
    """Change `a.json` in place."""
    path = Path("a.json")
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_a_statement_is_signed_as_the_job_and_verifies(services: Keyless, capsys: Output) -> None:
    """The bundle is of version 0.3, and holds the very Statement of the line."""
    assert attest() == 0
    assert f"record 1 in a log of 3, signed as {IDENTITY}" in capsys.readouterr().out
    value = json.loads(Path("a.json").read_text())
    line = json.loads(Path("log.jsonl").read_bytes().splitlines()[1])
    assert value["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert json.loads(base64.b64decode(value["dsseEnvelope"]["payload"])) == line["statement"]
    asked = len(services.asked)
    assert attested("--attestation", "a.json") == 0
    said = capsys.readouterr().out
    assert f"PASSED, 40 of 40 cases, finished 2026-11-30T10:01:00Z, signed by {IDENTITY}" in said
    assert f"{WHOLE}: attested" in said
    assert len(services.asked) == asked, "verifying needs no network"


def test_sigstores_own_command_reads_it(services: Keyless, here: Path) -> None:
    """Offline, from the same files; the artifact is the manifest that the digest is of."""
    manifest = here / "bundle.json"
    manifest.write_bytes(b"bundle 1")
    assert attest() == 0
    done = subprocess.run(
        [sys.executable, "-m", "sigstore", "--trust-config", "trust.json", "verify", "identity",
         "--offline", "--bundle", "a.json", "--cert-identity", IDENTITY, "--cert-oidc-issuer",
         ISSUER, manifest],
        cwd=here, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stderr + done.stdout
    assert services.asked


def test_any_tag_of_one_workflow_may_be_accepted(stack: Keyless, capsys: Output) -> None:
    """What may stay open is the end of the ref: not the workflow, not the repository."""
    assert attest() == 0
    assert attested("--attestation", "a.json", identity=TAGS) == 0
    assert attested("--attestation", "a.json", "--issuer", "https://accounts.example") == 1
    assert stack.asked
    heads = IDENTITY.replace("@refs/tags/v1", "@refs/heads/*")
    assert attested("--attestation", "a.json", identity=heads) == 1
    capsys.readouterr()
    for loose in ("*", "https://github.com/acme/*", f"{IDENTITY}*", IDENTITY.split("@")[0] + "*"):
        assert attested("--attestation", "a.json", identity=loose) == 2
        assert "does not name who must have signed" in capsys.readouterr().err


def test_the_newest_line_of_a_bundle_is_attested(stack: Keyless, capsys: Output) -> None:
    """A workflow knows the digest, not the line's number."""
    lines = [*(entry(number) for number in range(3)), changed_kind(3, EntryKind.RELEASED)]
    Path("log.jsonl").write_bytes(log_of(*lines))
    assert attest(WHOLE) == 0
    assert "record 3 in a log of 4" in capsys.readouterr().out
    assert attested("--attestation", "a.json") == 0
    assert attest(f"sha256:{digest('never seen')}") == 2
    assert "no line is about this bundle" in capsys.readouterr().err
    assert stack.asked


def signed_by_others(statement: dict[str, Any]) -> None:
    """Sign a Statement as other tools do, spelt as they spell it, into `a.json`."""
    token = detect_credential()
    assert token is not None
    config = ClientTrustConfig.from_json(Path("trust.json").read_text())
    with SigningContext.from_trust_config(config).signer(IdentityToken(token)) as signer:
        bundle = signer.sign_dsse(Statement(json.dumps(statement, indent=1).encode()))
    Path("a.json").write_text(bundle.to_json())


def test_what_others_signed_is_read(stack: Keyless, capsys: Output) -> None:
    """As actions/attest signs a predicate of ours, in its own spelling of JSON."""
    statement = json.loads(Path("log.jsonl").read_bytes().splitlines()[1])["statement"]
    signed_by_others(statement)
    assert attested("--attestation", "a.json") == 0
    assert stack.asked
    statement["predicate"]["fixtures"]["run"] = 39
    signed_by_others(statement)
    assert attested("--attestation", "a.json") == 1
    assert "without the evidence of a pass" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"predicateType": "https://slsa.dev/provenance/v1"}, "something else of its subject"),
        ({"predicate": {}}, "not one of ours: it has no result"),
        ({"predicate": {"result": "PASSED"}}, "not one of ours"),
        (
            {
                "subject": [
                    {"name": name, "digest": {"sha256": digest("bundle 1")}} for name in "ab"
                ]
            },
            "exactly 1 belongs",
        ),
    ],
    ids=["kind", "empty", "bare", "subjects"],
)
def test_50_what_others_say_is_no_pass(
    stack: Keyless, capsys: Output, change: dict[str, Any], words: str
) -> None:
    """The right workflow signs other things about the same digest, too."""
    statement = json.loads(Path("log.jsonl").read_bytes().splitlines()[1])["statement"]
    signed_by_others(statement | change)
    assert attested("--attestation", "a.json") == 1
    assert words in capsys.readouterr().out
    assert stack.asked


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"job_workflow_ref": WORKFLOW.replace("release", "evil")}, "evil.yml"),
        ({"job_workflow_ref": WORKFLOW.replace("acme", "mallory")}, "mallory/models"),
        ({"job_workflow_ref": WORKFLOW.replace("tags/v1", "heads/evil")}, "heads/evil"),
        ({"iss": "https://accounts.example"}, "another issuer than"),
        ({"email": "mallory@mail.example"}, "mallory@mail.example"),
    ],
    ids=["workflow", "repository", "ref", "issuer", "person"],
)
def test_50_another_identity_is_refused(
    stack: Keyless, capsys: Output, claims: dict[str, str], words: str
) -> None:
    """Anyone gets a certificate; what counts is whose."""
    stack.claims |= claims
    assert attest() == 0
    capsys.readouterr()
    assert attested("--attestation", "a.json") == 1
    assert words in capsys.readouterr().out


def test_12_an_attestation_of_another_bundle_is_refused(stack: Keyless, capsys: Output) -> None:
    """It is signed by the right one, and it is about something else."""
    assert attest("0") == 0
    assert attested("--attestation", "a.json") == 1
    assert f"it is of another bundle, sha256:{digest('bundle 0')}" in capsys.readouterr().out
    assert stack.asked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changes.swapped_statement, "it does not verify: DSSE: invalid signature"),
        (changes.no_proof, "it has no inclusion proof"),
        (changes.no_entry, "it has no inclusion proof"),
        (changes.another_place, "it does not verify: invalid log entry: inclusion proof"),
        (
            changes.bigger_log,
            "it does not verify: invalid log entry: checkpoint: invalid signature",
        ),
        (changes.no_time, "inclusion promise or signed timestamp"),
        (changes.another_log_entry, "it does not verify: invalid log entry: inclusion proof"),
        (changes.of_a_file, "it vouches for a file, not for a Statement"),
        (changes.two_signatures, "it does not verify: envelope must contain exactly one"),
        (changes.no_certificate, "it is no Sigstore bundle that can be read"),
        (lambda value: value.update(mediaType="text/plain"), "it is no Sigstore bundle"),
    ],
)
def test_43_an_altered_attestation_is_refused(
    services: Keyless, capsys: Output, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    """Each part is bound to the others; the reason is named."""
    assert attest() == 0
    capsys.readouterr()
    rewritten(change)
    assert attested("--attestation", "a.json") == 1
    assert words in capsys.readouterr().out
    assert services.asked


def test_43_every_part_of_an_attestation_is_bound(services: Keyless) -> None:
    """One part after the other is changed or left out; none of what remains vouches."""
    assert attest() == 0
    value = json.loads(Path("a.json").read_text())
    roots = Roots(Path("trusted_root.json"))
    asked = Asked(digest=digest("bundle 1"), identity=IDENTITY)
    vouching = {
        ".".join(map(str, place))
        for place in changes.parts(value)
        if examine(
            json.dumps(changes.without(value, place)).encode(), asked, roots, where="changed"
        ).entry
    }
    assert examine(json.dumps(value).encode(), asked, roots, where="whole").entry
    assert vouching == changes.UNBOUND[services.version]
    assert services.asked


def test_50_what_is_unsigned_is_said_to_be(here: Path, stack: Keyless, capsys: Output) -> None:
    """A bare Statement, an envelope by a key, and nothing at all: none of them is a pass."""
    bare = ["log", "attest", "1", "--log", "log.jsonl", "--unsigned", "--out", "bare.json"]
    assert run(bare) == 0
    capsys.readouterr()
    assert attested("--attestation", "bare.json") == 3
    assert "unsigned: a bare Statement" in capsys.readouterr().out
    (here / "dsse.json").write_text('{"payload":"","payloadType":"","signatures":[]}')
    assert attested("--attestation", "dsse.json") == 3
    assert "signed by a key, not a Sigstore bundle" in capsys.readouterr().out
    assert attested() == 3
    assert f"unsigned: nothing vouches for {WHOLE}" in capsys.readouterr().out
    assert stack.url


@pytest.mark.parametrize(("text", "code"), [("", 4), ("[]", 4), ('{"a":1,"a":2}', 4), ("{}", 1)])
def test_41_what_is_no_bundle_is_no_pass(here: Path, stack: Keyless, text: str, code: int) -> None:
    """Malformed bytes are evidence that cannot be read."""
    (here / "a.json").write_text(text)
    assert attested("--attestation", "a.json") == code
    assert stack.url


def test_50_another_authority_is_refused(here: Path, stack: Keyless, capsys: Output) -> None:
    """A certificate that says the right name proves nothing without who issued it."""
    assert attest() == 0
    other = Keyless(here / "services", authority=Authority(name="mallory's"))
    other.log = stack.log
    other.write(here)
    with other:
        assert attested("--attestation", "a.json") == 1
    assert "its certificate is of no trusted authority" in capsys.readouterr().out


def test_48_a_root_that_had_expired_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A signature from after the end of the authority's own certificate."""
    now = datetime.now(UTC)
    ended = Authority(begins=now - timedelta(days=3), ends=now - timedelta(days=1))
    with _serving(here, monkeypatch, authority=ended) as stack:
        assert attest() == 6
        assert "the Statement was not signed" in capsys.readouterr().err
        assert not Path("a.json").exists()
        # Others may write down what we do not.
        signed_by_others(json.loads(Path("log.jsonl").read_bytes().splitlines()[1])["statement"])
        assert attested("--attestation", "a.json") == 1
        assert "the root has expired, or is younger" in capsys.readouterr().out
        root = stack.trusted_root()
        del root["certificateAuthorities"][0]["validFor"]["end"]
        (here / "trusted_root.json").write_text(json.dumps(root))
        assert attested("--attestation", "a.json") == 1
        assert "of none that was valid then" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["certificateAuthorities", "tlogs", "ctlogs"])
def test_48_a_root_that_no_longer_vouched_is_refused(
    stack: Keyless, here: Path, capsys: Output, named: str
) -> None:
    """Whoever keeps the roots ends an authority or a log that was lost, by its time in the file."""
    assert attest() == 0
    capsys.readouterr()
    root = stack.trusted_root()
    holder = root[named][0]
    window = (holder if named == "certificateAuthorities" else holder["publicKey"])["validFor"]
    window["end"] = "2026-01-01T00:00:00Z"
    (here / "trusted_root.json").write_text(json.dumps(root))
    assert attested("--attestation", "a.json") == 1
    assert "the root has expired, or is younger" in capsys.readouterr().out


def test_roots_come_in_several_forms(stack: Keyless, here: Path, capsys: Output) -> None:
    """One in each line, as GitHub's command prints them, and beside where to sign."""
    assert attest() == 0
    foreign = Keyless(here / "services")
    lines = [json.dumps(one.trusted_root()) for one in (foreign, stack)]
    foreign._http.server_close()
    (here / "trusted_root.json").write_text("\n".join(lines) + "\n")
    assert attested("--attestation", "a.json") == 0
    (here / "trusted_root.json").write_text(json.dumps(stack.trust_config()))
    assert attested("--attestation", "a.json") == 0
    capsys.readouterr()
    (here / "trusted_root.json").write_text('{"mediaType":"text/plain"}')
    assert attested("--attestation", "a.json") == 2
    assert "no trusted roots" in capsys.readouterr().err


# --- what several attestations come to -----------------------------------------------------------


def _both(*lines: Any) -> int:
    """Attest lines about one bundle and judge all of it."""
    Path("log.jsonl").write_bytes(log_of(*lines))
    for number in range(len(lines)):
        assert attest(str(number), "--out", f"{number}.json") == 0
    files = [word for number in range(len(lines)) for word in ("--attestation", f"{number}.json")]
    return attested(*files)


def test_56_a_later_failure_takes_a_pass_away(stack: Keyless) -> None:
    """As in the log: the newest word that says pass or fail decides."""
    passed = changed_kind(1, EntryKind.VALIDATED)
    blocked = changed_kind(2, EntryKind.BLOCKED, findings_failed=("outputs.match",))
    revoked = changed_kind(3, EntryKind.REVOKED, findings_failed=("labels were swapped",))
    undecided = changed_kind(4, EntryKind.INCONCLUSIVE, cases_run=3)
    back = changed_kind(5, EntryKind.ROLLED_BACK, findings_failed=("latency",))
    assert _both(passed, blocked) == 1
    assert _both(passed, revoked) == 1
    assert _both(blocked, changed_kind(6, EntryKind.VALIDATED)) == 0
    assert _both(passed, undecided) == 0
    assert _both(undecided) == 3
    assert _both(revoked, back) == 0
    assert stack.asked


def test_a_bundle_is_held_to_its_manifest_first(stack: Keyless, here: Path, capsys: Output) -> None:
    """The attestation speaks of the manifest; the files are held to that."""
    (here / "bundle").mkdir()
    (here / "bundle" / "bundle.json").write_text("{}")
    assert attest() == 0
    capsys.readouterr()
    assert attested("--attestation", "a.json", whole="bundle") == 4
    assert "the bundle is not whole" in capsys.readouterr().err
    assert stack.asked


# --- who may sign, and when signing fails --------------------------------------------------------


def test_50_without_an_identity_nothing_is_signed(
    stack: Keyless, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """By hand, and in a job without the permission; the remedy names it."""
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    assert attest() == 2
    assert "id-token: write" in capsys.readouterr().err
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert attest() == 2
    assert "there is no identity to sign as" in capsys.readouterr().err
    assert not Path("a.json").exists()
    assert stack.asked == []


@pytest.mark.parametrize("path", ["/token", "/api/v2/signingCert", "/api/v1/log/entries"])
def test_51_a_service_that_refuses_leaves_nothing_behind(
    stack: Keyless, capsys: Output, path: str
) -> None:
    """No file that could pass for an attestation, and no token in what is said."""
    stack.refusals[path] = 503
    assert attest() in {2, 6}
    assert "eyJ" not in capsys.readouterr().err
    assert not Path("a.json").exists()


def test_51_a_service_that_never_answers_is_given_up(stack: Keyless) -> None:
    """The library would wait for it for ever."""
    stack.silent = "/api/v2/signingCert"
    statement = json.loads(Path("log.jsonl").read_bytes().splitlines()[1])["statement"]
    with pytest.raises(PublishError, match="not signed within"):
        sign_keyless(
            json.dumps(statement).encode(), Path("trust.json"), publish_name=False, patience_s=0.2
        )
    assert "/api/v1/log/entries" not in stack.asked


def test_what_the_log_did_not_hold_is_not_given_out(stack: Keyless, capsys: Output) -> None:
    """A log that answers with another key's proof is found out before anything is written."""
    stack.log.key = Authority().log_key
    assert attest() == 6
    assert "the Statement was not signed" in capsys.readouterr().err
    assert not Path("a.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["log", "attest", "1", "--log", "log.jsonl", "--sigstore"],
        ["bundle", "attested", WHOLE, "--identity", IDENTITY],
    ],
    ids=["sign", "verify"],
)
def test_without_the_library_its_extra_is_named(here: Path, words: list[str]) -> None:
    """The container image has not got it; what signs by a key does not need it."""
    program = (
        "import sys; sys.modules['sigstore'] = None\n"
        "from ci_parity.cli import run\n"
        "assert run(['log', 'attest', '1', '--log', 'log.jsonl', '--unsigned']) == 0\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=here, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'ci-parity[sigstore]'" in done.stderr
    assert not list(here.glob("*.sigstore.json"))


def test_ways_of_signing_do_not_mix(stack: Keyless, capsys: Output) -> None:
    """Whoever names two means something that would not happen."""
    assert attest("1", "--unsigned") == 2
    assert attest("1", "--signing-key", "log.key") == 2
    assert run(["log", "attest", "1", "--log", "log.jsonl", "--github", "acme/models"]) == 2
    assert "more than one way to sign" in capsys.readouterr().err
    assert stack.asked == []


# --- beside the repository -----------------------------------------------------------------------


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    """Serve GitHub's API to a job that may write attestations."""
    with GitHubServer() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_TOKEN", "attest-token")
        yield server


def test_it_stands_beside_the_repository(
    stack: Keyless, github: GitHubServer, capsys: Output
) -> None:
    """Stored as it was signed, found by the bundle's digest, judged like a file."""
    assert attest("1", "--github", "acme/models") == 0
    assert "kept beside acme/models as attestation 1" in capsys.readouterr().out
    ((about, kind, kept),) = github.attestations
    assert about == {digest("bundle 1")}
    assert kind == "https://ci-parity.dev/parity-release/v1"
    assert kept == json.loads(Path("a.json").read_text())
    assert attested("--github", "acme/models") == 0
    assert "beside acme/models: PASSED" in capsys.readouterr().out
    assert stack.asked


def test_50_nothing_beside_the_repository_is_unsigned(
    stack: Keyless, github: GitHubServer, capsys: Output
) -> None:
    """It is said plainly, and it is no pass."""
    assert attested("--github", "acme/models") == 3
    said = capsys.readouterr().out
    assert "beside acme/models: no attestation" in said
    assert f"unsigned: nothing vouches for {WHOLE}" in said
    github.fail(Fault(method="GET", path="/attestations/", status=404))
    github.fail(Fault(method="GET", path="/repos/acme/models$", status=404))
    assert attested("--github", "acme/models") == 6
    assert stack.url


def test_a_strangers_attestation_takes_nothing_away(
    stack: Keyless, github: GitHubServer, capsys: Output
) -> None:
    """Any workflow of the repository may store one; only the right one's counts."""
    assert attest("1", "--github", "acme/models") == 0
    stack.claims["job_workflow_ref"] = WORKFLOW.replace("release", "other")
    assert attest("1", "--github", "acme/models") == 0
    capsys.readouterr()
    assert attested("--github", "acme/models") == 0
    assert "other.yml" in capsys.readouterr().out
    del github.attestations[0]
    assert attested("--github", "acme/models") == 1


def test_41_what_a_stranger_stored_cannot_end_the_look(
    stack: Keyless, github: GitHubServer, capsys: Output
) -> None:
    """A number that readers read differently is no attestation; the right one still counts."""
    assert attest("1", "--github", "acme/models") == 0
    ((about, kind, kept),) = github.attestations
    odd = kept | {"verificationMaterial": {"number": 2**60}}
    github.attestations.insert(0, (about, kind, odd))
    assert attested("--github", "acme/models") == 0
    assert "no canonical JSON form" in capsys.readouterr().out
    github.attestations.pop()
    assert attested("--github", "acme/models") == 1
    assert stack.asked


def test_a_refusal_by_github_keeps_the_signed_file(
    stack: Keyless, github: GitHubServer, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """What stands in the public log is not lost; the missing permission is named."""
    monkeypatch.setenv("GITHUB_TOKEN", "write-token")
    assert attest("1", "--github", "acme/models") == 6
    assert "attestations: write" in capsys.readouterr().err
    assert attested("--attestation", "a.json") == 0
    assert github.attestations == []
    assert stack.asked


def test_the_private_name_stays_private(
    stack: Keyless, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """The public Sigstore shows the repository's name for ever: that needs a word."""
    stack.claims["repository_visibility"] = "private"
    # There is no way to the public Sigstore, and none of its roots in any cache.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    words = ["log", "attest", "1", "--log", "log.jsonl", "--sigstore"]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert "the repository is private" in said
    assert "--public-log" in said
    judged = ["bundle", "attested", WHOLE, "--identity", IDENTITY]
    assert run(judged) == 3, "nothing is asked where there is nothing to judge"
    assert run([*words, "--public-log"]) == 5
    assert "roots cannot be had" in capsys.readouterr().err
    assert {path.partition("?")[0] for path in stack.asked} == {"/token"}
