"""What an output reads: texts of both sides, decoded alike, and how many edits lie between them.

Texts are compared symbol by symbol; an alphabet only says how symbols are shown. A text that
changes at near ties alone is named as one: wherever the best class of a step changes, the
tolerance can explain it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.base.words import plural
from ci_parity.compare.decisions.decoding import PAD, Decoded, decode
from ci_parity.compare.decisions.edits import edit_distance, trimmed
from ci_parity.compare.decisions.findings import (
    decided,
    lost,
    quoted,
    undecided,
)
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.rows import Rows, rows_of
from ci_parity.compare.metrics import index_of
from ci_parity.config.decisions import Text
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.outcome import Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

# Work on the changed texts of one output, in cells of an edit table, after which distances are
# bounded instead of computed; what a text and a row of its table cost besides their cells.
_BUDGET = 200_000_000
_TEXT_COST = 40_000
_ROW_COST = 1_000
_SHOWN_SYMBOLS = 200
_SHOWN_NUMBERS = 20
_REMEDY = "read both texts; if the new one is right, replace the reference"


@dataclass(slots=True)
class Edits:
    """What lies between the texts of all rows; with `bounded`, some distances are upper bounds.

    `changed` counts rows whose text changed, `near` those of them that changed at near ties alone.
    """

    changed: int = 0
    near: int = 0
    largest: int = 0
    worst: int | None = None
    largest_near: int = 0
    worst_near: int | None = None
    bounded: bool = False


def judge_text(
    subject: Subject, baseline: "Array", candidate: "Array", policy: Text, leeway: Leeway,
    alphabet: Sequence[str],
) -> Finding:  # fmt: skip
    """Judge what two outputs read; `alphabet` holds the symbol of each class, see `symbols`.

    Raises:
        UnusableError: an output cannot be decoded in this way.
    """
    found = decode(baseline, candidate, policy)
    edits = _compare(found, baseline, policy, leeway)
    words = _words(found, edits, _shower(policy, alphabet))
    if found.lost:
        said = f"the candidate alone is not finite in {plural(found.lost, 'row')}"
        return lost("text", subject, "; ".join([said, *words]))
    measured = max(edits.largest, edits.largest_near) if policy.near.fail else edits.largest
    failed = measured > policy.max_edit_distance
    if found.nan_before and not failed:
        said = f"the baseline has NaN in {plural(found.nan_before, 'row')}"
        return undecided("text", subject, "; ".join([said, *words]))
    return decided(
        "text", subject, Outcome.FAIL if failed else Outcome.PASS, "; ".join(words),
        measured=float(measured), limit=float(policy.max_edit_distance), remedy=_REMEDY,
    )  # fmt: skip


# Comparing.


def _compare(found: Decoded, baseline: "Array", policy: Text, leeway: Leeway) -> Edits:
    import numpy as np

    left, right = (_padded(side, found) for side in found.texts)
    edits = Edits()
    changed = np.flatnonzero((left != right).any(axis=1))
    edits.changed = int(changed.size)
    spent = 0
    for done, row in enumerate(changed.tolist()):
        pair = trimmed(*(side[row][side[row] != PAD] for side in (left, right)))
        spent += _TEXT_COST + pair[0].size * (pair[1].size + _ROW_COST)
        if spent > _BUDGET:
            _bound_rest(edits, changed[done:], left, right)
            break
        distance = edit_distance(*pair)
        near = _is_near_tie(found, row, baseline, policy, leeway)
        edits.near += near
        if near and distance > edits.largest_near:
            edits.largest_near, edits.worst_near = distance, row
        elif not near and distance > edits.largest:
            edits.largest, edits.worst = distance, row
    return edits


def _bound_rest(edits: Edits, rows: "Integers", left: "Integers", right: "Integers") -> None:
    """Take for each row the most its distance can be: the length of the longer text."""
    import numpy as np

    edits.bounded = True
    lengths = [np.count_nonzero(side[rows] != PAD, axis=1) for side in (left, right)]
    longest = np.maximum(lengths[0], lengths[1])
    at = int(longest.argmax())
    if longest[at] > edits.largest:
        edits.largest, edits.worst = int(longest[at]), int(rows[at])


def _padded(side: "Integers", found: Decoded) -> "Integers":
    """Return texts as long as the longer side has them."""
    import numpy as np

    width = max(text.shape[1] for text in found.texts)
    padding = ((0, 0), (0, width - side.shape[1]))
    return np.pad(side, padding, constant_values=PAD)


def _is_near_tie(found: Decoded, row: int, baseline: "Array", policy: Text, leeway: Leeway) -> bool:
    """Whether each step of a row whose best class changed did so within the allowed margin."""
    import numpy as np

    if found.steps is None:
        return False
    before, after = (side[row] for side in found.steps)
    at = np.flatnonzero(before != after)
    rows = rows_of(baseline, policy.axis)
    numbers = _step_numbers(found, row, at, rows, policy, baseline.ndim)
    old, new = rows.values(numbers, before[at]), rows.values(numbers, after[at])
    bound: Floats | float | None = policy.near.margin
    if bound is None:
        bound = leeway.at(rows.flat(numbers, before[at]), old)
        bound = bound + leeway.at(rows.flat(numbers, after[at]), new)
    with np.errstate(invalid="ignore"):
        return bool((old - new <= bound).all())


def _step_numbers(
    found: Decoded, row: int, at: "Integers", rows: Rows, policy: Text, rank: int
) -> "Integers":
    """Return the numbers, among all rows of classes, of some steps of one text."""
    import numpy as np

    time = policy.time_axis % rank
    time -= time > rows.axis
    index = list(index_of(row, found.rest))
    full = [np.full(at.size, i) for i in index]
    full.insert(time, at)
    numbers = np.ravel_multi_index(tuple(full), rows.rest)
    return np.asarray(numbers, dtype=np.int64)


# Saying it.


def symbols(alphabet: Sequence[str], policy: Text, classes: int | None) -> tuple[str, ...]:
    """Return the symbol of each class; none without an alphabet.

    Args:
        alphabet: as the file has it, for `ctc` with or without the blank.
        policy: how the output is decoded.
        classes: how many classes the output has; None where that cannot be known.
    """
    if not alphabet:
        return ()
    full = [*alphabet, " "] if policy.append_space else list(alphabet)
    if policy.decode == "ctc" and len(full) + 1 == classes:
        full.insert(policy.blank, "")
    return tuple(full)


def _shower(policy: Text, alphabet: Sequence[str]) -> "Callable[[Integers], str]":
    """Return how a text is shown: characters, symbols of the alphabet, else numbers."""

    def show(text: "Integers") -> str:
        numbers = text[text != PAD][:_SHOWN_SYMBOLS].tolist()
        if policy.decode == "strings":
            return quoted("".join(map(chr, numbers)))
        if not alphabet:
            return str(numbers[:_SHOWN_NUMBERS])
        return quoted("".join(alphabet[n] if n < len(alphabet) else f"<{n}>" for n in numbers))

    return show


def _words(found: Decoded, edits: Edits, show: "Callable[[Integers], str]") -> list[str]:
    total = len(found.texts[0])
    if not total:
        return ["no text on either side"]
    if not edits.changed:
        return [f"{plural(total, 'text')} read alike"]
    words = [f"{edits.changed:,} of {plural(total, 'text')} changed"]
    if edits.bounded:
        words.append("too much changed to count every edit: some distances are upper bounds")
    for count, row, distance, kind in (
        (edits.changed - edits.near, edits.worst, edits.largest, ""),
        (edits.near, edits.worst_near, edits.largest_near, " at near ties alone"),
    ):
        if row is not None:
            before, after = (show(side[row]) for side in found.texts)
            words.append(
                f"{count} changed{kind}, by up to {plural(distance, 'edit')}: {_name(row, found)} "
                f"read {before}, reads {after}"
            )
    return words


def _name(row: int, found: Decoded) -> str:
    index = index_of(row, found.rest)
    return f"row {index[0]}" if len(index) == 1 else f"row {list(index)}"
