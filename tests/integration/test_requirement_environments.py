"""Environments from requirements files: built once, from wheels, with the hashes that are given."""

import base64
import hashlib
import http.server
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.run.environments import Environment
from ci_parity.run.installed import COMPLETE
from ci_parity.run.requirement_environments import provide

WHEEL = "tiny_source-1.0-py3-none-any.whl"


def write_wheel(folder: Path, *, requires: str = "") -> Path:
    """Write a wheel of one module."""
    info = "tiny_source-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: tiny-source\nVersion: 1.0\n{requires}"
    files = {
        "tiny_source.py": "value = 42\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    records = [
        f"{name},sha256={_urlsafe(text.encode())},{len(text)}" for name, text in files.items()
    ]
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]))
    return path


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@dataclass(slots=True)
class Index:
    """A package index on this machine that wants a password; it counts what it served."""

    folder: Path
    address: str = ""
    file: str = WHEEL
    served: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address with the password in it."""
        return f"http://me:secret@{self.address}/simple/"

    def line(self, digest: str = "") -> str:
        """Return a requirements file for the wheel in it, with or without its hash."""
        wanted = f" --hash=sha256:{digest}" if digest else ""
        return f"--index-url {self.url}\ntiny-source==1.0{wanted}\n"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Serve one wheel at an ephemeral port of the loopback address."""
    folder = tmp_path / "served"
    folder.mkdir()
    served = Index(folder=folder)
    write_wheel(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = "Basic " + base64.b64encode(b"me:secret").decode()
            known = {
                "/simple/tiny-source/": f'<a href="/{served.file}">{served.file}</a>'.encode(),
                f"/{served.file}": (folder / WHEEL).read_bytes(),
            }
            if self.headers.get("Authorization") != allowed:
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.end_headers()
                return
            body = known.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"")
            served.served.append(self.path)

        do_HEAD = do_GET  # noqa: N815 - the name http.server calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def own_uv_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what uv downloads from one test out of the next."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))


def provided(tmp_path: Path, text: str, cache: str = "cache") -> Environment:
    """Return the environment of a requirements file of this text."""
    path = tmp_path / "requirements-source.txt"
    path.write_text(text, encoding="utf-8")
    return provide(path, root=tmp_path, cache=tmp_path / cache)


def value_in(environment: Environment) -> str:
    """Import the wheel's module and print its value."""
    code = "import tiny_source; print(tiny_source.value)"
    done = subprocess.run([environment.python, "-c", code], check=True, capture_output=True)
    return done.stdout.decode().strip()


def test_an_environment_is_built_once(index: Index, tmp_path: Path) -> None:
    """The second time nothing is resolved, downloaded or installed."""
    environment = provided(tmp_path, index.line())
    assert value_in(environment) == "42"
    assert "tiny-source==1.0" in environment.lock
    assert "--hash=sha256:" in environment.lock
    folder = environment.python.parents[1]
    mark = (folder / COMPLETE).stat()
    index.served.clear()
    assert provided(tmp_path, index.line()) == environment
    assert (folder / COMPLETE).stat().st_mtime_ns == mark.st_mtime_ns
    assert index.served == []


def test_another_file_is_resolved_anew(index: Index, tmp_path: Path) -> None:
    """A file is known by its content; what resolves to the same packages is one environment."""
    environment = provided(tmp_path, index.line())
    index.served.clear()
    assert provided(tmp_path, f"# why\n{index.line()}") == environment
    assert index.served


def test_hashes_in_the_file_are_checked(index: Index, tmp_path: Path) -> None:
    """The right one installs, another one leaves no environment behind."""
    digest = hashlib.sha256((index.folder / WHEEL).read_bytes()).hexdigest()
    assert value_in(provided(tmp_path, index.line(digest))) == "42"
    with pytest.raises(InfrastructureError, match="cannot install requirements-source") as caught:
        provided(tmp_path, index.line("0" * 64), cache="other")
    assert "check the hashes" in caught.value.remedy
    assert not list((tmp_path / "other" / "environments").glob("*/pyvenv.cfg"))


def test_a_file_with_hashes_must_be_whole(index: Index, tmp_path: Path) -> None:
    """A package it pulls in and does not name would come unchecked."""
    wheel = write_wheel(index.folder, requires="Requires-Dist: another-one\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with pytest.raises(InfrastructureError, match="another-one"):
        provided(tmp_path, index.line(digest))


def test_an_unfinished_environment_is_built_again(index: Index, tmp_path: Path) -> None:
    """A build that was killed left no completion mark."""
    environment = provided(tmp_path, index.line())
    folder = environment.python.parents[1]
    (folder / COMPLETE).unlink()
    (folder / "debris").touch()
    assert provided(tmp_path, index.line()) == environment
    assert value_in(environment) == "42"
    assert not (folder / "debris").exists()


def test_a_source_distribution_is_not_built(index: Index, tmp_path: Path) -> None:
    """Building runs a package's code: only wheels are taken."""
    index.file = "tiny_source-1.0.tar.gz"
    with pytest.raises(InfrastructureError, match="cannot resolve requirements-source") as caught:
        provided(tmp_path, index.line())
    assert "has wheels for this Python" in caught.value.remedy
    assert f"/{index.file}" not in index.served


def test_the_password_of_an_index_is_not_told(index: Index, tmp_path: Path) -> None:
    """Not in an error, and not to those who list processes."""
    with pytest.raises(InfrastructureError) as caught:
        provided(tmp_path, index.line().replace("tiny-source==1.0", "tiny-source==2.0"))
    assert "tiny-source==2.0" in caught.value.what
    assert "secret" not in str(caught.value)
    environment = provided(tmp_path, index.line())
    assert "secret" not in environment.lock
