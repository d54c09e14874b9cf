"""The far end of a declared pipeline: it is carried out here, in a process of its own.

What decodes pictures and sounds and what splits text is native code over files that others wrote:
where it crashes, hangs or takes all memory, this process is lost, and the near end says so. One
JSON object a line comes in, one goes out; tensors travel as files. A refusal (`CiParityError`) is
an answer. Before each step its name is written where the near end finds it.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ci_parity.base import errors
from ci_parity.preprocess.diagnose import Comparison, compared, explained
from ci_parity.preprocess.execute import apply, read_raw, walk
from ci_parity.preprocess.model import Pipeline
from ci_parity.preprocess.steps import Array
from ci_parity.preprocess.wire import pipeline_from_json, plain_numbers
from ci_parity.records.codec import to_json
from ci_parity.records.values import ValueRecord, read_value, write_value

PLACE_FILE, PLACE_BYTES = "at", 256
"""Where the name of the step that has begun is written, blanks behind it."""

Request = dict[str, Any]
Verb = Callable[[Request], dict[str, Any]]


class Worker:
    """One pipeline and the verbs that carry it out; `folder` is where files are exchanged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pipeline: Pipeline | None = None
        self._comparison: Comparison | None = None
        self._place = os.open(folder / PLACE_FILE, os.O_WRONLY | os.O_CREAT, 0o600)

    def load(self, request: Request) -> dict[str, Any]:
        """Take the pipeline."""
        # Importing it is no part of any case.
        import numpy as np  # noqa: F401

        self._pipeline = pipeline_from_json(request["pipeline"])
        return {}

    def tensors(self, request: Request) -> dict[str, Any]:
        """Write what is made of a raw file; return the records of the tensors."""
        made = apply(self._loaded, self._raw(request), begin=self.begin)
        self.begin("writing")
        records = [
            write_value(name, array, self._folder, f"{request['stem']}_{number}")
            for number, (name, array) in enumerate(made.items())
        ]
        return {"tensors": to_json(records)}

    def compare(self, request: Request) -> dict[str, Any]:
        """Hold what is made of a raw file against stored tensors, without asking for causes."""
        self._comparison = None
        stored = {item["name"]: self._stored(item) for item in request["stored"]}
        self._comparison = compared(
            self._loaded, self._raw(request), stored, begin=self.begin
        )  # fmt: skip
        return {
            "diagnosis": to_json(self._comparison.diagnosis), "open": self._comparison.is_open
        }  # fmt: skip

    def explain(self, request: Request) -> dict[str, Any]:
        """Search for what made the difference that was found last."""
        if self._comparison is None:
            raise RuntimeError("nothing was compared")
        found, self._comparison = self._comparison, None
        return {"diagnosis": to_json(explained(found, request["seconds"]))}

    def steps(self, request: Request) -> dict[str, Any]:
        """Say what each step makes of a raw file."""
        walked = walk(self._loaded, self._raw(request), begin=self.begin)
        return {"steps": [to_json(step.summary) for step in walked]}

    def begin(self, step: str) -> None:
        """Note a step that begins."""
        words = step.encode("utf-8", "replace")[:PLACE_BYTES]
        os.pwrite(self._place, words.ljust(PLACE_BYTES), 0)

    @property
    def _loaded(self) -> Pipeline:
        if self._pipeline is None:
            raise RuntimeError("no pipeline is loaded")
        return self._pipeline

    def _raw(self, request: Request) -> bytes:
        self.begin("reading")
        return read_raw(Path(request["file"]), root=Path(request["root"]))

    def _stored(self, item: Mapping[str, Any]) -> Array:
        import numpy as np

        record = ValueRecord(
            name=item["name"], kind=item["kind"], dtype=item["dtype"],
            shape=tuple(item["shape"]), file=item["file"],
        )  # fmt: skip
        return np.asarray(read_value(record, self._folder))


def serve(requests: IO[str], answers: IO[str], worker: Worker) -> None:
    """Answer requests until the end of input."""
    verbs: dict[str, Verb] = {
        "load": worker.load, "tensors": worker.tensors, "compare": worker.compare,
        "explain": worker.explain, "steps": worker.steps,
    }  # fmt: skip
    for line in requests:
        request = json.loads(line)
        try:
            answer = {"ok": True, **verbs[request["verb"]](request)}
        except errors.CiParityError as error:
            answer = {"ok": True, "refused": _refusal(error)}
        except Exception as error:  # noqa: BLE001 - whatever a library raises is an answer
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(plain_numbers({**answer, "id": request["id"]})) + "\n")
        answers.flush()


def main() -> None:
    """Serve in the folder that the process was started in."""
    with _claimed() as (requests, answers):
        serve(requests, answers, Worker(Path.cwd()))


def _refusal(error: errors.CiParityError) -> dict[str, str]:
    kind = type(error).__name__
    said = {"kind": kind, "what": error.what, "where": error.where, "remedy": error.remedy}
    return {name: text.encode("utf-8", "replace").decode() for name, text in said.items()}


@contextmanager
def _claimed() -> Iterator[tuple[IO[str], IO[str]]]:
    """Keep the real standard streams for the protocol; what a library prints goes elsewhere."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(sys.stderr.fileno(), 1)
    with requests, answers:
        yield requests, answers
