"""Bytes: the tokens of beginning, middle and end, worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.preprocess.execute import apply
from ci_parity.preprocess.file_bytes import steps
from ci_parity.preprocess.model import BytesPipeline
from tests.support.raw_inputs import write_pipeline

P = 256


def rebuilt(folder: Path, raw: bytes, words: str) -> list[int]:
    """Return the tokens of a file."""
    pipeline = write_pipeline(folder, f"bytes: {{input: x, {words}}}")
    made = np.asarray(apply(pipeline, raw)["x"])
    assert made.shape[0] == 1
    return [int(token) for token in made[0]]


@pytest.mark.parametrize(
    ("raw", "words", "expected"),
    [
        (b"abc", "beginning: 2, end: 2", [97, 98, 98, 99]),
        (b"a", "beginning: 2, end: 2", [97, P, P, 97]),
        (b" a ", "beginning: 2, end: 2", [97, 32, 32, 97]),
        (b" a ", "beginning: 2, end: 2, strip: both", [97, P, P, 97]),
        (b" a ", "beginning: 2, end: 2, strip: none", [32, 97, 97, 32]),
        (b"abcde", "beginning: 0, end: 0, middle: 3", [98, 99, 100]),
        (b"ab", "beginning: 0, end: 0, middle: 5, padding: 7", [7, 97, 98, 7, 7]),
        (b"abcdef", "beginning: 3, end: 0, block: 2", [97, 98, P]),
        (b"    x", "beginning: 2, end: 0, block: 3", [P, P]),
    ],
)
def test_tokens(tmp_path: Path, raw: bytes, words: str, expected: list[int]) -> None:
    """White space goes on the outer sides alone, unless it is said otherwise."""
    assert rebuilt(tmp_path, raw, words) == expected


@given(raw=st.binary(min_size=1, max_size=60), begin=st.integers(1, 20), end=st.integers(1, 20))
def test_it_is_magikas_rule(raw: bytes, begin: int, end: int) -> None:
    """Written again from its source: strip a block's outer side, cut, pad the inner side."""
    pipeline = BytesPipeline(
        input="x", beginning=begin, middle=0, end=end, block=32, strip="outer", padding=P,
        batch=False, dtype="int32",
    )  # fmt: skip
    first, last = raw[:32].lstrip()[:begin], raw[-32:].rstrip()[-end:]
    expected = [*first, *[P] * (begin - len(first)), *[P] * (end - len(last)), *last]
    *_, made = steps(pipeline, raw)
    assert made.array is not None
    assert made.array.tolist() == expected


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    """There is no byte to take."""
    with pytest.raises(EvidenceError, match="empty"):
        rebuilt(tmp_path, b"", "beginning: 2")


def test_what_has_no_meaning_is_refused(tmp_path: Path) -> None:
    """No byte at all, or a padding that the type cannot hold: both problems at once."""
    with pytest.raises(ConfigError, match=r"no byte is taken[\s\S]*256 does not fit into uint8"):
        rebuilt(tmp_path, b"a", "beginning: 0, end: 0, dtype: uint8")
