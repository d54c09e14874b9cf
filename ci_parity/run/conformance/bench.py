"""The program under check: the folders it is told of, and what rules ask it.

Answers are read as strictly as a run of the product reads them; nothing is judged here.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_parity.base.digest import sha256_file
from ci_parity.base.errors import EvidenceError
from ci_parity.base.process import worker_environment
from ci_parity.records.codec import from_json, to_json
from ci_parity.records.observation import RunStatus
from ci_parity.records.values import Value, ValueRecord, read_value, write_value
from ci_parity.run.protocol import WorkerError, WorkerProcess

if TYPE_CHECKING:
    from onnx import ModelProto


class FailedError(Exception):
    """The runner broke a rule."""


class UnsupportedError(Exception):
    """The runner said that it cannot do what it need not do."""


class Bench:
    """The program under check, the folders it is told of, and what checks ask it."""

    def __init__(self, argv: Sequence[str], folder: Path, provider: str, timeout_s: float) -> None:
        self.argv, self.provider, self.timeout_s = argv, provider, timeout_s
        self.models, self.inputs, self.exchange = (
            folder / name for name in ("models", "inputs", "exchange")
        )
        for path in (self.models, self.inputs, self.exchange):
            path.mkdir(parents=True)
        self.written: dict[Path, str] = {}
        self.numbers = itertools.count()
        self.worker = self._start()

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self.argv, env=worker_environment(), cwd=self.exchange)

    def restart(self) -> None:
        """End the program and start it afresh."""
        self.worker.kill()
        self.worker = self._start()

    def ask(self, verb: str, **payload: object) -> dict[str, Any]:
        """Send one request; raises `WorkerError`."""
        return self.worker.request(verb, timeout_s=self.timeout_s, **payload)

    def refused(self, what: str, verb: str, **payload: object) -> str:
        """Return the words of a request that must be answered with an error."""
        try:
            self.ask(verb, **payload)
        except WorkerError as error:
            if error.status is RunStatus.ERROR:
                return error.message
            raise
        raise FailedError(f"{what} was answered as if all were well")

    def load(self, model: "ModelProto") -> dict[str, Any]:
        """Save a model and load it."""
        return self.ask("load", **self.loading(model))

    def loading(self, model: "ModelProto") -> dict[str, object]:
        """Save a model and return the request that loads it."""
        name = f"m{next(self.numbers)}.onnx"
        path = self.file(name, model.SerializeToString(deterministic=True))
        defaults = {tensor.name for tensor in model.graph.initializer}
        return {
            "model": str(path), "provider": self.provider, "provider_options": {},
            "session_options": {},
            "input_names": [i.name for i in model.graph.input if i.name not in defaults],
            "output_names": [o.name for o in model.graph.output],
        }  # fmt: skip

    def case(self, values: Mapping[str, Value], **payload: object) -> dict[str, object]:
        """Write inputs and return the request that runs them."""
        stem = f"c{next(self.numbers)}"
        before = set(self.inputs.iterdir())
        records = [
            write_value(name, value, self.inputs, f"{stem}_i{index}")
            for index, (name, value) in enumerate(values.items())
        ]
        for path in set(self.inputs.iterdir()) - before:
            self.written[path] = sha256_file(path)
        return {
            "inputs": to_json(records), "input_folder": str(self.inputs),
            "folder": str(self.exchange), "stem": stem, **payload,
        }  # fmt: skip

    def run(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Run one case and read its outputs, as strictly as a run of the product does."""
        return self.read(self.ask("run", **self.case(values, repeat=1)).get("outputs"))

    def read(self, outputs: Any) -> dict[str, Value]:  # noqa: ANN401 - whatever was answered
        """Read the outputs of an answer."""
        try:
            records = from_json(tuple[ValueRecord, ...], outputs, where="outputs")
            return {record.name: read_value(record, self.exchange) for record in records}
        except EvidenceError as error:
            raise FailedError(f"unreadable outputs: {error.what}") from error

    def file(self, name: str, data: bytes) -> Path:
        """Write a file beside the models."""
        path = self.models / name
        path.write_bytes(data)
        self.written[path] = sha256_file(path)
        return path

    def check_untouched(self) -> None:
        """Check that models and inputs are what was written, and nothing lies beside them."""
        for path, digest in self.written.items():
            if not path.is_file() or sha256_file(path) != digest:
                raise FailedError(f"{path.name} was changed or removed")
        for folder in (self.models, self.inputs):
            added = sorted(path.name for path in set(folder.iterdir()) - self.written.keys())
            if added:
                raise FailedError(f"{', '.join(added[:3])} was written beside what it was given")
