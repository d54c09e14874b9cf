"""Whether a runtime's error says that it lacks something, or only that something went wrong.

An operator, a version or a type that a runtime says it does not have is `unsupported`; any other
error on a valid test is a failure: huggingface/candle#3907, Reshape with `allowzero`, was one.
Words that are not known here count as a failure.
"""

import re

_LACKING = re.compile(
    r"""
    not[ _]?(?:yet\ )?implemented | unimplemented | \bno\ (?:registered\ )?implementation
    | (?:un|not\ |n't\ |not\ yet\ )support | does\ not\ (?:yet\ )?support | only\ supports?\b
    | could\ not\ find\ an\ implementation | failed\ to\ find\ kernel | OpConversionFailure
    | is\ not\ a\ registered | unknown\ (?:op|DatumType|ONNX) | under\ development
    | does\ not\ (?:have|know)\b | \bare\ supported | must\ be\ installed
    | unrecogni[sz]ed\ attribute | Candle\ has\ tensors
    | fallback\ to\ CPU\ EP\ has\ been\ explicitly\ disabled
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Compilers that fix, when they load a model, what the standard lets it compute.
_FIXING = re.compile(
    r"""
    (?:expect|expected|must\ be|need|needs|known|if)\b[^.;]*\bconst(?:ant)?\b | is\ variable
    | must\ be\ a\ known | can\ not\ be\ typed | expected\b[^.;]*\bto\ be\ determined
    """,
    re.IGNORECASE | re.VERBOSE,
)


def says_it_lacks(words: str) -> bool:
    """Whether an error says that the runtime does not have what it was asked for."""
    return _LACKING.search(words) is not None or wants_it_fixed(words)


def wants_it_fixed(words: str) -> bool:
    """Whether an error says that the runtime must know a value when it loads the model."""
    return _FIXING.search(words) is not None
