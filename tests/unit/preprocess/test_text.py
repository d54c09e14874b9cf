"""Text: a small tokenizer whose ids can be worked out by hand."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.preprocess.execute import apply, walk
from ci_parity.preprocess.load import load_pipeline
from tests.support.raw_inputs import write_pipeline, write_tokenizer

PAD, UNK, CLS, SEP = range(4)


@pytest.fixture
def ids(tmp_path: Path) -> dict[str, int]:
    """Write the tokenizer and return its vocabulary."""
    value = json.loads(write_tokenizer(tmp_path).read_text(encoding="utf-8"))
    return dict(value["model"]["vocab"])


def tensors(folder: Path, text: str, words: str = "") -> dict[str, np.ndarray]:
    """Return the tensors of a text."""
    pipeline = write_pipeline(folder, f"text: {{{words}}}")
    return apply(pipeline, text.encode())


def test_ids_and_mask_come_with_special_tokens(tmp_path: Path, ids: dict[str, int]) -> None:
    """[CLS] and [SEP] stand around the words; int64 in a batch of one."""
    made = tensors(tmp_path, "themodel")
    assert made["input_ids"].dtype == np.int64
    assert made["input_ids"].tolist() == [[CLS, ids["the"], ids["model"], SEP]]
    assert made["attention_mask"].tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("padding: {length: 6}", ["[CLS]", "the", "model", "[SEP]", "[PAD]", "[PAD]"]),
        ("padding: {length: 6, side: left}",
         ["[PAD]", "[PAD]", "[CLS]", "the", "model", "[SEP]"]),
        ("padding: {multiple: 3, token: a}", ["[CLS]", "the", "model", "[SEP]", "a", "a"]),
        ("padding: {length: 5, id: 3}", ["[CLS]", "the", "model", "[SEP]", "[SEP]"]),
        ("truncation: {length: 3}", ["[CLS]", "the", "[SEP]"]),
        ("truncation: {length: 3, side: left}", ["[CLS]", "model", "[SEP]"]),
        ("special_tokens: false", ["the", "model"]),
        ("prompt: 'same{text}a'", ["[CLS]", "same", "the", "model", "a", "[SEP]"]),
    ],
)  # fmt: skip
def test_what_surrounds_the_words(
    tmp_path: Path, ids: dict[str, int], words: str, expected: list[str]
) -> None:
    """Padding, truncation, special tokens and template, each on its side."""
    write_tokenizer(tmp_path, padding=True)
    none = "" if "padding" in words else ", padding: none"
    made = tensors(tmp_path, "themodel", words + none)
    assert made["input_ids"].tolist() == [[ids[word] for word in expected]]


def test_the_files_own_padding_counts_where_nothing_is_said(tmp_path: Path) -> None:
    """The tokenizer pads to 8; the pipeline may say none."""
    write_tokenizer(tmp_path, padding=True)
    assert tensors(tmp_path, "the")["input_ids"].shape == (1, 8)
    assert tensors(tmp_path, "the", "padding: none")["input_ids"].shape == (1, 3)
    assert tensors(tmp_path, "the")["input_ids"].shape == (1, 8)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_unicode_forms(tmp_path: Path, ids: dict[str, int], form: str) -> None:
    """é is one token when composed, two when not."""
    made = tensors(tmp_path, "é", f"normalise: [{form}]")
    assert form in ("NFC", "NFD", "NFKC", "NFKD")
    parts = list(unicodedata.normalize(form, "é"))  # type: ignore[arg-type]
    assert made["input_ids"].tolist() == [[CLS, *(ids[part] for part in parts), SEP]]


def test_lower_case_and_stripping(tmp_path: Path, ids: dict[str, int]) -> None:
    """In their order, before the template."""
    made = tensors(tmp_path, "  The ", "normalise: [strip, lower], prompt: 'A{text}'")
    assert made["input_ids"].tolist() == [[CLS, ids["A"], ids["the"], SEP]]


def test_outputs_feed_inputs_of_other_names(tmp_path: Path, ids: dict[str, int]) -> None:
    """The mask may be turned round, and the element type is the model's."""
    made = tensors(
        tmp_path, "the",
        "outputs: {ids: input_ids, pad: padding_mask, types: token_type_ids}, dtype: int32,"
        " padding: {length: 4, id: 0}, batch: false",
    )  # fmt: skip
    assert made["ids"].dtype == np.int32
    assert made["ids"].tolist() == [CLS, ids["the"], SEP, PAD]
    assert made["pad"].tolist() == [0, 0, 0, 1]
    assert made["types"].tolist() == [0, 0, 0, 0]


def test_the_tokens_are_told(tmp_path: Path, ids: dict[str, int]) -> None:
    """A person sees the normalised text and the words that became numbers."""
    assert ids
    pipeline = write_pipeline(tmp_path, "text: {normalise: [lower]}")
    told = [step.summary for step in walk(pipeline, b"THEMODEL")]
    assert [step.preview for step in told[1:3]] == ["themodel", "[CLS] the model [SEP]"]


def test_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    """The byte at fault is named."""
    write_tokenizer(tmp_path)
    with pytest.raises(EvidenceError, match="no UTF-8 text: invalid start byte at byte 3"):
        apply(write_pipeline(tmp_path, "text: {}"), b"abc\xff")


def test_text_of_more_than_a_mebi_of_characters_is_refused(tmp_path: Path) -> None:
    """Tokenizing is not bounded otherwise."""
    write_tokenizer(tmp_path)
    with pytest.raises(EvidenceError, match="1,048,577 characters"):
        apply(write_pipeline(tmp_path, "text: {}"), b"a" * (2**20 + 1))


@pytest.mark.parametrize("content", [b"{}", b"[1", b"\x80\x04K\x01.", b'{"model": 3}', b""])
def test_a_broken_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    """Another JSON, none, a pickle: nothing of it is executed."""
    (tmp_path / "tokenizer.json").write_bytes(content)
    pipeline = write_pipeline(tmp_path, "text: {}")
    with pytest.raises(ConfigError, match=r"tokenizer.* cannot be"):
        apply(pipeline, b"the")


def test_padding_without_an_id_is_refused(tmp_path: Path) -> None:
    """The file names none, and none is guessed."""
    write_tokenizer(tmp_path)
    pipeline = write_pipeline(tmp_path, "text: {padding: {length: 8}}")
    with pytest.raises(ConfigError, match="no id for padding"):
        apply(pipeline, b"the")


def test_truncation_shorter_than_the_special_tokens_is_refused(tmp_path: Path) -> None:
    """One token cannot hold [CLS] and [SEP]."""
    write_tokenizer(tmp_path)
    pipeline = write_pipeline(tmp_path, "text: {truncation: {length: 1}}")
    with pytest.raises(ConfigError, match="cannot be used"):
        apply(pipeline, b"the")


def test_a_tokenizer_json_alone_is_a_pipeline(tmp_path: Path) -> None:
    """It pads as the file itself says."""
    path = write_tokenizer(tmp_path, padding=True)
    assert apply(load_pipeline(path), b"the")["input_ids"].shape == (1, 8)
