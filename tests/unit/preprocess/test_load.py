"""The pipeline's file: defaults, problems all at once, and Hugging Face's own files."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.preprocess.execute import apply, digest, facts, read_raw
from ci_parity.preprocess.load import load_pipeline, schema
from ci_parity.preprocess.model import EntryPipeline, ImagePipeline, TextPipeline
from tests.support.raw_inputs import encoded, picture, pixels, write_pipeline, write_tokenizer

VIT = {
    "image_processor_type": "ViTImageProcessor", "do_resize": True, "do_rescale": True,
    "do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.2, 0.1],
    "resample": 2, "rescale_factor": 1 / 255, "size": {"height": 10, "width": 12},
}  # fmt: skip
CLIP = {
    "feature_extractor_type": "CLIPFeatureExtractor", "crop_size": 8, "do_center_crop": True,
    "do_normalize": True, "do_resize": True, "image_mean": [0.48, 0.45, 0.4],
    "image_std": [0.26, 0.26, 0.27], "resample": 3, "size": 9,
}  # fmt: skip
TEXT = {
    "tokenizer_class": "BertTokenizer", "model_max_length": 512, "do_lower_case": True,
    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
}  # fmt: skip


def hugging(folder: Path, name: str, value: object) -> Path:
    """Write a file in Hugging Face form."""
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def described(rule: Any, place: str = "$") -> list[str]:
    """Return the places of the keys that the schema does not describe."""
    lacking = []
    for key, child in rule.get("properties", {}).items():
        lacking += [f"{place}.{key}"] if "description" not in child and "const" not in child else []
    for name, child in rule.get("$defs", {}).items():
        lacking += described(child, f"{place}.{name}")
    return lacking


def test_the_schema_describes_every_key_and_closes_every_object() -> None:
    """For people, and against misspelt keys."""
    assert described(schema()) == []
    objects = [schema(), *schema()["$defs"].values()]
    closed = [o for o in objects if o.get("type") == "object" and "properties" in o]
    assert len(closed) > 15
    assert all(o["additionalProperties"] is False for o in closed)


def test_defaults_are_filled_in_at_every_depth(tmp_path: Path) -> None:
    """What is not said is what the schema says."""
    pipeline = write_pipeline(tmp_path, "image: {input: x, steps: [{resize: {size: 8}}]}")
    assert isinstance(pipeline.kind, ImagePipeline)
    assert pipeline.kind.decode.channels == "RGB"
    assert pipeline.kind.layout == "NCHW"
    text = write_pipeline(tmp_path, "text: {truncation: {length: 8}, padding: {multiple: 4}}").kind
    assert isinstance(text, TextPipeline)
    assert "side='right'" in str(text.truncation)
    assert "side='right'" in str(text.padding)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """With line, path and the key that was probably meant."""
    text = "image:\n  input: x\n  channel: BGR\n  steps:\n    - resize: {sise: 8}\n  dtype: float\n"
    with pytest.raises(ConfigError) as caught:
        write_pipeline(tmp_path, text)
    told = str(caught.value)
    for part in ("unknown key 'channel'", "unknown key 'sise'; did you mean 'size'?",
                 "preprocess.yml:6", "'float' is not one of", "docs/preprocess.md"):  # fmt: skip
        assert part in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("constants: {}", "exactly one of"),
        ("image: {input: x}\nbytes: {input: y}", "image and bytes"),
        ("image: {input: x}\nconstants: {x: {value: 1}}", "already makes this input"),
        ("image: {input: x}\nconstants: {y: {value: [1, 2], shape: [3]}}", "2 values for 3"),
        ("image: {input: x, steps: [{scale: {divide: 255}}, {resize: {size: 8}}]}", "8-bit pixels"),
        ("image: {input: x, steps: [{pad: {}}]}", "'size' or 'multiple'"),
        ("image: {input: x, steps: [{normalise: {mean: [1, 2], std: 1}}]}", "2 values for 3"),
        ("image: {input: x, steps: [{normalise: {mean: 1, std: 0}}]}", "0 divides nothing"),
        ("image: {input: x, steps: [{resize: {size: 8, filter: box, antialias: false}}]}",
         "box is always antialiased"),
        ("image: {input: x, steps: [{resize: {size: [8, 9], policy: shortest}}]}", "one number"),
        ("text: {prompt: hello}", "{text} stands"),
        ("text: {padding: {}}", "'length' or 'multiple'"),
        ("audio: {input: x, window: {length: 4, hop: 2}}", "batch: false"),
        ("entry: {call: 'a.py:f', requires: a.txt, python: python3}", "keep 'requires'"),
        ("entry: {call: 'a:f'}", "does not match"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Before any input is opened."""
    with pytest.raises(ConfigError) as caught:
        write_pipeline(tmp_path, text)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["../tokenizer.json", "/etc/hostname", "link/tokenizer.json"])
def test_paths_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    """By a name, an absolute path or a link."""
    inner = tmp_path / "inner"
    inner.mkdir()
    write_tokenizer(tmp_path)
    (inner / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="leaves the folder"):
        write_pipeline(inner, f"text: {{tokenizer: {name}}}")


def test_a_wider_root_allows_what_lies_in_it(tmp_path: Path) -> None:
    """The pipeline may lie in a folder of its own, beside what it names."""
    write_tokenizer(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "p.yml").write_text("version: 1\ntext: {tokenizer: ../tokenizer.json}\n")
    pipeline = load_pipeline(inner / "p.yml", root=tmp_path)
    assert apply(pipeline, b"the")["input_ids"].shape == (1, 3)


def test_raw_inputs_are_regular_files_of_the_folder(tmp_path: Path) -> None:
    """A pipe, which nobody writes to, is refused at once; so is what lies outside."""
    import os

    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_bytes(b"x")
    os.mkfifo(tmp_path / "in" / "pipe")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "file").write_bytes(b"abc")
    assert read_raw(tmp_path / "in" / "file", root=tmp_path / "in") == b"abc"
    for name, words in (("pipe", "regular"), ("link", "leaves"), ("none", "cannot be read"),
                        ("../out", "leaves"), ("", "cannot be read")):  # fmt: skip
        with pytest.raises(EvidenceError, match=words):
            read_raw(tmp_path / "in" / name, root=tmp_path / "in")


def test_an_entry_is_described_and_never_run(tmp_path: Path) -> None:
    """The function would leave a trace."""
    (tmp_path / "p.py").write_text("open('trace', 'w')\n")
    pipeline = write_pipeline(tmp_path, "entry: {call: 'p.py:build', files: [preprocess.yml]}")
    assert isinstance(pipeline.kind, EntryPipeline)
    assert [path.name for path in pipeline.files] == ["preprocess.yml", "p.py", "preprocess.yml"]
    with pytest.raises(ConfigError, match="not run in this process"):
        apply(pipeline, b"x")
    assert not list(tmp_path.glob("trace"))


def test_constants_fill_their_shape(tmp_path: Path) -> None:
    """One number fills, several are in row-major order."""
    pipeline = write_pipeline(
        tmp_path,
        "bytes: {input: x}\nconstants:\n"
        "  sr: {dtype: int64, value: 16000}\n"
        "  state: {shape: [2, 1, 3], value: 0.5}\n"
        "  box: {dtype: int32, shape: [2, 2], value: [1, 2, 3, 4]}\n",
    )
    made = apply(pipeline, b"a")
    assert made["sr"].shape == ()
    assert made["sr"].dtype == np.int64
    np.testing.assert_array_equal(made["state"], np.full((2, 1, 3), 0.5, np.float32))
    assert made["box"].tolist() == [[1, 2], [3, 4]]


def test_the_digest_is_of_the_meaning(tmp_path: Path) -> None:
    """Another spelling is the same; a value, a default that changes or a file's byte is not."""
    write_tokenizer(tmp_path)
    one = digest(write_pipeline(tmp_path, "text: {normalise: [NFC]}"))
    spelt = digest(write_pipeline(tmp_path, "text:\n  special_tokens: true\n  normalise: [NFC]"))
    other = digest(write_pipeline(tmp_path, "text: {normalise: [NFD]}"))
    named = facts(write_pipeline(tmp_path, "text: {normalise: [NFC]}"))
    write_tokenizer(tmp_path, padding=True)
    file = digest(write_pipeline(tmp_path, "text: {normalise: [NFC]}"))
    assert one == spelt
    assert len({one, other, file}) == 3
    assert named["text.normalise.0"] == "NFC"
    assert len(named["file.tokenizer.json"]) == 64


def test_a_missing_filler_that_is_nan_has_a_digest(tmp_path: Path) -> None:
    """JSON has no NaN; the facts are text."""
    pipeline = write_pipeline(
        tmp_path, "tabular: {columns: {a: {missing: nan}}, inputs: {x: {columns: [a]}}}"
    )
    assert "nan" in facts(pipeline).values()
    assert math.isfinite(int(digest(pipeline), 16))


def test_a_vit_processor_is_what_its_source_does(tmp_path: Path) -> None:
    """Resize to the size, times 1/255, mean and std: transformers' own arithmetic by hand."""
    pipeline = load_pipeline(hugging(tmp_path, "preprocessor_config.json", VIT))
    array = pixels(20, 33)
    made = apply(pipeline, encoded(array))["pixel_values"]
    small = np.asarray(Image.fromarray(array).resize((12, 10), Image.Resampling.BILINEAR))
    scaled = (small.astype(np.float64) * (1 / 255)).astype(np.float32)
    mean, std = np.array(VIT["image_mean"], np.float32), np.array(VIT["image_std"], np.float32)
    np.testing.assert_array_equal(made[0], ((scaled - mean) / std).transpose(2, 0, 1))


def test_an_old_clip_extractor_resizes_the_shortest_side_and_crops(tmp_path: Path) -> None:
    """`size` and `crop_size` are numbers there; rescaling is not mentioned and done."""
    pipeline = load_pipeline(hugging(tmp_path, "preprocessor_config.json", CLIP))
    array = pixels(20, 33)
    made = apply(pipeline, encoded(array))["pixel_values"]
    resized = Image.fromarray(array).resize((int(9 * 33 / 20), 9), Image.Resampling.BICUBIC)
    crop = np.asarray(resized)[0:8, (resized.width - 8) // 2 :][:, :8]
    mean, std = np.array(CLIP["image_mean"], np.float32), np.array(CLIP["image_std"], np.float32)
    expected = (crop.astype(np.float32) / np.float32(255) - mean) / std
    np.testing.assert_array_equal(made[0], expected.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image_processor_type": "ConvNextImageProcessor"}, "ConvNextImageProcessor"),
        ({"image_processor_type": None}, "the processor 'None'"),
        ({"crop_pct": 0.9}, "'crop_pct'"),
        ({"auto_map": {"AutoImageProcessor": "code.py"}}, "'auto_map'"),
        ({"resample": None}, "resample None"),
        ({"resample": 9}, "resample 9"),
        ({"size": {"shortest_edge": 224}}, "size {'shortest_edge': 224}"),
        ({"size": {"height": 8, "width": 8, "longest_edge": 9}}, "longest_edge"),
        ({"do_normalize": None}, "no do_normalize"),
        ({"image_mean": "half"}, "image_mean 'half'"),
        ({"rescale_factor": "1/255"}, "rescale_factor"),
        ({"do_center_crop": True}, "does not crop"),
        ({"data_format": "channels_last"}, "channels_last"),
    ],
)
def test_what_would_be_a_guess_is_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    """With the way out."""
    path = hugging(tmp_path, "preprocessor_config.json", VIT | change)
    with pytest.raises(ConfigError, match="without guessing") as caught:
        load_pipeline(path)
    assert words in caught.value.what
    assert "preprocess.yml" in caught.value.remedy


def test_keys_that_are_null_say_nothing(tmp_path: Path) -> None:
    """Newer versions write every key of every processor."""
    value = VIT | {"crop_size": None, "do_center_crop": None, "pad_size": None, "device": None}
    pipeline = load_pipeline(hugging(tmp_path, "preprocessor_config.json", value))
    assert apply(pipeline, picture())["pixel_values"].shape == (1, 3, 10, 12)


def test_a_tokenizer_config_neither_pads_nor_cuts(tmp_path: Path) -> None:
    """As `tokenizer(text)` does, whatever tokenizer.json would do by itself."""
    write_tokenizer(tmp_path, padding=True, bert=True)
    made = apply(load_pipeline(hugging(tmp_path, "tokenizer_config.json", TEXT)), b"THE")
    assert {name: array.shape for name, array in made.items()} == {
        "input_ids": (1, 3), "token_type_ids": (1, 3), "attention_mask": (1, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_input_names": None}, "no model_input_names"),
        ({"model_input_names": ["pixel_values"]}, "'pixel_values'"),
        ({"add_bos_token": True}, "add_bos_token True"),
        ({"do_lower_case": False}, "do_lower_case False, where tokenizer.json has True"),
        ({"auto_map": {}}, "'auto_map'"),
    ],
)
def test_a_tokenizer_config_that_changes_the_tokenizer_is_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    """Transformers would rewrite tokenizer.json when it loads it; that is not imitated."""
    write_tokenizer(tmp_path, bert=True)
    path = hugging(tmp_path, "tokenizer_config.json", TEXT | change)
    with pytest.raises(ConfigError) as caught:
        load_pipeline(path)
    assert words in caught.value.what


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1, "a": 2}', "\x00"])
def test_broken_files_of_hugging_face_are_refused(tmp_path: Path, content: str) -> None:
    """No second reading of a broken file."""
    path = tmp_path / "preprocessor_config.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="JSON"):
        load_pipeline(path)
