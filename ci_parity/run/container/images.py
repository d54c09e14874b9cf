"""The image of a target: found by its digest, pulled where that is allowed, a tag pinned.

A registry is asked for a digest alone, which can bring nothing but the bytes it names. A tag stands
for what it names on this machine at this moment; what that was is recorded, and said.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import InfrastructureError
from ci_parity.config.runtimes import ImageRuntime, image_of, with_image
from ci_parity.run.container.daemon import connected, failing

if TYPE_CHECKING:
    from docker.api.client import APIClient

logger = logging.getLogger(__name__)

_SHOWN_DIGEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that the daemon has, and what its containers get.

    `id` is the daemon's own name for it. `digest` pins it on every machine: that of its reference
    where there is one. `label` is for readers. `cpus` are the numbers of those that its containers
    run on, empty for all.
    """

    id: str
    digest: str
    label: str
    gpus: tuple[str, ...] = ()
    memory_gib: float | None = None
    cpus: tuple[int, ...] = ()


def provide(api: "APIClient", runtime: ImageRuntime) -> Image:
    """Return an image that is there now, pulled if it is named by its digest and missing.

    Raises:
        InfrastructureError: it is not there and cannot be had.
    """
    found = _inspected(api, runtime.image)
    if found is None:
        found = _pulled(api, runtime)
    pinned = runtime.image if runtime.digest else pinned_reference(runtime.image, found)
    if not runtime.digest:
        logger.warning(
            "the image %s is named by a tag, which can be moved: it is %s now; name that instead",
            runtime.image, pinned,
        )  # fmt: skip
    digest = pinned.rpartition("@")[2]
    return Image(
        id=found["Id"],
        digest=digest,
        label=_label(runtime.image, digest),
        gpus=runtime.gpus,
        memory_gib=runtime.memory_gib,
    )


def pinned_text(runtime: str) -> str:
    """Return the text of a runtime that is an image, its tag as the digest it stands for here.

    Where that cannot be known, as it was.
    """
    image = image_of(runtime)
    if image is None or image.digest:
        return runtime
    try:
        with connected() as api:
            found = _inspected(api, image.image)
    except InfrastructureError:
        return runtime
    return with_image(runtime, pinned_reference(image.image, found)) if found else runtime


def pinned_reference(reference: str, inspected: Mapping[str, Any]) -> str:
    """Return what names an image by its bytes: the registry's digest, else the image's ID."""
    name = _without_tag(reference)
    for known in inspected.get("RepoDigests") or ():
        if known.partition("@")[0] in {name, f"docker.io/{name}", f"docker.io/library/{name}"}:
            return str(known)
    return str(inspected["Id"])


def _inspected(api: "APIClient", reference: str) -> Mapping[str, Any] | None:
    from docker.errors import ImageNotFound

    with failing(f"cannot look at the image {reference}"):
        try:
            found: Mapping[str, Any] = api.inspect_image(reference)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None
    return found


def _pulled(api: "APIClient", runtime: ImageRuntime) -> Mapping[str, Any]:
    """Pull an image by its digest; a tag and an ID are never asked a registry for."""
    name, _, digest = runtime.image.rpartition("@")
    what = f"the image {runtime.image} is not on this machine"
    if not name:
        raise InfrastructureError(
            what,
            remedy="build, load or pull it before this step, or name it by the digest of its "
            "registry, NAME@sha256:DIGEST: then it is pulled",
        )
    logger.warning("pulling the image %s", runtime.image)
    remedy = "pull or load it before this step"
    with failing(f"{what}, and pulling it failed", remedy=remedy):
        said = list(api.pull(_without_tag(name), tag=digest, stream=True, decode=True))
        refusals = [line["error"] for line in said if "error" in line]
        if refusals:
            raise OSError(refusals[0])
    found = _inspected(api, runtime.image)
    if found is None:
        raise InfrastructureError(what, remedy=remedy)
    return found


def _without_tag(reference: str) -> str:
    """Return an image's name alone; a colon before the last slash belongs to a port."""
    name = reference.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(":")[0]


def _label(reference: str, digest: str) -> str:
    name = reference.partition("@")[0]
    short = digest.removeprefix("sha256:")[:_SHOWN_DIGEST]
    return f"image {short}" if name == digest else f"{name}@{short}"
