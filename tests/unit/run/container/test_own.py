from pathlib import Path

import pytest

from ci_parity.run.container.own import Place, own_container, place_of

OWN = "0123456789abcdef" * 4
MOUNTINFO = f"""\
551 540 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB
567 551 254:1 /var/lib/docker/containers/{OWN}/resolv.conf /etc/resolv.conf rw - ext4 /dev/vda1 rw
568 551 254:1 /var/lib/docker/containers/{OWN}/hostname /etc/hostname rw - ext4 /dev/vda1 rw
"""
HOST_MOUNTINFO = f"""\
22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
90 22 0:45 / /var/lib/docker/containers/{OWN}/mounts/shm rw - tmpfs shm rw
"""
INSPECTED = {
    "Id": OWN,
    "Config": {"Labels": {"0a1b2c": "", "maintainer": "someone", "ci-parity.run": "x"}},
    "Mounts": [
        {"Type": "bind", "Source": "/home/runner/_work/r/r", "Destination": "/github/workspace"},
        {"Type": "bind", "Source": "/home/runner/_work/_temp", "Destination": "/github/temp"},
        {"Type": "volume", "Source": "/var/lib/docker/volumes/v/_data",
         "Destination": "/github/workspace/cache"},
        {"Type": "tmpfs", "Source": "", "Destination": "/scratch"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "own"),
    [
        (MOUNTINFO, "0::/", OWN),
        ("", f"12:memory:/docker/{OWN}", OWN),
        ("", f"0::/system.slice/docker-{OWN}.scope", OWN),
        (HOST_MOUNTINFO, "0::/user.slice", ""),
        ("", "", ""),
    ],
)
def test_our_own_container_is_known(mountinfo: str, cgroup: str, own: str) -> None:
    """By what Docker mounts into every container, else by the cgroup; a host is none."""
    assert own_container(mountinfo, cgroup) == own


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("/github/workspace/models/m.onnx", "/home/runner/_work/r/r/models/m.onnx"),
        ("/github/workspace", "/home/runner/_work/r/r"),
        ("/github/workspace/cache/m.onnx", "/var/lib/docker/volumes/v/_data/m.onnx"),
        ("/github/workspace2/m.onnx", None),
        ("/scratch/x", None),
        ("/var/x", None),
    ],
)
def test_a_path_is_named_by_the_nearest_mount(ours: str, theirs: str | None) -> None:
    """What lies in no mount has no name outside."""
    assert place_of(INSPECTED).on_daemon(Path(ours)) == theirs


def test_beside_the_daemon_a_path_is_a_path() -> None:
    """Both see one file system."""
    assert Place().on_daemon(Path("/a/b")) == "/a/b"


def test_in_a_container_of_another_daemon_nothing_has_a_name() -> None:
    """Its mounts are not known."""
    assert Place(container=OWN).on_daemon(Path("/github/workspace")) is None


def test_the_runners_own_label_is_copied() -> None:
    """By it a runner removes what a job left; other labels are none of its."""
    assert place_of(INSPECTED).labels == {"0a1b2c": ""}
