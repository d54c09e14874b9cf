import sys
from pathlib import Path

import pytest

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.errors import InfrastructureError
from ci_parity.run.runtime import components_of, describe, prepare

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
PINNED = f"image:registry.example/ort@{DIGEST}"
TAGGED = "image:registry.example/ort:gpu"
WITH_COMMAND = f'image:{{"command":["/runner"],"image":"ort@{DIGEST}"}}'

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets: run on Linux")


@pytest.fixture(autouse=True)
def no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a daemon that is not there."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


@pytest.mark.parametrize("runtime", [PINNED, TAGGED, WITH_COMMAND])
def test_without_a_daemon_an_image_is_what_the_config_calls_it(runtime: str) -> None:
    """A machine that only plans need not have Docker."""
    assert describe(runtime) == runtime


def test_an_image_that_has_not_run_here_is_not_known(tmp_path: Path) -> None:
    """Nothing is claimed of it; neither of a tag."""
    assert components_of(PINNED, tmp_path) == {}
    assert components_of(TAGGED, tmp_path) == {}


def test_what_was_measured_of_an_image_is_known_by_its_digest(tmp_path: Path) -> None:
    """Under any name, without a daemon; a damaged file counts as none."""
    kept = tmp_path / "images" / f"{DIGEST[7:]}.1.json"
    kept.parent.mkdir()
    kept.write_bytes(canonical_bytes({"image": DIGEST, "package.onnxruntime": "1.32.0"}))
    facts = components_of(f"image:another/name@{DIGEST}", tmp_path)
    own = {name: facts[name] for name in facts if not name.startswith("environment.")}
    assert own == {"image": DIGEST, "package.onnxruntime": "1.32.0"}
    assert facts["environment.OMP_NUM_THREADS"] == "2"
    assert facts["environment.ORT_DISABLE_TELEMETRY"] == "1"
    kept.write_bytes(b"[1")
    assert components_of(PINNED, tmp_path) == {}


def test_an_image_with_a_program_of_its_own_is_known_by_its_digest(tmp_path: Path) -> None:
    """The program is a part of it."""
    assert components_of(WITH_COMMAND, tmp_path)["image"] == DIGEST


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("unix:///nobody.sock", "no Docker daemon answers"),
        ("tcp://127.0.0.1:1", "no Docker daemon answers"),
        ("tcp://127.0.0.1:none", "no Docker daemon answers"),
        ("ssh://host", "cannot be reached this way"),
        ("npipe:////./pipe/docker", "cannot be reached this way"),
    ],
)
def test_a_daemon_that_is_not_there_has_a_remedy(
    address: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the address is."""
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(InfrastructureError, match=said) as caught:
        prepare(PINNED, cache=tmp_path)
    assert caught.value.remedy
    assert address in caught.value.where
