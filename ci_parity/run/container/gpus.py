"""How the GPUs of a target are asked for: by CDI where the daemon has found them, else as ever."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docker.types import DeviceRequest

# The kinds of GPUs that container toolkits write CDI specifications for, in our order of choice.
_KINDS = ("nvidia.com/gpu", "amd.com/gpu")
ALL = "all"


def device_requests(info: Mapping[str, Any], gpus: Sequence[str]) -> list["DeviceRequest"]:
    """Return what a container asks the daemon for; nothing where no GPU is wanted.

    Args:
        info: the daemon's `info`; `DiscoveredDevices` are the CDI devices it knows.
        gpus: `all`, or numbers and UUIDs.
    """
    from docker.types import DeviceRequest

    if not gpus:
        return []
    devices = cdi_devices(info, gpus)
    if devices:
        return [DeviceRequest(driver="cdi", device_ids=devices)]
    if ALL in gpus:
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    return [DeviceRequest(device_ids=list(gpus), capabilities=[["gpu"]])]


def cdi_devices(info: Mapping[str, Any], gpus: Sequence[str]) -> list[str]:
    """Return the CDI names of GPUs, of the first kind that the daemon has found; none without."""
    found = {
        str(device.get("ID", "")).partition("=")[0]
        for device in info.get("DiscoveredDevices") or ()
        if device.get("Source") == "cdi"
    }
    kind = next((kind for kind in _KINDS if kind in found), None)
    return [f"{kind}={gpu}" for gpu in gpus] if kind else []
