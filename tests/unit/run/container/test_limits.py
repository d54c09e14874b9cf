import os
from dataclasses import replace
from pathlib import Path

import pytest

from ci_parity.run.container.files import Part
from ci_parity.run.container.images import Image
from ci_parity.run.container.limits import (
    environment,
    host_config,
    may_bind,
    memory_bytes,
    user_for,
)

IMAGE = Image(id="sha256:1", digest="sha256:1", label="image 1")
INFO = {"MemTotal": 16 * 2**30, "SecurityOptions": ["name=seccomp,profile=default"]}


def test_a_container_may_do_next_to_nothing() -> None:
    """What is not granted is named one by one, in the words of the interface."""
    limits = host_config(IMAGE, INFO, [])
    assert limits["NetworkMode"] == "none"
    assert limits["CapDrop"] == ["ALL"]
    assert limits["SecurityOpt"] == ["no-new-privileges"]
    assert limits["ReadonlyRootfs"] is True
    assert limits["Init"] is True
    assert limits["PidsLimit"] == 4096
    assert limits["LogConfig"]["Type"] == "none"
    assert limits["Ulimits"] == [{"Name": "core", "Soft": 0, "Hard": 0}]
    assert limits["Memory"] == limits["MemorySwap"] == 14 * 2**30
    assert "DeviceRequests" not in limits or not limits["DeviceRequests"]


def test_a_container_runs_on_the_cpus_that_were_asked_for() -> None:
    """On those of them that the daemon has; the kernel is asked later where it really may."""
    info = {**INFO, "NCPU": 4}
    assert host_config(replace(IMAGE, cpus=(3, 1)), info, [])["CpusetCpus"] == "1,3"
    assert host_config(replace(IMAGE, cpus=(3, 7)), info, [])["CpusetCpus"] == "3"
    for unpinned in (IMAGE, replace(IMAGE, cpus=(7,))):
        assert not host_config(unpinned, info, []).get("CpusetCpus")


def test_memory_is_what_was_asked_for() -> None:
    """Else most of what there is."""
    assert memory_bytes(0.25, INFO) == 2**28
    assert memory_bytes(None, INFO) == 14 * 2**30
    assert memory_bytes(None, {}) == 0


def test_a_container_gets_what_steers_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret, no path of this machine, no choice of devices, no configuration of a model's."""
    given = {
        "OMP_NUM_THREADS": "2", "NVIDIA_TF32_OVERRIDE": "0", "CUDA_HOME": "/x",
        "CUDA_VISIBLE_DEVICES": "1", "NVIDIA_DRIVER_CAPABILITIES": "all", "GITHUB_TOKEN": "s",
        "PATH": "/x", "LD_LIBRARY_PATH": "/x", "ORT_LOAD_CONFIG_FROM_MODEL": "1",
    }  # fmt: skip
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    assert environment() == {
        "OMP_NUM_THREADS": "2", "NVIDIA_TF32_OVERRIDE": "0", "ORT_DISABLE_TELEMETRY": "1",
        "HOME": "/tmp",  # noqa: S108 - in there
    }  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away: run as root")
def test_root_works_as_the_owner_of_the_workspace(tmp_path: Path) -> None:
    """And as nobody where that is root; a daemon without root makes its own root of us."""
    model = tmp_path / "m.onnx"
    model.touch()
    assert user_for(model, INFO) == (65534, 65534)
    os.chown(model, 1001, 121)
    assert user_for(model, INFO) == (1001, 121)
    assert user_for(model, {"SecurityOptions": ["name=rootless"]}) == (0, 0)


def test_users_that_are_mapped_share_no_files() -> None:
    """Then everything is copied."""
    assert may_bind(INFO)
    assert not may_bind({"SecurityOptions": ["name=userns"]})


def test_what_a_user_cannot_read_is_known(tmp_path: Path) -> None:
    """The folder, or one file in it, may be closed to others."""
    tmp_path.chmod(0o755)
    (tmp_path / "x").touch(mode=0o644)
    part = Part(path=tmp_path, inside="/ci-parity/inputs")
    assert part.readable_by(54321, 54321)
    (tmp_path / "x").chmod(0o640)
    assert not part.readable_by(54321, 54321)
    assert part.readable_by(54321, (tmp_path / "x").stat().st_gid)
    tmp_path.chmod(0o700)
    assert not Part(path=tmp_path, inside="/ci-parity/inputs").readable_by(54321, 54321)
