"""Our runner on Candle, built by cargo; crates, objects and programs are kept in the test cache.

The first build takes some minutes of two processors and the crates from the configured registry;
later ones only ask cargo whether anything changed. candle-onnx's own build starts ``protoc``, which
comes from a wheel where the machine has none.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from ci_parity.run.requirement_environments import provide
from tests.integration.support.cache import cache_dir, exclusive
from tests.integration.support.diff_command import environments

SOURCES = Path(__file__).parents[3] / "runtimes" / "candle"
BUILD_TIMEOUT_S = 3600
PROTOC_WHEEL = "grpcio-tools==1.85.1"


def candle_runner() -> Path:
    """Return the runner on the newest candle-onnx; skip the test where cargo is missing."""
    return _built(SOURCES, "candle-parity-runner")


def candle_runner_before_reshape_fix() -> Path:
    """Return the runner on the last candle-onnx whose Reshape is wrong about zeros."""
    return _built(SOURCES / "before-reshape-fix", "candle-parity-runner-before-reshape-fix")


def _built(folder: Path, program: str) -> Path:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not on PATH: install Rust from https://rustup.rs")
    target = cache_dir() / "candle"
    command = [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", str(target)]
    command += ["--manifest-path", str(folder / "Cargo.toml")]
    with exclusive("candle"):
        subprocess.run(
            command, check=True, timeout=BUILD_TIMEOUT_S, env=os.environ | {"PROTOC": _protoc()}
        )
    return target / "release" / program


def _protoc() -> str:
    """Return a `protoc`: the machine's, or a script that starts the one of a wheel."""
    found = os.environ.get("PROTOC") or shutil.which("protoc")
    if found:
        return found
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{PROTOC_WHEEL}\n", encoding="utf-8")
        python = provide(requirements, root=Path(folder), cache=environments()).python
    path = cache_dir() / "protoc"
    path.write_text(f'#!/bin/sh\nexec "{python}" -I -m grpc_tools.protoc "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)
