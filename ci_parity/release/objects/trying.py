"""Patience with a place of a store: what passes is tried again, what stays is said."""

import logging
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ci_parity.base.errors import CiParityError, InfrastructureError, PublishError
from ci_parity.base.escape import visible
from ci_parity.release.objects.place import Place

_TRIES = 4
_LONGEST_WAIT_S = 8.0
_log = logging.getLogger(__name__)
_random = random.SystemRandom()
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What is done with a place, and the error that it ends in."""

    words: str
    kind: type[CiParityError]


READING = Doing(words="read from", kind=InfrastructureError)
WRITING = Doing(words="write to", kind=PublishError)


def tried(
    place: Place, key: str, call: Callable[[], _T], doing: Doing, *, sleep: Callable[[float], None]
) -> _T:
    """Return what a call returns, after as many tries as may help, with growing waits.

    Raises:
        CiParityError: of the kind that `doing` says, after the last try.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            return call()
        except place.failures as error:
            if attempt == _TRIES or not place.passing(error):
                raise doing.kind(
                    f"cannot {doing.words} the store: {_words(error)}",
                    where=f"{place.label}: {key}",
                    remedy=_remedy(error),
                ) from error
            _log.info("%s: try %d failed: %s", place.label, attempt, _words(error))
        sleep(_random.uniform(0.5, 1.0) * min(_LONGEST_WAIT_S, 0.5 * 2**attempt))
    raise AssertionError("the last try returns or raises")


def _words(error: Exception) -> str:
    """Return what a library says of a failure, without what an address may hold of secrets."""
    text = error.what if isinstance(error, CiParityError) else str(error)
    text = text or type(error).__name__
    return visible(re.sub(r"(?<=://)[^/@\s]*@|\?[^\s\"'<>]*", "", text), 300)


def _remedy(error: Exception) -> str:
    if isinstance(error, CiParityError) and error.remedy:
        return error.remedy
    if isinstance(error, FileNotFoundError):
        return "make the bucket, or correct its address"
    if isinstance(error, PermissionError):
        return "give the job's credentials the right to list, read and write there"
    if "credentials" in type(error).__name__.lower():
        return "give the job credentials for the store, such as a role or AWS_ACCESS_KEY_ID"
    return "see that the store can be reached, then run again: what arrived is not sent twice"
