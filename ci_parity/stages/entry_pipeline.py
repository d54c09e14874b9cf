"""A pipeline that is the repository's own function: run in the worker of a source system.

Between a raw input and the tensors that such a function makes of it. The function runs in a process
of its own, under a time limit, with no secrets in its environment, and in a copy of the files that
its pipeline names: what it writes there never reaches the deployment, and what it reads without
naming it is not there, as it would not be on another machine.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ci_parity.base.errors import EvidenceError
from ci_parity.config.systems import Source
from ci_parity.records.observation import CaseInputs
from ci_parity.records.values import write_value
from ci_parity.run.environments import cache_folder
from ci_parity.run.source import SourceJob, SourceProcess, prepare, read_outputs
from ci_parity.stages.preprocessing import files_of_pipeline

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ci_parity.preprocess.model import EntryPipeline, Pipeline

RAW = "raw"
"""The name under which the function gets the bytes of a raw input."""


@dataclass(slots=True, kw_only=True)
class EntryProcess:
    """A running entry point."""

    process: SourceProcess
    folder: Path
    where: str
    asked: int = field(default=0)

    def apply(self, raw: bytes, case: str) -> "Mapping[str, npt.NDArray[np.generic]]":
        """Return the tensors that the function makes of a raw input.

        Raises:
            EvidenceError: the function fails, or returns what is no mapping of names to arrays.
            InfrastructureError: the worker dies or hangs.
        """
        import numpy as np

        self.asked += 1
        stem = f"r{self.asked}"
        record = write_value(RAW, np.frombuffer(raw, np.uint8), self.folder, f"{stem}_raw")
        run = self.process.run(CaseInputs(case=case, inputs=(record,)), str(self.folder), stem)
        found: dict[str, npt.NDArray[np.generic]] = {}
        for name, value in read_outputs(run.outputs, self.folder):
            if not name or name in found or not isinstance(value, np.ndarray):
                raise EvidenceError(
                    "the pipeline's function returned no mapping of input names to arrays",
                    where=f"{self.where}, case {case}",
                    remedy="return {'input name': array, …}, each name once",
                )
            found[name] = value
        return found


@contextmanager
def running(
    pipeline: "Pipeline", entry: "EntryPipeline", root: Path, scratch: Path, timeout_s: float
) -> Iterator[EntryProcess]:
    """Start an entry point for as long as it is needed.

    Args:
        pipeline: the pipeline.
        entry: its kind.
        root: the deployment's folder.
        scratch: a folder of ours, in which the copy and the exchanged files lie.
        timeout_s: how long it may take to load, and for each raw input.

    Raises:
        ConfigError: there is no such script or interpreter, or the requirements do not pin.
        EvidenceError: the script fails as it is loaded, or a file cannot be read.
        InfrastructureError: the environment cannot be built, or the worker dies or hangs.
    """
    own = Source(
        entry=pipeline.root / entry.script, function=entry.function, framework="numpy",
        requires=pipeline.root / entry.requires if entry.requires else None, python=entry.python,
    )  # fmt: skip
    argv = prepare(own, root=root, cache=cache_folder())
    copy, exchange = scratch / "code", scratch / "exchange"
    _copy([path for path, _ in files_of_pipeline(pipeline, root)], root, copy)
    exchange.mkdir(parents=True)
    moved = Source(
        entry=copy / own.entry.relative_to(root), function=own.function, framework=own.framework
    )
    job = SourceJob(source=moved, root=copy, argv=argv, watched=(), timeout_s=timeout_s)
    with SourceProcess(job, exchange) as process:
        yield EntryProcess(process=process, folder=exchange, where=job.where)


def _copy(files: Sequence[Path], root: Path, copy: Path) -> None:
    for path in files:
        target = copy / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, target)
        except OSError as error:
            raise EvidenceError(
                f"a file of the preprocessing pipeline cannot be read: {error.strerror}",
                where=str(path),
                remedy="restore it, or correct the pipeline that names it",
            ) from error
