"""A difference between two preprocessing pipelines, in sentences: what became what."""

import re
from collections.abc import Iterator

from ci_parity.records.facts import ABSENT, Facts, differences

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILES = ("file.", "import.")
_MOST = 12


def explain_preprocess(before: Facts, after: Facts) -> tuple[str, ...]:
    """Return a sentence for each fact that differs, the pipeline's own before those of files."""
    if not before:
        return ("inputs are made by a declared pipeline now",)
    if not after:
        return ("no pipeline is declared any more",)
    found = list(_sentences(before, after))
    more = len(found) - _MOST
    return (*found[:_MOST], *([f"and {more} more differences"] if more > 0 else []))


def _sentences(before: Facts, after: Facts) -> Iterator[str]:
    changes = differences(before, after)
    for key in sorted(changes, key=lambda key: key.startswith(_FILES)):
        name, (old, new) = _words(key), changes[key]
        if new == ABSENT:
            yield f"{name} is gone, it was {_short(old)}"
        elif old == ABSENT:
            yield f"{name} came, it is {_short(new)}"
        elif key.startswith(_FILES):
            yield f"{name} has other bytes: {_short(old)} became {_short(new)}"
        else:
            yield f"{name}: {old} became {new}"


def _words(key: str) -> str:
    """Return a fact's dotted key as a reader says it: `image.steps.0.resize.filter` is its filter.

    Steps are called by what they do; their place in the list is said where another one follows.
    """
    kind, _, rest = key.partition(".")
    if key.startswith(_FILES):
        return f"file {rest}"
    parts = rest.split(".") if rest else [kind]
    if parts[0] == "steps" and len(parts) > 2:
        place, step, *part = parts[1:]
        return " ".join((step, *part, f"(step {int(place) + 1})"))
    return " ".join(parts)


def _short(value: str) -> str:
    return value[:12] if _DIGEST.fullmatch(value) else value
