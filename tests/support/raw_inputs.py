"""Generated raw inputs for tests of preprocessing: pictures, sounds, a tokenizer; pipelines too."""

import io
import json
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image

from ci_parity.preprocess.load import load_pipeline
from ci_parity.preprocess.model import Pipeline

ORIENTATION = 0x0112


def pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return RGB pixels that have edges, gradients and no symmetry."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    ramp = np.stack([rows * 3 + columns, columns * 5 - rows, rows + 40 + columns // 2], axis=2)
    noise = generator.integers(0, 40, (height, width, 3))
    picture = ramp % 200 + noise
    picture[height // 3 :, : width // 4] //= 3
    return np.asarray(np.clip(picture, 0, 255), np.uint8)


def encoded(
    array: np.ndarray, form: str = "PNG", *, orientation: int = 1, mode: str | None = None
) -> bytes:
    """Return pixels as the bytes of a picture's file."""
    stream = io.BytesIO()
    image = Image.fromarray(array)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    (image.convert(mode) if mode else image).save(
        stream, form, **({"exif": exif} if orientation != 1 else {})
    )
    return stream.getvalue()


def picture(height: int = 23, width: int = 31, seed: int = 0, form: str = "PNG") -> bytes:
    """Return the file of a generated picture."""
    return encoded(pixels(height, width, seed), form)


def wave(frames: int = 4000, channels: int = 2, seed: int = 0) -> np.ndarray:
    """Return different tones in noise, 16-bit [frames, channels], within 0.8 of full scale."""
    generator = np.random.default_rng(seed)
    time_s = np.arange(frames) / 8000
    tones = [0.5 * np.sin(2 * np.pi * (300 + 170 * c) * time_s + c) for c in range(channels)]
    noise = generator.uniform(-0.3, 0.3, (frames, channels))
    return np.rint((np.stack(tones, axis=1) + noise) * 32767).astype(np.int16)


def sound(
    samples: np.ndarray | None = None, rate: int = 8000, form: str = "WAV", subtype: str = "PCM_16"
) -> bytes:
    """Return samples, 16-bit ones as they are, as the bytes of a sound's file."""
    stream = io.BytesIO()
    given = wave() if samples is None else samples
    soundfile.write(stream, given, rate, format=form, subtype=subtype)
    return stream.getvalue()


def write_tokenizer(folder: Path, *, padding: bool = False, bert: bool = False) -> Path:
    """Write a word-level tokenizer.json of printable characters and some words, with specials."""
    characters = [chr(code) for code in range(33, 127)] + ["é", "e", "\u0301", "ü"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "model", "means", "same", *characters]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = {name: vocabulary[name] for name in ("[CLS]", "[SEP]")}
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": _PADDING if padding else None,
        "added_tokens": [
            {"id": vocabulary[name], "content": name, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True}
            for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
        ],
        "normalizer": _BERT if bert else None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "the|model|means|same|."},
                          "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                name: {"id": name, "ids": [number], "tokens": [name]}
                for name, number in ids.items()
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }  # fmt: skip
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_pipeline(folder: Path, text: str) -> Pipeline:
    """Write a preprocess.yml and read it."""
    path = folder / "preprocess.yml"
    path.write_text(f"version: 1\n{text}", encoding="utf-8")
    return load_pipeline(path)


_PADDING = {
    "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
    "pad_type_id": 0, "pad_token": "[PAD]",
}  # fmt: skip
_BERT = {
    "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
    "strip_accents": None, "lowercase": True,
}  # fmt: skip
