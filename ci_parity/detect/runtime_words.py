"""A difference between two runtimes' facts, in the few sentences a reviewer reads.

One cause is one sentence: a new version brings new content and new libraries, which are not said
again. What changed under the same version is always said. What no sentence covers is said fact by
fact; nothing is lost.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from ci_parity.config.runtimes import image_of
from ci_parity.records.facts import ABSENT, Facts, differences, is_runtime

Changes = dict[str, tuple[str, str]]

_PACKAGE = re.compile(r"package\.([a-z0-9-]+)(?:\.(\w+))?")
_WORDS = {
    "python": "Python",
    "build.cuda": "onnxruntime's CUDA build",
    "build.rocm": "onnxruntime's ROCm build",
    "library": "libraries",
}
_IMAGE = "image"
_SHOWN_DIGEST = 12
_VERSION = "version"


def explain_runtime(before: Facts, after: Facts) -> tuple[str, ...]:
    """Return what differs between two runtimes: the image, then the runtime's own package."""
    changes = differences(before, after)
    image = list(_image_sentence(changes))
    packages = _by_package(changes)
    moved = any(is_runtime(name) and _VERSION in details for name, details in packages.items())
    libraries = list(_library_sentences(changes, moved=moved))
    sentences: list[str] = []
    for name in sorted(packages, key=lambda name: (not is_runtime(name), name)):
        # The libraries say more than that their package changed.
        if not (is_runtime(name) and libraries):
            sentences += _package_sentences(name, packages[name])
    return (*image, *sentences, *libraries, *_rest(changes))


def explain_images(
    before: str, after: str, inside_before: Facts, inside_after: Facts
) -> tuple[str, ...]:
    """Return what the change from one runtime to another is, where both are container images.

    Args:
        before: a runtime as `config.runtimes` writes it.
        after: the other one.
        inside_before: its facts, empty where they are not known.
        inside_after: those of the other one.
    """
    images = image_of(before), image_of(after)
    if images[0] is None or images[1] is None:
        return ()
    digests = [image.digest.removeprefix("sha256:")[:_SHOWN_DIGEST] for image in images if image]
    if digests[0] == digests[1]:
        return ("the same container image with other options",)
    if inside_before and inside_after:
        return explain_runtime(inside_before, inside_after)
    old, new = (digest or "a tag" for digest in digests)
    return (f"another container image ({old} → {new}); it is looked into when it runs",)


def _image_sentence(changes: Changes) -> Iterator[str]:
    """Say that the container image is another one, and whether its runtime is."""
    if _IMAGE not in changes:
        return
    old, new = (side.removeprefix("sha256:")[:_SHOWN_DIGEST] for side in changes.pop(_IMAGE))
    inside = "" if changes else "; the packages and libraries of its runtime are the same"
    yield f"another container image ({old} → {new}){inside}"


def _by_package(changes: Changes) -> dict[str, Changes]:
    """Take the packages' changes out, by package and detail."""
    packages: dict[str, Changes] = defaultdict(dict)
    for key in list(changes):
        found = _PACKAGE.fullmatch(key)
        if found:
            packages[found[1]][found[2] or _VERSION] = changes.pop(key)
    return packages


def _package_sentences(name: str, details: Changes) -> Iterator[str]:
    role = "" if is_runtime(name) else " (dependency)"
    if _VERSION in details:
        old, new = details[_VERSION]
        if old == ABSENT:
            yield f"{name} {new} added{role}"
        elif new == ABSENT:
            yield f"{name} {old} removed{role}"
        else:
            yield f"{name} {old} → {new}{role}"
    elif "content" in details or "wheel" in details:
        old, new = details.get("wheel", ("", ""))
        yield f"{name} changed under the same version" + (f" ({old} → {new})" if old else "")
    elif ABSENT in details.get("sha256", ()):
        yield f"{name}: one side knows the hash of its wheel, the content is the same{role}"
    else:
        yield f"{name}: another hash in the lock, the same content installed{role}"


def _library_sentences(changes: Changes, *, moved: bool) -> Iterator[str]:
    """Say which libraries changed, unless the runtime's version did and explains them all."""
    for key in [key for key in changes if key.startswith("library.")]:
        old, new = changes.pop(key)
        name = key.removeprefix("library.")
        if moved:
            continue
        if ABSENT in (old, new):
            yield f"{name} {'appeared' if old == ABSENT else 'is gone'} under the same version"
        else:
            yield f"{name} changed under the same version"


def _rest(changes: Changes) -> Iterator[str]:
    for key, (old, new) in changes.items():
        yield f"{_WORDS.get(key, key.removeprefix('environment.'))} {old} → {new}"
