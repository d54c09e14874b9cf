"""A container image with Python and onnxruntime, as a user would have one for production.

It is built on the base image of the tests; Docker's own cache makes a second build immediate.
"""

import io

import docker

RUNTIME = "onnxruntime==1.32.0"
NAME = "ci-parity-tests/runtime"
TAG = RUNTIME.rpartition("=")[2]
_DOCKERFILE = """\
FROM {base}
RUN python3 -m venv /opt/runtime \\
    && /opt/runtime/bin/pip install --no-cache-dir --no-compile {runtime}
ENV PATH=/opt/runtime/bin:$PATH
LABEL ci-parity.tests.build={build}
"""


def ensure_runtime_image(
    client: docker.DockerClient, base: str, *, build: str = "first", runtime: str = RUNTIME
) -> str:
    """Return the ID of the image, which is tagged too; another `build` has the same inside."""
    text = _DOCKERFILE.format(base=base, runtime=runtime, build=build)
    tag = f"{NAME}:{TAG}" if build == "first" else f"{NAME}:{TAG}-{build}"
    image, _ = client.images.build(
        fileobj=io.BytesIO(text.encode()), tag=tag, rm=True, forcerm=True
    )
    return str(image.id)
