"""What a second container is asked for: ours, with a cache and devices that ours has not."""

from pathlib import Path
from typing import Any

import pytest

from ci_parity.run.container.again import Wanted, successor

CACHE = Path("/var/cache/ci-parity")
VOLUME = Wanted(volume="kept", cache=CACHE)
GPU = {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}


def ours(**host: Any) -> dict[str, Any]:
    """Return what a daemon says of a container that a runner started."""
    return {
        "Image": "sha256:abc",
        "Config": {
            "Hostname": "runner", "Image": "action:tag", "Cmd": None, "Entrypoint": ["/program"],
            "Labels": {"abcdef": ""}, "User": "", "WorkingDir": "/github/workspace",
            "Env": ["A=1", "B=2=3", "CI_PARITY_CACHE_VOLUME=kept"],
        },
        "HostConfig": {
            "Binds": ["/work:/github/workspace"], "NetworkMode": "github_network",
            "AutoRemove": True, "ContainerIDFile": "/run/cid", **host,
        },
        "Mounts": [{"Destination": "/github/workspace", "Source": "/work"}],
    }  # fmt: skip


def test_all_that_makes_our_container_is_kept() -> None:
    """Its image by ID, its program, mounts, network and variables; the host's name is its own."""
    config = successor(ours(), {}, VOLUME, {"CI_PARITY_CACHE_VOLUME": "", "C": "4"})
    assert config is not None
    assert (config["Image"], config["Entrypoint"]) == ("sha256:abc", ["/program"])
    assert config["WorkingDir"] == "/github/workspace"
    assert config["Env"] == ["A=1", "B=2=3", "CI_PARITY_CACHE_VOLUME=", "C=4"]
    assert "Hostname" not in config
    host = config["HostConfig"]
    assert (host["Binds"], host["NetworkMode"]) == (["/work:/github/workspace"], "github_network")
    assert (host["AutoRemove"], host["ContainerIDFile"]) == (False, "")


def test_the_volume_goes_where_the_cache_is() -> None:
    """Beside mounts that there are; the daemon labels it as it makes it."""
    config = successor(ours(Mounts=[{"Target": "/other"}]), {}, VOLUME, {})
    assert config is not None
    other, volume = config["HostConfig"]["Mounts"]
    assert other == {"Target": "/other"}
    assert (volume["Type"], volume["Source"], volume["Target"]) == ("volume", "kept", str(CACHE))
    assert volume["VolumeOptions"]["Labels"] == {"ci-parity.cache": "true"}


@pytest.mark.parametrize("folder", ["/var/cache/ci-parity", "/var/cache"])
def test_a_cache_that_is_mounted_needs_none(folder: str) -> None:
    """Nor one in a folder that is."""
    known = ours()
    known["Mounts"].append({"Destination": folder, "Source": "/cache"})
    assert successor(known, {}, VOLUME, {}) is None


def test_the_devices_of_the_job_are_asked_for() -> None:
    """Without a volume too, and with what makes them usable."""
    job = {"HostConfig": {**GPU, "Runtime": "nvidia", "GroupAdd": ["video"], "Memory": 5}}
    config = successor(ours(Memory=7), job, Wanted(job="0" * 64), {})
    assert config is not None
    host = config["HostConfig"]
    assert host["DeviceRequests"] == GPU["DeviceRequests"]
    assert (host["Runtime"], host["GroupAdd"], host["Memory"]) == ("nvidia", ["video"], 7)
    assert host["Mounts"] == []


def test_a_container_with_devices_keeps_its_own() -> None:
    """The runner gave them, as act can."""
    job = {"HostConfig": {"Devices": [{"PathOnHost": "/dev/kfd"}]}}
    assert successor(ours(**GPU), job, Wanted(job="0" * 64), {}) is None


def test_a_job_without_devices_asks_for_nothing() -> None:
    """A runtime of its own alone makes none."""
    job: dict[str, Any] = {"HostConfig": {"DeviceRequests": None, "Devices": [], "Runtime": "runc"}}
    assert successor(ours(), job, Wanted(job="0" * 64), {}) is None
