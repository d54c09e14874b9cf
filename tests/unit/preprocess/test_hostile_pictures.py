"""Pictures that want to exhaust, confuse or crash the decoder: generated, and refused."""

import contextlib
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ci_parity.base.errors import EvidenceError
from ci_parity.preprocess.execute import apply
from ci_parity.preprocess.image import steps
from ci_parity.preprocess.model import Decode, ImagePipeline, Pipeline
from tests.support.raw_inputs import encoded, picture, pixels, write_pipeline

PLAIN = ImagePipeline(
    input="x", decode=Decode(channels="RGB", exif=True, background=None), steps=(),
    layout="NCHW", batch=True, dtype="uint8",
)  # fmt: skip


def png(height: int, width: int, data: bytes) -> bytes:
    """Return a PNG of a grey picture whose header says what the caller wants."""

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Return a pipeline without steps."""
    return write_pipeline(tmp_path, "image: {input: x}")


@pytest.mark.parametrize("size", [(8192, 8193), (20_000, 20_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_before_it_is_decoded(pipeline: Pipeline, size: tuple[int, int]) -> None:
    """A few bytes that promise from 64 Mi pixels to more than any memory."""
    with pytest.raises(EvidenceError, match=r"too large|cannot be decoded"):
        apply(pipeline, png(*size, zlib.compress(bytes(1000))))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_every_form_is_read_whole_and_refused_cut(pipeline: Pipeline, form: str) -> None:
    """What is there of a cut picture is not taken for the picture."""
    raw = picture(40, 50, form=form)
    assert apply(pipeline, raw)["x"].shape == (1, 3, 40, 50)
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(EvidenceError, match="the picture"):
            apply(pipeline, raw[: int(len(raw) * share)])


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"\x80\x04K\x01.", b"%PDF-1.4", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg/>",
     b"RIFF\x10\x00\x00\x00WAVE", b"\x00" * 5000],
)  # fmt: skip
def test_what_is_no_picture_is_refused(pipeline: Pipeline, raw: bytes) -> None:
    """Pickles, documents and formats that call other programs are never opened."""
    with pytest.raises(EvidenceError, match="cannot be decoded"):
        apply(pipeline, raw)


@pytest.mark.parametrize("mode", ["CMYK", "I;16", "F"])
def test_pixels_without_one_8_bit_reading_are_refused(pipeline: Pipeline, mode: str) -> None:
    """Whoever converts them chooses something; the pipeline has to say it."""
    stream = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8)).save(stream, "PNG")
    else:
        Image.fromarray(pixels(8, 8)).convert("L" if mode == "F" else "RGB").convert(mode).save(
            stream, "TIFF"
        )
    with pytest.raises(EvidenceError, match="no single 8-bit reading"):
        apply(pipeline, stream.getvalue())


def test_a_thin_picture_that_a_resize_would_blow_up_is_refused(tmp_path: Path) -> None:
    """One row of 20,000 pixels, its shortest side to 1,024."""
    pipeline = write_pipeline(
        tmp_path, "image: {input: x, steps: [{resize: {policy: shortest, size: 1024}}]}"
    )
    with pytest.raises(EvidenceError, match="more than 67,108,864"):
        apply(pipeline, encoded(pixels(1, 20_000)))


@settings(max_examples=150, deadline=None)
@given(
    form=st.sampled_from(["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM"]),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=8),
    orientation=st.integers(1, 9),
)
def test_damaged_files_are_pictures_or_refused(
    form: str, flips: list[tuple[int, int]], orientation: int
) -> None:
    """Whatever bytes are flipped: a tensor or an `EvidenceError`, nothing else."""
    exif = form in ("PNG", "JPEG", "WEBP", "TIFF")
    raw = bytearray(encoded(pixels(12, 9), form, orientation=orientation if exif else 1))
    for place, value in flips:
        raw[place % len(raw)] ^= value
    made = None
    with contextlib.suppress(EvidenceError):
        made = [step.array for step in steps(PLAIN, bytes(raw))][-1]
    assert made is None or (str(made.dtype), made.ndim) == ("uint8", 4)
