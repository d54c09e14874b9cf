"""References to container images, and what moved between two sets of them.

Source of the grammar: the reference format of the OCI distribution specification and of Docker. A
reference without a digest is floating: the same line may mean another image tomorrow.
"""

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ci_parity.base.pins.pairing import pairs

_REFERENCE = re.compile(
    r"(?P<repository>[^\s@]+?)(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>\w+:[0-9A-Fa-f]{32,}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One reference.

    Attributes:
        repository: with its registry, as written; with `${…}` where a variable has no value.
        tag: empty for none.
        digest: `algorithm:hex`, empty for a floating reference.
        role: what uses it: `FROM`, `FROM … AS build`, `services.db`, `jobs.test.container`.
        where: `file:line` from the repository root.
    """

    repository: str
    tag: str = ""
    digest: str = ""
    role: str = ""
    where: str = ""

    @property
    def floating(self) -> bool:
        """Whether nothing fixes the bytes it stands for."""
        return not self.digest

    @property
    def reference(self) -> str:
        """The whole reference."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")


class ImageChangeKind(enum.Enum):
    """The respect in which a reference differs."""

    ADDED = "added"
    REMOVED = "removed"
    REPOSITORY = "repository"
    TAG = "tag"
    DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChange:
    """One difference; `was` and `now` are the whole references, empty for what is not there."""

    kind: ImageChangeKind
    role: str
    was: str
    now: str
    where: str


def parse_image(text: str, *, role: str = "", where: str = "") -> Image:
    """Return the reference in a text; one that is none is kept whole as its repository."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return Image(repository=text, role=role, where=where)
    parts = found.groupdict(default="")
    return Image(**parts, role=role, where=where)


def compare_images(before: Sequence[Image], after: Sequence[Image]) -> tuple[ImageChange, ...]:
    """Return every difference; paired by role and repository, then by one of them."""
    return tuple(
        change for old, new in pairs(before, after, _LIKENESS) for change in _differences(old, new)
    )


_LIKENESS: tuple[Callable[[Image], object], ...] = (
    lambda image: (image.role, image.reference),
    lambda image: (image.role, image.repository),
    lambda image: image.repository,
    lambda image: image.role,
)


def _differences(old: Image | None, new: Image | None) -> Iterator[ImageChange]:
    if old is None and new is not None:
        yield _change(ImageChangeKind.ADDED, new, "", new.reference)
    elif old is not None and new is None:
        yield _change(ImageChangeKind.REMOVED, old, old.reference, "")
    elif old is not None and new is not None and old.reference != new.reference:
        yield _change(_kind(old, new), new, old.reference, new.reference)


def _kind(old: Image, new: Image) -> ImageChangeKind:
    if old.repository != new.repository:
        return ImageChangeKind.REPOSITORY
    return ImageChangeKind.TAG if old.tag != new.tag else ImageChangeKind.DIGEST


def _change(kind: ImageChangeKind, image: Image, was: str, now: str) -> ImageChange:
    return ImageChange(kind=kind, role=image.role, was=was, now=now, where=image.where)
