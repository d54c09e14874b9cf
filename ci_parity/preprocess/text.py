"""Text to token tensors by the `tokenizers` library, from a tokenizer.json on disk.

The file alone decides: nothing is fetched. Its own padding and truncation count where the pipeline
says "file".
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.preprocess.model import Padding, TextPipeline, Truncation
from ci_parity.preprocess.places import MAX_NAMED_BYTES, read_regular
from ci_parity.preprocess.steps import Step, library, shortened, typed

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

MAX_CHARACTERS = 2**20
MAX_TOKENS = 2**24
_SHOWN_TOKENS = 40
_FIELDS: Mapping[str, Callable[["Encoding"], list[int]]] = {
    "input_ids": lambda encoding: encoding.ids,
    "attention_mask": lambda encoding: encoding.attention_mask,
    "padding_mask": lambda encoding: [1 - value for value in encoding.attention_mask],
    "token_type_ids": lambda encoding: encoding.type_ids,
    "special_tokens_mask": lambda encoding: encoding.special_tokens_mask,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A parsed tokenizer.json and what it says itself about padding and truncation."""

    tokenizer: "Tokenizer"
    padding: Mapping[str, Any] | None
    truncation: Mapping[str, Any] | None


def steps(pipeline: TextPipeline, raw: bytes, root: Path) -> Iterator[Step]:
    """Yield every step of a text; the last ones are the tensors.

    Raises:
        ConfigError: tokenizer.json cannot be used, or the padding has no id.
        EvidenceError: the raw input is no UTF-8 text, or is too long.
        InfrastructureError: the library is not installed.
    """
    import numpy as np

    text = _decoded(raw)
    yield Step(name="decode", words=f"{len(text)} characters of UTF-8", text=text)
    for name in pipeline.normalise:
        text = _normalised(text, name)
        yield Step(name=name, words=f"{len(text)} characters", text=text)
    text = pipeline.prompt.replace("{text}", text)
    if pipeline.prompt != "{text}":
        yield Step(name="prompt", words="the text in its template", text=text)
    encoding = _encoded(pipeline, text, root)
    shown = " ".join(encoding.tokens[:_SHOWN_TOKENS])
    words = f"{len(encoding.ids)} tokens, {sum(encoding.attention_mask)} of them no padding"
    yield Step(name="tokens", words=words, array=np.asarray(encoding.ids, np.int64), text=shown)
    for name, field in pipeline.outputs:
        values = typed(np.asarray(_FIELDS[field](encoding), np.int64), pipeline.dtype)
        values = values[None] if pipeline.batch else values
        yield Step(name="tensor", words=f"{field} for input {name!r}", array=values, input=name)


def _decoded(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceError(
            f"the raw input is no UTF-8 text: {error.reason} at byte {error.start}",
            where="the raw input",
            remedy="store the text as UTF-8",
        ) from error
    if len(text) > MAX_CHARACTERS:
        raise EvidenceError(
            f"the text has {len(text):,} characters, more than {MAX_CHARACTERS:,}",
            where="the raw input",
            remedy="store a shorter one",
        )
    return text


def _normalised(text: str, name: str) -> str:
    if name == "lower":
        return text.lower()
    if name == "strip":
        return text.strip()
    forms: Any = name
    return unicodedata.normalize(forms, text)


def _encoded(pipeline: TextPipeline, text: str, root: Path) -> "Encoding":
    path = root / pipeline.tokenizer
    file = _parsed(_text_of(path), path.name)
    try:
        _set_truncation(file, pipeline.truncation)
        _set_padding(file, pipeline.padding, path.name)
        with _PanicRefused(path.name):
            encoding = file.tokenizer.encode(text, add_special_tokens=pipeline.special_tokens)
    except (ValueError, OverflowError, TypeError) as error:
        raise _unusable(path.name, error) from error
    cut = pipeline.truncation
    if isinstance(cut, Truncation) and sum(encoding.attention_mask) > cut.length:
        # The library then cuts nothing, without a word.
        raise _unusable(path.name, f"{cut.length} tokens do not hold its special tokens")
    return encoding


def _set_truncation(file: _File, wanted: Truncation | str) -> None:
    file.tokenizer.no_truncation()
    if isinstance(wanted, Truncation):
        file.tokenizer.enable_truncation(wanted.length, direction=wanted.side)
    elif wanted == "file" and file.truncation:
        file.tokenizer.enable_truncation(**file.truncation)


def _set_padding(file: _File, wanted: Padding | str, where: str) -> None:
    file.tokenizer.no_padding()
    if isinstance(wanted, Padding):
        if (wanted.length or 0) > MAX_TOKENS:
            raise ValueError("padding beyond 2^24 tokens")
        file.tokenizer.enable_padding(
            direction=wanted.side, length=wanted.length, pad_to_multiple_of=wanted.multiple,
            **_padding_token(file, wanted, where),
        )  # fmt: skip
    elif wanted == "file" and file.padding:
        file.tokenizer.enable_padding(**file.padding)


def _padding_token(file: _File, wanted: Padding, where: str) -> dict[str, Any]:
    own = file.padding or {}
    token = wanted.token if wanted.token is not None else own.get("pad_token")
    number = wanted.id
    if number is None and wanted.token is None:
        number = own.get("pad_id")
    if number is None and token is not None:
        number = file.tokenizer.token_to_id(token)
    if number is None:
        named = f"its token {token!r} is none of it" if token else "and names no token for it"
        raise ConfigError(
            f"the tokenizer has no id for padding: {named}",
            where=where,
            remedy="say padding.id, or padding.token, in the pipeline",
        )
    called = token if token is not None else file.tokenizer.id_to_token(number)
    return {
        "pad_id": number, "pad_token": called if called is not None else "[PAD]",
        "pad_type_id": own.get("pad_type_id", 0),
    }  # fmt: skip


def _text_of(path: Path) -> str:
    try:
        return read_regular(path, MAX_NAMED_BYTES).decode("utf-8")
    except (EvidenceError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the tokenizer cannot be read: {str(error).splitlines()[0]}", where=str(path)
        ) from error


@lru_cache(maxsize=2)
def _parsed(text: str, where: str) -> _File:
    tokenizers = library("tokenizers")
    try:
        with _PanicRefused(where):
            tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:
        raise _unusable(where, error) from error
    return _File(tokenizer=tokenizer, padding=tokenizer.padding, truncation=tokenizer.truncation)


class _PanicRefused:
    """Turn a panic of the library, which is no `Exception`, into an error of the file."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, value: object, _: object) -> None:
        if kind is not None and kind.__name__ == "PanicException":
            raise _unusable(self._where, value)


def _unusable(where: str, error: object) -> ConfigError:
    return ConfigError(
        f"the tokenizer cannot be used: {shortened(str(error))}",
        where=where,
        remedy="save it anew with the tokenizers library",
    )
