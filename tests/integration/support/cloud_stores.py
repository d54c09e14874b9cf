"""Google's and Azure's stores on the loopback interface, as their own libraries see them.

The servers are gcp-storage-emulator and Azurite (npm). Their clients, gcsfs and adlfs, are not
among the packages that develop this project; an environment of their own has them, with what the
product needs, and runs the product from here.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.support.cache import cache_dir, exclusive

PROJECT = Path(__file__).parents[3]
PINS = ("gcsfs==2026.10.1", "adlfs==2026.8.0", "gcp-storage-emulator==2026.7.19")
AZURITE = "azurite@3.37.0"
TIMEOUT_S = 600
BUCKET = "models"
# Both are those that every emulator of the kind is documented with.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_MAKE_CONTAINER = f"""
import os
from azure.storage.blob import BlobServiceClient
client = BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"])
client.create_container({BUCKET!r})
"""
_OVERWRITE = """
import sys
from fsspec import open
with open(sys.argv[1], "wb") as file:
    file.write(b"other bytes")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A server with an empty bucket: its scheme, and what its clients find in the environment."""

    scheme: str
    environment: Mapping[str, str]

    def store(self, prefix: str) -> str:
        """Return the address of a store in it."""
        return f"{self.scheme}://{BUCKET}/{prefix}"

    def started(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command of the product."""
        return subprocess.Popen(
            [str(python()), "-m", "ci_parity", *words], cwd=PROJECT, text=True,
            env={**os.environ, **self.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command of the product; return its exit code and what it said."""
        process = self.started(*words)
        said, complained = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, said, complained

    def overwrite(self, address: str) -> None:
        """Put other bytes in the place of an object."""
        subprocess.run(
            [str(python()), "-c", _OVERWRITE, address], check=True, timeout=TIMEOUT_S,
            env={**os.environ, **self.environment},
        )  # fmt: skip


@contextmanager
def google(scratch: Path) -> Iterator[Cloud]:
    """Serve Google Cloud Storage."""
    port = _free_port()
    command = [
        str(python().with_name("gcp-storage-emulator")), "start", "--host=127.0.0.1",
        f"--port={port}", "--in-memory", f"--default-bucket={BUCKET}",
    ]  # fmt: skip
    with _serving(command, port, scratch / "gcs.output"):
        environment = {
            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
            # Else gcsfs asks for credentials, which nobody has here, to find the bucket's kind.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }
        yield Cloud(scheme="gs", environment=environment | _DIRECT)


@contextmanager
def azure(scratch: Path) -> Iterator[Cloud]:
    """Serve Azure Blob Storage."""
    port = _free_port()
    command = [
        str(_azurite()), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry",
        "--blobHost", "127.0.0.1", "--blobPort", str(port),
    ]  # fmt: skip
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{_ACCOUNT};"
    )
    environment = {"AZURE_STORAGE_CONNECTION_STRING": connection} | _DIRECT
    with _serving(command, port, scratch / "azure.output"):
        subprocess.run(
            [str(python()), "-c", _MAKE_CONTAINER], check=True, timeout=TIMEOUT_S,
            env={**os.environ, **environment},
        )  # fmt: skip
        yield Cloud(scheme="az", environment=environment)


_DIRECT = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def python() -> Path:
    """Return the interpreter that has the clients; make its environment once."""
    path = cache_dir() / "cloud-packages"
    with exclusive("cloud-packages"):
        if not (path / "complete").exists():
            uv = [sys.executable, "-m", "uv"]
            install = [*uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python"]
            interpreter = str(path / "bin" / "python")
            runtime = str(PROJECT / "requirements" / "runtime.txt")
            for command in (
                [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(path)],
                [*install, interpreter, "--requirement", runtime],
                [*install, interpreter, *PINS],
            ):
                subprocess.run(command, check=True, timeout=TIMEOUT_S)
            (path / "complete").touch()
    return path / "bin" / "python"


def _azurite() -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not on PATH: install Node.js from https://nodejs.org")
    path = cache_dir() / "azurite"
    with exclusive("azurite"):
        if not (path / "complete").exists():
            path.mkdir(exist_ok=True)
            install = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(path)]
            subprocess.run([*install, AZURITE], check=True, timeout=TIMEOUT_S)
            (path / "complete").touch()
    return path / "node_modules" / ".bin" / "azurite-blob"


@contextmanager
def _serving(command: list[str], port: int, output: Path) -> Iterator[None]:
    with output.open("wb") as written:
        process = subprocess.Popen(command, cwd=output.parent, stdout=written, stderr=written)
    try:
        while not _answers(port):
            assert process.poll() is None, output.read_text()
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
