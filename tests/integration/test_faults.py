"""Whatever one case does to its worker, the others are judged, no fault passes, nothing is left.

The program runs as users run it, with a folder of its own for temporary files. Faults of Docker are
in test_containers.py, models that swell or never end in test_hostile_models.py.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.support.models import save, save_linear
from tests.support.user_repository import linear_repository

# Our own worker, which does something else where the first number of a case is 13.
FAULTY = """
import json, os, signal, subprocess, sys, time

worker = subprocess.Popen([sys.executable, {worker!r}], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env={{**os.environ, "PYTHONPATH": {path!r}}})
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if asked["verb"] == "run":
        value = asked["inputs"][0]
        with open(os.path.join(asked["input_folder"], value["file"]), "rb") as file:
            if file.read(4) == bytes.fromhex("00005041"):
                {fault}
    worker.stdin.write(line)
    worker.stdin.flush()
    sys.stdout.buffer.write(worker.stdout.readline())
    sys.stdout.buffer.flush()
"""
# More than a worker needs to import its runtime and to load a small model.
COMPUTES_S = 5.0
FAULTS = {
    "a segmentation fault": ("os.kill(os.getpid(), signal.SIGSEGV)", "case.crash", "SIGSEGV"),
    "an exit in the middle": ("os._exit(7)", "case.crash", "exited with status 7"),
    "a hang": ("time.sleep(600)", "case.timeout", ""),
    "a hang with a child": (
        "subprocess.Popen(['sleep', '600']); time.sleep(600)", "case.timeout", "",
    ),
    "words without end": (
        "[sys.stdout.buffer.write(bytes(2**20)) for _ in range(10 * 2**10)]", "case.", "",
    ),
    "another program": ("os.execv('/bin/cat', ['cat'])", "case.", ""),
    "chatter without end": (
        "[sys.stderr.write('x' * 2**20) for _ in range(200)]; os._exit(9)", "case.crash", "9",
    ),
    "the death of its parent's group": ("os.killpg(0, signal.SIGKILL)", "case.crash", "SIGKILL"),
}  # fmt: skip


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Return the folder for temporary files of what a test starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def command(*words: str, temporary: Path, **more: Any) -> subprocess.Popen[str]:
    """Start the program as users do."""
    return subprocess.Popen(
        [sys.executable, "-m", "ci_parity", *words],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def compared(model: Path, temporary: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Compare on all stored inputs; return the exit code, the report, and what was said."""
    inputs = [
        word for path in sorted(model.parent.glob("*.npz")) for word in ("--inputs", str(path))
    ]
    report = model.parent / "report.json"
    started = command(
        "diff", str(model), *inputs, "--json", str(report), *words, temporary=temporary
    )
    _, said = started.communicate(timeout=300)
    found = json.loads(report.read_text()) if report.exists() else {}
    return started.returncode, found, said


def processes(temporary: Path) -> Iterator[tuple[Path, str]]:
    """Yield those with that folder for temporary files: where /proc has them, command lines."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={temporary}\0".encode() in (process / "environ").read_bytes():
                yield process, (process / "cmdline").read_text().replace("\0", " ")


def running(temporary: Path) -> list[str]:
    """Return the command lines of processes that have that folder for temporary files."""
    return [line for _, line in processes(temporary)]


def left(temporary: Path) -> list[str]:
    """Return what is left: files in the folder for temporary ones, and processes."""
    return [path.name for path in temporary.iterdir()] + running(temporary)


def computed_s(temporary: Path) -> float:
    """Return the seconds of a processor that the worker with that folder has taken so far."""
    ticks = 0
    for process, line in processes(temporary):
        if "onnxruntime_worker" in line:
            ticks += int((process / "stat").read_text().rpartition(")")[2].split()[11])
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_its_case_alone(tmp_path: Path, temporary: Path, fault: str) -> None:
    """Three cases, the second one is fatal: it is a finding, and the two others were compared."""
    import ci_parity.run

    doing, finding, words = FAULTS[fault]
    package = Path(ci_parity.run.__file__).parent
    runner = tmp_path / "runner.py"
    worker = package / "workers" / "onnxruntime_worker.py"
    runner.write_text(FAULTY.format(worker=str(worker), path="", fault=doing))
    model = save_linear(tmp_path / "models" / "model.onnx")
    for name, first in (("a", 1.0), ("b", 13.0), ("c", 2.0)):
        x = np.array([[first, 2.0, 3.0]], np.float32)
        np.savez(model.parent / f"{name}.npz", allow_pickle=False, x=x)
    runtime = f"command:{json.dumps([sys.executable, str(runner)])}"
    code, report, said = compared(
        model, temporary, "--candidate-runtime", runtime, "--timeout", "8",
        "--candidate-option", "intra_op_num_threads=1",
    )  # fmt: skip
    assert code == 1, said
    failed = [f for f in report["findings"] if f["id"].startswith(finding)]
    assert [f["subject"]["case"] for f in failed] == ["b"]
    assert words in failed[0]["evidence"]
    compared_cases = {
        f["subject"]["case"] for f in report["findings"] if f["id"] == "output.values"
    }
    assert compared_cases == {"a", "c"}
    assert "Traceback" not in said
    assert left(temporary) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 6 MB."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a disk of its own can only be mounted by root on Linux")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_a_finding_or_an_error_of_ours(tmp_path: Path, small_disk: Path) -> None:
    """Outputs of 8 MB do not fit; whatever says so, it is no pass, and the disk is empty again."""
    model = save(
        tmp_path / "models" / "model.onnx",
        [helper.make_node("Tile", ["x", "many"], ["y"])],
        {"x": (TensorProto.FLOAT, [1000])},
        {"y": (TensorProto.FLOAT, [2_000_000])},
        [helper.make_tensor("many", TensorProto.INT64, [1], [2000])],
    )
    np.savez(model.parent / "a.npz", allow_pickle=False, x=np.ones(1000, np.float32))
    code, _, said = compared(model, small_disk)
    assert code in {1, 3, 5}, said
    assert "Traceback" not in said
    assert left(small_disk) == []


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path, temporary: Path) -> None:
    """One repository, one log, one cache: both pass, and the log verifies."""
    repository = linear_repository(tmp_path / "user")
    words = ("check", "--root", str(repository.root), "--force", "--record", "always")
    started = [command(*words, temporary=temporary) for _ in range(2)]
    ended = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    verified = command(
        "log", "verify", "--root", str(repository.root), "--checkpoint", "none", temporary=temporary
    )
    said = verified.communicate(timeout=60)
    assert verified.returncode == 0, said
    assert left(temporary) == []


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path, temporary: Path, signal: str) -> None:
    """Its workers are ended, its files are gone, and it says so in one line."""
    import signal as signals

    from tests.integration.test_hostile_models import endless

    model = endless(tmp_path)
    np.savez(tmp_path / "x.npz", allow_pickle=False, x=np.ones(2, np.float32))
    # Whatever started the tests may ignore it, and a child would go on to do so.
    before = signals.signal(signals.SIGINT, signals.default_int_handler)
    try:
        started = command(
            "diff", str(model), "--inputs", str(tmp_path / "x.npz"), temporary=temporary,
            start_new_session=True,
        )  # fmt: skip
    finally:
        signals.signal(signals.SIGINT, before)
    while not any("onnxruntime_worker" in line for line in running(temporary)):
        assert started.poll() is None
    started.send_signal(getattr(signals, signal))
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "interrupted" in said
    assert left(temporary) == []


def test_a_run_that_is_killed_takes_its_workers_along(tmp_path: Path, temporary: Path) -> None:
    """One that computes for ever hears of no end of input: it looks for its parent itself."""
    from tests.integration.test_hostile_models import endless

    model = endless(tmp_path)
    np.savez(tmp_path / "x.npz", allow_pickle=False, x=np.ones(2, np.float32))
    started = command(
        "diff", str(model), "--inputs", str(tmp_path / "x.npz"), "--timeout", "600",
        temporary=temporary,
    )  # fmt: skip
    while computed_s(temporary) < COMPUTES_S:
        assert started.poll() is None
        time.sleep(0.1)
    started.kill()
    started.communicate(timeout=60)
    end_s = time.monotonic() + 30
    while running(temporary):
        assert time.monotonic() < end_s, running(temporary)
        time.sleep(0.1)
