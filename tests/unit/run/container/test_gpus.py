from typing import Any

import pytest

from ci_parity.run.container.gpus import cdi_devices, device_requests
from ci_parity.run.container.remedies import remedy_for


def info(*devices: str) -> dict[str, Any]:
    """Return what a daemon says that has found CDI devices."""
    return {"DiscoveredDevices": [{"Source": "cdi", "ID": name} for name in devices]}


NVIDIA = info("nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=all")


@pytest.mark.parametrize(
    ("said", "gpus", "names"),
    [
        (NVIDIA, ("all",), ["nvidia.com/gpu=all"]),
        (NVIDIA, ("0", "1"), ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]),
        (info("amd.com/gpu=all"), ("all",), ["amd.com/gpu=all"]),
        (info("vendor.com/net=0"), ("all",), []),
        ({"DiscoveredDevices": [{"Source": "other", "ID": "nvidia.com/gpu=0"}]}, ("all",), []),
        ({"DiscoveredDevices": None, "CDISpecDirs": ["/etc/cdi"]}, ("all",), []),
        ({}, ("all",), []),
    ],
)
def test_cdi_is_used_where_the_daemon_has_found_gpus(
    said: dict[str, Any], gpus: tuple[str, ...], names: list[str]
) -> None:
    """Folders for specifications alone say nothing: they may be empty."""
    assert cdi_devices(said, gpus) == names


def test_a_request_has_the_form_of_its_way() -> None:
    """A CDI request takes neither a count nor capabilities."""
    (cdi,) = device_requests(NVIDIA, ("all",))
    assert (cdi.driver, cdi.device_ids) == ("cdi", ["nvidia.com/gpu=all"])
    assert (cdi.count, cdi.capabilities) == (0, [])
    (every,) = device_requests({}, ("all",))
    assert (every.count, every.capabilities) == (-1, [["gpu"]])
    (some,) = device_requests({}, ("0", "GPU-1a"))
    assert (some.device_ids, some.count, some.capabilities) == (["0", "GPU-1a"], 0, [["gpu"]])


def test_no_gpu_is_asked_for_unasked() -> None:
    """Also where there are some."""
    assert device_requests(NVIDIA, ()) == []


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', "NVIDIA container"),
        ('could not select device driver "cdi" with capabilities: []', "nvidia-ctk cdi generate"),
        ("Unknown runtime specified nvidia", "NVIDIA container toolkit"),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9", "nvidia-ctk"),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8",
         "update the GPU driver"),
        ("Failed to initialize NVML: Unknown Error", "restart the container engine"),
        ("nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
         "nvidia-smi"),
        ('exec: "python3": executable file not found in $PATH', "name a program of the image"),
        ("mkdir /var/lib/docker/tmp: no space left on device", "make room"),
        ("dial tcp: lookup registry: no such host", "docker pull"),
        ("manifest for x@sha256:0 not found: manifest unknown", "check the name and the digest"),
        ("client version 1.24 is too old. Minimum supported API version is 1.44", "update"),
        ("pull access denied for x, repository does not exist", "docker login"),
    ],
)  # fmt: skip
def test_each_error_of_a_daemon_has_its_remedy(words: str, remedy: str) -> None:
    """By the daemon's words, as daemons and container toolkits have written them."""
    assert remedy in remedy_for(words)


def test_an_unknown_error_gets_no_advice() -> None:
    """A wrong remedy is worse than none."""
    assert remedy_for("the moon is full") == ""
