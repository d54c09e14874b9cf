"""One step of the PyTorch chain a call: train, exported, simplified, int8; and the source itself.

Runs in the environment of the conversion tools and imports nothing of ours.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np


def digits() -> "tuple[Any, Any]":
    """Return 600 noisy 8 x 8 pictures of ten strokes and their labels, seeded."""
    random = np.random.default_rng(17)
    strokes = random.random((10, 1, 8, 8)) > 0.6
    labels = np.arange(600) % 10
    pictures = strokes[labels] + 0.25 * random.standard_normal((600, 1, 8, 8))
    return pictures.astype(np.float32), labels.astype(np.int64)


def network() -> "Any":
    """Return the untrained classifier."""
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip


def predict(inputs: "dict[str, Any]") -> "dict[str, Any]":
    """The source system: PyTorch with the trained checkpoint."""
    import torch

    model = network()
    model.load_state_dict(torch.load("digits.pt", weights_only=True))
    model.eval()
    with torch.no_grad():
        return {"logits": model(torch.from_numpy(inputs["image"]))}


def train() -> None:
    """Train for a few epochs, keep the checkpoint, and store three cases of inputs."""
    import onnx
    import torch
    from onnx import numpy_helper

    pictures, labels = digits()
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(torch.from_numpy(pictures)), torch.from_numpy(labels)
        )
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "digits.pt")
    for number, rows in enumerate((slice(0, 1), slice(0, 16), slice(40, 44))):
        folder = Path(f"cases/test_data_set_{number}")
        folder.mkdir(parents=True)
        tensor = numpy_helper.from_array(pictures[rows], "image")
        onnx.save_tensor(tensor, folder / "input_0.pb")


def exported() -> None:
    """Export the trained model with torch.onnx."""
    import torch

    model = network()
    model.load_state_dict(torch.load("digits.pt", weights_only=True))
    model.eval()
    torch.onnx.export(
        model, (torch.zeros(2, 1, 8, 8),), "exported.onnx", dynamo=False, opset_version=17,
        input_names=["image"], output_names=["logits"], do_constant_folding=False,
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )  # fmt: skip


def simplified() -> None:
    """Simplify the export with onnxsim."""
    import onnx
    import onnxsim

    model, _ = onnxsim.simplify(onnx.load("exported.onnx"), check_n=0)
    onnx.save(model, "simplified.onnx")


def int8() -> None:
    """Quantize the simplified model statically, calibrated on the training pictures."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.parts = iter(np.split(digits()[0], 12))

        def get_next(self) -> "Any":
            part = next(self.parts, None)
            return None if part is None else {"image": part}

    quantize_static("simplified.onnx", "int8.onnx", Reader(), per_channel=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
