"""Where we run ourselves: in a container of the daemon or beside it, and what it calls our files.

Inside a container a path of ours means nothing to the daemon unless it lies in a mount; then the
mount's source does. That is a guess until it is proved (`container.start`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.run.container.daemon import failing

if TYPE_CHECKING:
    from docker.api.client import APIClient

# Files that Docker mounts into every container; the field before them names the container.
_MOUNTED = re.compile(r"/containers/([0-9a-f]{64})/(?:hostname|hosts|resolv\.conf)")
_CGROUP = re.compile(r"(?:/docker[/-])([0-9a-f]{64})")
# How the GitHub runner marks what it removes before its next job with a container.
_RUNNER_LABEL = re.compile(r"[0-9a-f]{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where we run. `container` is our own ID, empty beside the daemon.

    `mounts` maps folders of ours to the daemon's names for them, `labels` are to be copied.
    """

    container: str = ""
    mounts: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def on_daemon(self, path: Path) -> str | None:
        """Return what the daemon calls an absolute path of ours, None where it has no name."""
        if not self.container:
            return str(path)
        for folder in (path, *path.parents):
            source = self.mounts.get(str(folder))
            if source is not None:
                return str(Path(source) / path.relative_to(folder))
        return None


def place(api: "APIClient") -> Place:
    """Return where we run, as the daemon sees it; another daemon's container is no place of its.

    Raises:
        InfrastructureError: the daemon does not answer.
    """
    from docker.errors import NotFound

    own = inside()
    if not own:
        return Place()
    with failing("the Docker daemon does not answer"):
        try:
            return place_of(api.inspect_container(own))
        except NotFound:
            return Place(container=own)


def inside() -> str:
    """Return the ID of the container we run in, empty for none."""
    return own_container(_text("/proc/self/mountinfo"), _text("/proc/self/cgroup"))


def own_container(mountinfo: str, cgroup: str) -> str:
    """Return the ID of the container we run in, from two files of /proc/self; empty for none."""
    found = _MOUNTED.search(mountinfo) or _CGROUP.search(cgroup)
    return found[1] if found else ""


def place_of(inspected: Mapping[str, Any]) -> Place:
    """Read a place from what the daemon says of our container."""
    labels = inspected.get("Config", {}).get("Labels") or {}
    return Place(
        container=inspected["Id"],
        mounts={
            mount["Destination"]: mount["Source"]
            for mount in inspected.get("Mounts") or ()
            if mount.get("Source")
        },
        labels={name: text for name, text in labels.items() if _RUNNER_LABEL.fullmatch(name)},
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
