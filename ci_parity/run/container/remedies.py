"""What a reader can do about an error of the Docker daemon, found by the daemon's own words.

Statuses do not help: one fault is 400 in one version and 500 in the next.
"""

import re

_REMEDIES = (
    (
        r"could not select device driver \"cdi\"|unresolvable CDI devices|CDI device injection",
        (
            "write the CDI specification anew with `nvidia-ctk cdi generate`, or turn CDI off in "
            "the daemon so that the NVIDIA container runtime is used"
        ),
    ),
    (
        r"could not select device driver|Unknown runtime specified|unknown or invalid runtime",
        (
            "install the NVIDIA container toolkit on the runner, run `nvidia-ctk runtime "
            "configure` and restart the daemon; a target with `gpus` never runs on the CPU instead"
        ),
    ),
    (
        r"requirement error|unsatisfied condition|driver\W.*(?:too old|insufficient)",
        "update the GPU driver on the runner, or use an image built for an older CUDA",
    ),
    (
        r"Failed to initialize NVML|nvml error",
        (
            "the runner lost its GPU: restart the container engine, and the machine after a driver "
            "update without a reboot"
        ),
    ),
    (
        r"nvidia-container-cli|libnvidia-ml",
        "check the GPU driver on the runner with `nvidia-smi`",
    ),
    (
        r"executable file not found|stat .*: no such file or directory|exec format error",
        (
            "the image lacks the program or is built for another processor: use one with python3 "
            "3.8 or later and onnxruntime, or name a program of the image in `command`"
        ),
    ),
    (
        r"no space left on device|disk quota exceeded",
        "make room where the daemon keeps its data and in the folder for temporary files",
    ),
    (
        r"permission denied.*docker|docker.*permission denied|Permission denied",
        "add the user to the group `docker`, or run as root",
    ),
    (
        r"pull access denied|unauthorized|authentication required|denied:",
        "log in to the registry on the runner with `docker login` before this step",
    ),
    (
        r"no such host|connection refused|i/o timeout|network is unreachable|TLS handshake",
        (
            "make the image available on the runner before this step (`docker pull`, `docker "
            "load`), or make its registry reachable"
        ),
    ),
    (
        r"manifest unknown|not found|No such image",
        "check the name and the digest, or build or load the image on the runner before this step",
    ),
    (
        r"client version .* too old|Minimum supported API",
        "update the Python package docker beside ci-parity",
    ),
)


def remedy_for(words: str) -> str:
    """Return what helps against an error that the daemon words like this; empty if unknown."""
    found = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, words, re.IGNORECASE))
    return next(found, "")
