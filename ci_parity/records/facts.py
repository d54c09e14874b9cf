"""Facts of a host or a runtime: short texts under dotted keys, as they were measured.

Detection and the runtimes write them, the change set compares them. A fact is never left out to
mean something: what is not there is `absent`, what could not be read is `failed: reason`, so that
either turning into a value, or a value into either, is a difference. Nothing here judges.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ci_parity.base.digest import sha256_bytes

Facts: TypeAlias = Mapping[str, str]

ABSENT = "absent"
EMPTY = "(empty)"
MAX_CHARS = 160
_FAILED = "failed: "


def fact(text: str, *, max_chars: int = MAX_CHARS) -> str:
    """Return `text` as a fact: one visible line, its end a digest beyond `max_chars`."""
    stripped = text.strip()
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in stripped)
    if len(shown) > max_chars:
        digest = sha256_bytes(shown.encode())
        shown = f"{shown[: max_chars - 24]}… (sha256 {digest[:12]})"
    return shown or EMPTY


def failed(reason: str) -> str:
    """Return the fact that something is there and could not be read."""
    return fact(f"{_FAILED}{reason}")


def measured(value: str) -> bool:
    """Whether a fact is a value, neither absent nor failed."""
    return value != ABSENT and not value.startswith(_FAILED)


def reading(read: Callable[[], str]) -> str:
    """Return what `read` returns as a fact: a missing file is absent, any other trouble failed."""
    try:
        return fact(read())
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        return failed(error.strerror or type(error).__name__)
    except ValueError as error:
        return failed(str(error))


def is_runtime(package: str) -> bool:
    """Whether a package is an inference runtime, by its canonical name."""
    return package.startswith("onnxruntime") or package in {"openvino", "tract"}


def differences(before: Facts, after: Facts) -> dict[str, tuple[str, str]]:
    """Return every key whose fact differs, with both sides, in the order of `after`.

    A key that one side does not have is absent there.
    """
    keys = dict.fromkeys((*after, *before))
    pairs = {key: (before.get(key, ABSENT), after.get(key, ABSENT)) for key in keys}
    return {key: (old, new) for key, (old, new) in pairs.items() if old != new}
