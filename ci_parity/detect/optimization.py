"""The optimization axis beside a target's options: a variant's recipe and the tools that follow it.

A recipe counts with its bytes, its tools with what their requirements pin. Without requirements an
identity holds the digest of the recipe alone, as lines of a release log do that were written before
tools were recorded. A library of custom operators is in the options by the digest that it must
have; here it is where a file has other bytes.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import read_pins
from ci_parity.config.systems import Optimization, Target
from ci_parity.detect.converter_words import explain_pins
from ci_parity.detect.pin_facts import facts_of_pins, pins_of_facts
from ci_parity.records.facts import ABSENT, Facts, measured, reading

_NONE = "(none)"
_LIBRARY = "library "
_SHOWN = 12


def optimization_text(made: Optimization | None, root: Path) -> str:
    """Return what optimized a variant as an identity keeps it: a digest, or facts as JSON.

    Args:
        made: the recipe and its tools, None for neither.
        root: the repository; nothing outside it is read.

    Raises:
        EvidenceError: the recipe is missing, or the requirements cannot be read.
    """
    if made is None:
        return ""
    recipe = _recipe_digest(made.recipe) if made.recipe else ""
    if made.requires is None:
        return recipe
    pins = read_pins(made.requires, root)
    facts = {"recipe": recipe} if recipe else {}
    return canonical_bytes({**facts, "requires": pins.name, **facts_of_pins(pins)}).decode()


def strange_libraries(target: Target, roots: Sequence[Path]) -> Facts:
    """Return the digests of a target's libraries of custom operators that no worker would load.

    Those that are not there are left out: they may be built later, or on another machine.

    Args:
        target: its options name each library with the digest that it must have.
        roots: the folders that the paths start from; the bytes may be at any of them.
    """
    found = {}
    for library in target.libraries:
        read = [reading(partial(sha256_file, root / library.path)) for root in roots]
        there = [digest for digest in read if digest != ABSENT]
        if there and library.sha256 not in there:
            found[_LIBRARY + library.path] = there[0]
    return found


def with_strange_libraries(text: str, strange: Facts) -> str:
    """Return what an identity holds together with what `strange_libraries` found."""
    return canonical_bytes({**json.loads(as_facts(text)), **strange}).decode() if strange else text


def as_facts(text: str) -> str:
    """Return what an identity holds as facts in any case: canonical JSON, `{}` for none."""
    if text.startswith("{"):
        return text
    return canonical_bytes({"recipe": text} if text else {}).decode()


def explain_optimization(before: Facts, after: Facts) -> tuple[str, ...]:
    """Return a sentence for each difference of the tools, none where only the recipe differs."""
    names = [facts.get("requires", "") for facts in (before, after)]
    sentences = [] if names[0] == names[1] else [_arrow("requires", *names)]
    if all(names):
        sides = (pins_of_facts(before, names[0]), pins_of_facts(after, names[1]))
        sentences += explain_pins(*sides)
    sentences += [
        f"{name} has the digest {digest[:_SHOWN]}, which is not the config's"
        if measured(digest)
        else f"{name}: {digest}"
        for name, digest in after.items()
        if name.startswith(_LIBRARY) and before.get(name) != digest
    ]
    return tuple(sentences)


def _arrow(what: str, was: str, now: str) -> str:
    return f"{what} {was or _NONE} → {now or _NONE}"


def _recipe_digest(recipe: Path) -> str:
    try:
        if recipe.is_file():
            return sha256_file(recipe)
    except OSError as error:
        raise EvidenceError(
            f"the optimization recipe cannot be read: {error.strerror}", where=str(recipe)
        ) from error
    raise EvidenceError(
        "the optimization recipe is missing", where=str(recipe), remedy="correct its path"
    )
