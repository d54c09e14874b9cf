"""Rebuilt tensors next to stored ones, input by input: equal, within a limit, or how different."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ci_parity.preprocess.allowance import Allowance
from ci_parity.preprocess.steps import Array, summary_of
from ci_parity.records.preprocess import InputMatch, Match

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def match_inputs(
    rebuilt: Mapping[str, Array], stored: Mapping[str, Array], allowed: Allowance
) -> tuple[InputMatch, ...]:
    """Compare every input that either side has; absence is a difference."""
    return tuple(
        _match(name, rebuilt.get(name), stored.get(name), allowed)
        for name in sorted(rebuilt.keys() | stored.keys())
    )


def _match(
    name: str, rebuilt: "Array | None", stored: "Array | None", allowed: Allowance
) -> InputMatch:
    made = None if rebuilt is None else summary_of(rebuilt)
    kept = None if stored is None else summary_of(stored)
    if rebuilt is None or stored is None or made is None or kept is None:
        match = Match.EXTRA if rebuilt is None else Match.MISSING
        words = (
            "stored, but the pipeline does not make it" if match is Match.EXTRA
            else "the pipeline makes it, but it is not stored"
        )  # fmt: skip
        return InputMatch(name=name, match=match, words=words, rebuilt=made, stored=kept)
    if (made.dtype, made.shape) != (kept.dtype, kept.shape):
        words = f"rebuilt {made.dtype} {list(made.shape)}, stored {kept.dtype} {list(kept.shape)}"
        return InputMatch(name=name, match=Match.DIFFERENT, words=words, rebuilt=made, stored=kept)
    apart = _distances(rebuilt, stored)
    differing = int((apart > 0).sum())
    max_abs = float(apart.max(initial=0.0))
    limit = 0.0 if made.dtype == "string" else allowed.limit(rebuilt, stored)
    rounding = 0.0 if made.dtype == "string" else allowed.rounding.limit(rebuilt, stored)
    scattered = float((apart > rounding).mean()) <= allowed.share if apart.size else True
    match, words = _judged(apart, limit, allowed.why, scattered=scattered)
    return InputMatch(
        name=name, match=match, words=words, rebuilt=made, stored=kept, max_abs=max_abs,
        differing=differing, worst=_worst(apart) if differing else (), limit=limit,
        why=allowed.why,
    )  # fmt: skip


def _judged(
    apart: "npt.NDArray[np.float64]", limit: float, why: str, *, scattered: bool
) -> tuple[Match, str]:
    differing, max_abs = int((apart > 0).sum()), float(apart.max(initial=0.0))
    if not differing:
        return Match.EQUAL, "equal"
    place = list(_worst(apart))
    told = f"{differing:,} of {apart.size:,} values differ, by {max_abs:.4g} at most, at {place}"
    allowed = f"{limit:.4g} is allowed ({why})"
    if max_abs > limit:
        return Match.DIFFERENT, f"{told}; {allowed}"
    if scattered and float((apart**2).mean()) ** 0.5 <= limit / 2:
        return Match.WITHIN, f"{told}; {allowed}"
    return Match.DIFFERENT, f"{told}; {allowed}, but not everywhere"


def _distances(rebuilt: Array, stored: Array) -> "npt.NDArray[np.float64]":
    """Return the absolute differences; NaN equals NaN, and is infinitely far from a number."""
    import numpy as np

    if rebuilt.dtype.kind in "OU" or stored.dtype.kind in "OU":
        return np.where(rebuilt.astype(str) == stored.astype(str), 0.0, np.inf)
    same = rebuilt == stored
    if rebuilt.dtype.kind == "f":
        same |= np.isnan(rebuilt) & np.isnan(stored)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(rebuilt.astype(np.float64) - stored.astype(np.float64))
    apart = np.where(np.isnan(apart), np.inf, apart)
    # Two whole numbers beyond 2^53 may be one float64 apart by nothing.
    apart = np.where(~same & (apart == 0), 1.0, apart)
    return np.asarray(np.where(same, 0.0, apart), np.float64)


def _worst(apart: "npt.NDArray[np.float64]") -> tuple[int, ...]:
    import numpy as np

    return tuple(int(index) for index in np.unravel_index(int(apart.argmax()), apart.shape))
