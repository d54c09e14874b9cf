"""The base image of our Dockerfile, also where no image registry is reachable.

1. An image that is already there is used; a stand-in only while the machine's settings are the
   ones it was built with (certificate authorities come and go with the machine).
2. Else it is pulled.
3. Else a stand-in is made: debootstrap, kept as a tar file in the cache, is imported; a second
   layer gives it the machine's own certificate authorities and package settings.

The stand-in is larger than the published image and brings Python along: it proves that a
Dockerfile builds from Debian, not that it names every package it needs.
"""

import dataclasses
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
from docker.errors import DockerException, ImageNotFound

from tests.integration.support.cache import cache_dir, exclusive
from tests.integration.support.debian import Host, HostLacksError, read_host, require_program

SUITE = "trixie"
BASE_IMAGE = f"debian:{SUITE}-slim"
INCLUDED_PACKAGES = ("python3", "python3-venv", "ca-certificates")
DEBOOTSTRAP_TIMEOUT_S = 1800
_ROOTFS_REPOSITORY = "ci-parity-tests/rootfs"
_SETTINGS_LABEL = "ci-parity.tests.host-settings"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def ensure_base_image(client: docker.DockerClient) -> str:
    """Return the name of the base image, having made sure that the daemon holds it.

    Raises ``HostLacksError`` where it can neither be pulled nor made.
    """
    host = read_host()
    settings = _digest(dataclasses.asdict(host))
    with exclusive("base-image"):
        labels = _labels(client, BASE_IMAGE)
        if labels is None and _pulled(client):
            return BASE_IMAGE
        if labels is None or labels.get(_SETTINGS_LABEL, settings) != settings:
            rootfs = _ensure_rootfs(client, host)
            _build_stand_in(client, rootfs, host, settings)
    return BASE_IMAGE


def _pulled(client: docker.DockerClient) -> bool:
    try:
        client.images.pull(BASE_IMAGE)
    except DockerException:
        return False
    return True


def _labels(client: docker.DockerClient, name: str) -> dict[str, str] | None:
    try:
        return dict(client.images.get(name).labels)
    except ImageNotFound:
        return None


# --- the root file system --------------------------------------------------------------------


def _ensure_rootfs(client: docker.DockerClient, host: Host) -> str:
    """Return the name of the imported root file system, making it when it is not there yet."""
    key = _digest([SUITE, platform.machine(), host.mirror, *INCLUDED_PACKAGES])[:12]
    if _labels(client, f"{_ROOTFS_REPOSITORY}:{key}") is None:
        archive = cache_dir() / f"rootfs-{SUITE}-{key}.tar"
        if not archive.exists():
            _debootstrap(archive, host.mirror)
        client.api.import_image_from_file(str(archive), repository=_ROOTFS_REPOSITORY, tag=key)
    return f"{_ROOTFS_REPOSITORY}:{key}"


def _debootstrap(archive: Path, mirror: str | None) -> None:
    """Write a minimal Debian to ``archive``; the archive appears whole or not at all."""
    if os.geteuid() != 0:
        raise HostLacksError(f"{BASE_IMAGE} is missing: pull it, or run as root on Debian")
    require_program("debootstrap", "debootstrap")
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        root, unfinished = Path(folder, "root"), Path(folder, "rootfs.tar")
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(INCLUDED_PACKAGES)}"]
        command += [SUITE, str(root), *([mirror] if mirror else [])]
        _run_logged(command, archive.with_suffix(".log"))
        leftovers = ("./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*_dists_*")
        command = ["tar", "-C", str(root), "-cf", str(unfinished)]
        command += [*(f"--exclude={pattern}" for pattern in leftovers), "."]
        _run_logged(command, archive.with_suffix(".log"))
        unfinished.replace(archive)


def _run_logged(command: list[str], log: Path) -> None:
    with log.open("ab") as output:
        done = subprocess.run(
            command, check=False, timeout=DEBOOTSTRAP_TIMEOUT_S, stdout=output, stderr=output
        )
    if done.returncode != 0:
        raise HostLacksError(f"{command[0]} failed with {done.returncode}; {log} says why")


# --- the machine's settings ------------------------------------------------------------------


def _build_stand_in(client: docker.DockerClient, rootfs: str, host: Host, settings: str) -> None:
    files = {
        f"trust/tests-{index:03}.crt": f"{certificate}\n"
        for index, certificate in enumerate(host.certificates)
    }
    files |= {"apt.conf": "\n".join((*host.apt, "")), "trust/.keep": ""}
    # The bundle is remade by every later installation of ca-certificates, hence the detour over
    # the folder from which it is made. uv asks for the bundle by variable; pip finds it.
    lines = [
        f"FROM {rootfs}",
        "COPY trust/ /usr/local/share/ca-certificates/",
        "COPY apt.conf /etc/apt/apt.conf.d/99tests",
        "RUN update-ca-certificates",
        f"ENV SSL_CERT_FILE={_BUNDLE}",
        *(f"ENV {name}={json.dumps(value)}" for name, value in host.environment),
        'CMD ["bash"]',
    ]
    context = _context(files | {"Dockerfile": "\n".join(lines)})
    client.images.build(
        fileobj=context, custom_context=True, tag=BASE_IMAGE, rm=True, forcerm=True,
        labels={_SETTINGS_LABEL: settings},
    )  # fmt: skip


def _context(files: dict[str, str]) -> io.BytesIO:
    """Return a build context: a tar stream of text files, by path."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, text in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    stream.seek(0)
    return stream


def _digest(settings: object) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
