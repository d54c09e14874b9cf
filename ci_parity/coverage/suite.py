"""The node tests of the ONNX standard, as the installed `onnx` package makes them.

They are written once for each version of onnx and NumPy into the cache folder, by a process of its
own, and read from there ever after. No test is left out, changed or judged here.
"""

import shutil
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from ci_parity.base import process
from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import Progress
from ci_parity.coverage.cases import FORMAT, read_cases
from ci_parity.records.coverage import NodeCase

_TIMEOUT_S = 900.0
_PACKAGE_ROOT = Path(__file__).parents[2]
_CASES = "onnx.backend.test.case.node"


def suite_cases(cache: Path, progress: Progress) -> tuple[NodeCase, ...]:
    """Return all node tests of the standard, written into the cache folder where they are not yet.

    Args:
        cache: where environments are kept, too.
        progress: is told while they are written.

    Raises:
        InfrastructureError: onnx comes without its tests here, or they cannot be written.
    """
    folder = suite_folder(cache)
    cases = read_cases(folder)
    if cases is not None:
        return cases
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            cases = read_cases(folder)
            if cases is None:
                with progress.step("writing the node tests of the ONNX standard", 1) as step:
                    _write(folder)
                    step.advance()
                cases = read_cases(folder)
    except OSError as error:
        raise _failed(folder, error.strerror or str(error)) from error
    if cases is None:
        raise _failed(folder, "their index cannot be read")
    return cases


def suite_folder(cache: Path) -> Path:
    """Return where the tests of the installed onnx lie; NumPy computed what they must give."""
    name = f"onnx-{version('onnx')}-numpy-{version('numpy')}-{FORMAT}"
    return cache / "coverage" / "suite" / name


def _write(folder: Path) -> None:
    """Write the tests beside `folder`, then move them there in one step."""
    if find_spec("onnx.backend.test") is None or find_spec(_CASES) is None:
        raise InfrastructureError(
            f"the onnx package here has no node tests: there is no {_CASES}",
            where=sys.prefix,
            remedy="install onnx from its wheel as it is",
        )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as made:
        whole = Path(made) / folder.name
        whole.mkdir()
        done = process.run(
            [sys.executable, "-P", "-m", "ci_parity.coverage", whole.resolve()],
            env=process.worker_environment({"PYTHONPATH": str(_PACKAGE_ROOT)}),
            timeout_s=_TIMEOUT_S,
            cwd=whole,
        )
        if done.returncode != 0:
            raise _failed(folder, done.last_words)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)


def _failed(folder: Path, why: str) -> InfrastructureError:
    return InfrastructureError(
        f"the node tests of the ONNX standard cannot be written: {why}",
        where=str(folder),
        remedy="let CI_PARITY_CACHE name a folder that can be written, with 200 MB free",
    )
