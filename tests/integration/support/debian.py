"""The Debian host under the tests: its packages, its package mirror, whom it trusts.

A container built here must reach the same package indexes as the machine around it. What that
takes is read from the machine at run time; no host name and no certificate is written down here.
"""

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

APT_TIMEOUT_S = 900
_DISTRIBUTED_TRUST = Path("/usr/share/ca-certificates")
_DEFAULT_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SOURCE_URI = re.compile(r"^(?:URIs:|deb(?: \[[^]]*\])?)[ \t]+(\S+)", re.MULTILINE)
_APT_SETTING = re.compile(r"^Acquire::(?:Check-|https?::|ForceIP)\S* .+;$", re.MULTILINE)
_INDEX_VARIABLES = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip


class HostLacksError(Exception):
    """The machine lacks something the tests need; the message says how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a container must copy from this machine to install packages as it does.

    ``certificates`` holds PEM blocks that the machine trusts beyond its distribution's own set,
    ``apt`` the lines of an apt.conf, ``environment`` the variables that point pip and uv anywhere
    but their defaults. ``mirror`` is None where the machine is no Debian.
    """

    mirror: str | None
    certificates: tuple[str, ...]
    apt: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


def read_host() -> Host:
    """Return this machine's package settings."""
    return Host(
        mirror=_mirror(),
        certificates=_own_certificates(),
        apt=_apt_settings(),
        environment=tuple((n, os.environ[n]) for n in _INDEX_VARIABLES if n in os.environ),
    )


def require_program(program: str, package: str) -> None:
    """Make ``program`` available, installing its Debian package where this process may.

    Raises ``HostLacksError`` where it is missing and cannot be installed.
    """
    if shutil.which(program) is not None:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise HostLacksError(f"{program} is missing: install {package}, or run as root on Debian")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", package]):
        subprocess.run(
            ["apt-get", *command], check=True, timeout=APT_TIMEOUT_S, env=environment,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
    if shutil.which(program) is None:
        raise HostLacksError(f"the Debian package {package} brought no {program} on PATH")


def _mirror() -> str | None:
    if platform.freedesktop_os_release().get("ID") != "debian":
        return None
    apt = Path("/etc/apt")
    sources = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for source in sources:
        if source.suffix in {".list", ".sources"} and source.is_file():
            found = _SOURCE_URI.search(source.read_text(encoding="utf-8"))
            if found:
                return found[1]
    return None


def _own_certificates() -> tuple[str, ...]:
    bundle = Path(os.environ.get("SSL_CERT_FILE", _DEFAULT_BUNDLE))
    if not bundle.is_file():
        return ()
    distributed = {
        certificate
        for path in _DISTRIBUTED_TRUST.rglob("*.crt")
        for certificate in _certificates(path)
    }
    return tuple(c for c in dict.fromkeys(_certificates(bundle)) if c not in distributed)


def _certificates(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
    return _CERTIFICATE.findall(text)


def _apt_settings() -> tuple[str, ...]:
    if shutil.which("apt-config") is None:
        return ()
    dumped = subprocess.run(
        ["apt-config", "dump", "Acquire"], check=True, timeout=60, capture_output=True, text=True
    )
    return tuple(_APT_SETTING.findall(dumped.stdout))
