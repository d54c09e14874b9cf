"""A user's repository with a source: two cases of y = 2 x without references, a script beside."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ci_parity.fixtures.signature import read_signature
from ci_parity.fixtures.store import open_fixtures, read_references
from tests.support.user_repository import UserRepository, linear_repository

CONFIG = """\
version: 1
deployment: linear
variants: {variants}
source: {source}
fixtures: fixtures
policy: {{timeout_s: 60, latency: {{measure: false}}}}
"""
VARIANTS = {"exported": {"path": "model.onnx"}}
SOURCE = {"entry": "tools/reference.py:predict", "framework": "numpy"}
DOUBLE = "import numpy as np\ndef predict(inputs):\n    return {'y': 2 * inputs['x']}\n"
LOADS = """\
import numpy as np
W = np.load('w.npy')
def predict(inputs):
    return inputs['x'] * W
"""


class SourceRepository:
    """The repository; its script and config are written anew by `source`."""

    def __init__(self, root: Path) -> None:
        self.user: UserRepository = linear_repository(root)
        self.root = root
        self.fixtures = root / "fixtures"
        for path in self.fixtures.glob("*/output_*.pb"):
            path.unlink()
        self.source()

    def source(
        self, code: str = DOUBLE, *, variants: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        """Write the script and a config that names it."""
        self.user.write("tools/reference.py", code)
        config = CONFIG.format(
            variants=json.dumps(VARIANTS | (variants or {})), source=json.dumps(SOURCE | settings)
        )
        self.user.write("ci-parity.yml", config)

    def weights(self, value: float = 2) -> Path:
        """Save the checkpoint that `LOADS` loads."""
        path = self.root / "w.npy"
        np.save(path, np.full(3, value, np.float32))
        return path

    def references(self) -> dict[str, Any]:
        """Return the stored references of every case as lists."""
        signature = read_signature(self.root / "model.onnx")
        return {
            case.name: {
                name: np.asarray(value).tolist()
                for name, value in read_references(case, signature).items()
            }
            for case in open_fixtures(self.fixtures, signature).cases
        }

    def snapshot(self) -> dict[str, bytes]:
        """Return every file of the fixture set with its content."""
        files = (path for path in self.fixtures.rglob("*") if path.is_file())
        return {str(path.relative_to(self.fixtures)): path.read_bytes() for path in files}


def doubled(rows: int) -> list[list[float]]:
    """Return the references of the case with that many rows, `one` or `batch` of four."""
    x = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
    found: list[list[float]] = (2 * x).tolist()
    return found
