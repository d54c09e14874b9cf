"""The near end of the source: real worker processes, and workers that misbehave on purpose."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError, InfrastructureError
from ci_parity.config.systems import Source
from ci_parity.records.observation import CaseInputs
from ci_parity.records.values import ValueRecord, write_value
from ci_parity.run.source import (
    MAX_CASE_BYTES,
    SourceJob,
    SourceProcess,
    prepare,
    read_outputs,
)

DOUBLE = "def predict(inputs):\n    return {'y': 2 * inputs['x']}\n"
# Answers every request with the line it is told to, whatever was asked.
PARROT = """\
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"], "ok": True, "protocol": 1, "python": "3", "framework": {}}
    if request["verb"] == "run":
        answer.update(json.loads(sys.argv[1]))
    print(json.dumps(answer), flush=True)
"""
SEEN = '"opened": [], "touched": [], "watching": true, "modules": []'


def source_of(root: Path, code: str = DOUBLE, **settings: object) -> Source:
    """Write a script and return the source that names it."""
    entry = root / "tools" / "reference.py"
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(code, encoding="utf-8")
    known: dict[str, object] = {"entry": entry, "function": "predict", "framework": "numpy"}
    return Source(**(known | settings))  # type: ignore[arg-type]


def job_of(
    root: Path, code: str = DOUBLE, *, timeout_s: float = 60, argv: tuple[str, ...] = (),
    watched: tuple[Path, ...] = (), framework: str = "numpy",
) -> SourceJob:  # fmt: skip
    """Return a job of a script on this interpreter, or on another worker."""
    source = source_of(root, code, framework=framework)
    return SourceJob(
        source=source,
        root=root,
        argv=argv or prepare(source, root=root, cache=root / "cache"),
        watched=watched,
        timeout_s=timeout_s,
    )


def case_in(folder: Path) -> CaseInputs:
    """Write one case of one input."""
    record = write_value("x", np.array([1, 2], np.float32), folder, "x")
    return CaseInputs(case="one", inputs=(record,))


def failure(job: SourceJob, folder: Path) -> CiParityError:
    """Return the error with which loading the script or running a case ends."""
    with pytest.raises(CiParityError) as caught, SourceProcess(job, folder) as process:
        process.run(case_in(folder), str(folder), "c0")
    assert caught.value.remedy
    return caught.value


def test_a_case_is_run_and_read(tmp_path: Path) -> None:
    """Facts of the environment, outputs by name, and what was touched."""
    watched = tmp_path / "weights.bin"
    watched.write_bytes(b"weights")
    code = f"weights = open({str(watched)!r}).read()\n{DOUBLE}"
    with SourceProcess(job_of(tmp_path, code, watched=(watched,)), tmp_path) as process:
        run = process.run(case_in(tmp_path), str(tmp_path), "c0")
    ((name, value),) = read_outputs(run.outputs, tmp_path)
    np.testing.assert_array_equal(value, np.array([2, 4], np.float32))
    assert name == "y"
    facts = process.facts
    assert (facts.python, facts.package) == (sys.version.split()[0], "numpy")
    assert (facts.version, facts.module) == (np.__version__, "numpy")
    assert (run.seen.opened, run.seen.modules) == ((watched,), ("numpy",))


@pytest.mark.parametrize(
    ("framework", "package", "module"),
    [
        ("scikit-learn", "scikit-learn", "sklearn"),
        ("  NumPy ", "numpy", "numpy"),
        ("onnx", "onnx", ""),
        ("our own C++", "", ""),
    ],
)
def test_a_framework_is_measured_by_its_package(
    tmp_path: Path, framework: str, package: str, module: str
) -> None:
    """Whatever people call it; a name without a package has no version."""
    with SourceProcess(job_of(tmp_path, framework=framework), tmp_path) as process:
        assert (process.facts.package, process.facts.module) == (package, module)
        assert bool(process.facts.version) is bool(package)


def test_no_secret_reaches_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the environment of a worker."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    code = (
        "import os, sys\n"
        "def predict(inputs):\n"
        "    assert not {'GITHUB_TOKEN', 'PYTHONPATH'} & set(os.environ)\n"
        "    return [os.getcwd()]\n"
    )
    with SourceProcess(job_of(tmp_path, code), tmp_path) as process:
        run = process.run(case_in(tmp_path), str(tmp_path), "c0")
    ((_, value),) = read_outputs(run.outputs, tmp_path)
    assert value == np.array(str(tmp_path), dtype=object)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("import no_such_module\n", EvidenceError, "the source failed when it was loaded"),
        ("def predict(inputs):\n    raise ValueError('why')\n", EvidenceError,
         "on case 'one': ValueError: why (tools/reference.py, line 2)"),
        ("def predict(inputs):\n    return object()\n", EvidenceError, "a object is no array"),
        ("import os, sys\ndef predict(inputs):\n    print('last'); os._exit(7)\n",
         InfrastructureError, "exited with status 7 during 'run'; last words: last"),
        ("import os\nos.kill(os.getpid(), 9)\n", InfrastructureError, "SIGKILL during 'load'"),
    ],
)  # fmt: skip
def test_a_failing_script_is_one_error(
    tmp_path: Path, code: str, kind: type[CiParityError], said: str
) -> None:
    """Its own error is evidence, its death infrastructure; both with its words and its place."""
    error = failure(job_of(tmp_path, code), tmp_path)
    assert type(error) is kind
    assert said in error.what
    assert error.where == "tools/reference.py:predict"


@pytest.mark.parametrize("code", ["import time\ntime.sleep(600)\n",
                                  "def predict(inputs):\n    while True: pass\n"])  # fmt: skip
def test_a_hanging_script_is_ended(tmp_path: Path, code: str) -> None:
    """At its time limit, which the error names."""
    error = failure(job_of(tmp_path, code, timeout_s=3), tmp_path)
    assert isinstance(error, InfrastructureError)
    assert "within 3 s" in error.what
    assert "policy.timeout_s" in error.remedy


def test_a_script_that_does_not_load_leaves_no_process(tmp_path: Path) -> None:
    """Nobody else would end it."""
    code = "import os\nopen('pid', 'w').write(str(os.getpid()))\nraise ValueError\n"
    failure(job_of(tmp_path, code), tmp_path)
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def parrot(answer: str) -> tuple[str, ...]:
    """Return a worker that answers `run` with these fields."""
    return (sys.executable, "-c", PARROT, answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{}", "outputs not a"),
        ('{"outputs": 3}', "expected list, got int"),
        (f'{{"outputs": [{{"name": "y"}}], {SEEN}}}', "kind"),
        ('{"outputs": []}', "opened"),
        ('{"outputs": [], "opened": [1], "touched": [], "modules": []}', "opened"),
        ('{"id": 99}', "not the protocol's"),
        ('{"ok": 1}', "not the protocol's"),
    ],
)
def test_garbage_is_evidence(tmp_path: Path, answer: str, said: str) -> None:
    """Never a crash of ours."""
    with (
        pytest.raises(EvidenceError) as caught,
        SourceProcess(job_of(tmp_path, argv=parrot(answer)), tmp_path) as process,
    ):
        process.run(case_in(tmp_path), str(tmp_path), "c0")
    assert said in str(caught.value)


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    """Before the script is named to it."""
    argv = (sys.executable, "-c", PARROT.replace('"protocol": 1', '"protocol": 2'), "{}")
    assert "protocol 2" in failure(job_of(tmp_path, argv=argv), tmp_path).what


def test_an_environment_without_numpy_is_named(tmp_path: Path) -> None:
    """The remedy is to add it."""
    code = PARROT.replace('"ok": True', '"ok": False, "error": "No module named \'numpy\'"')
    error = failure(job_of(tmp_path, argv=(sys.executable, "-c", code, "{}")), tmp_path)
    assert isinstance(error, ConfigError)
    assert "no NumPy" in error.what


def record(**fields: object) -> ValueRecord:
    """Return a record of a tensor of two bytes, otherwise as given."""
    known: dict[str, object] = {
        "name": "y", "kind": "tensor", "dtype": "int8", "shape": (2,), "file": "y.bin",
    }  # fmt: skip
    return ValueRecord(**(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        record(file="../y.bin"),
        record(file="/etc/passwd"),
        record(file="missing.bin"),
        record(file=""),
        record(file="a\0b"),
        record(file="link.bin"),
        record(dtype="complex32"),
        record(kind="tree"),
        record(shape=(3,)),
        record(shape=(-1, -2)),
        record(shape=(0, 2**63)),
        record(shape=(0, 2**62, 2**62)),
        record(shape=(1,) * 65),
        record(shape=(2**31,)),
        record(kind="sequence", items=(record(shape=(2**30,)), record(shape=(2**31,)))),
        record(kind="map", items=(record(),)),
        record(dtype="string"),
        record(dtype="string", shape=(2**40,)),
    ],
    ids=lambda bad: f"{bad.kind} {bad.dtype} {str(bad.shape)[:20]} {bad.file!r}",
)
def test_untrusted_outputs_are_refused(tmp_path: Path, bad: ValueRecord) -> None:
    """Names that leave the folder, shapes that no file has, sizes beyond the limit."""
    (tmp_path.parent / "y.bin").write_bytes(b"ab")
    (tmp_path / "y.bin").write_bytes(b"ab")
    (tmp_path / "link.bin").symlink_to(tmp_path / "y.bin")
    assert read_outputs([record()], tmp_path)[0][0] == "y"
    with pytest.raises(EvidenceError):
        read_outputs([bad], tmp_path)


def test_a_large_text_is_refused_by_its_file(tmp_path: Path) -> None:
    """One element may be any number of bytes; the file is sparse, and not read."""
    with (tmp_path / "y.bin").open("wb") as stream:
        stream.truncate(MAX_CASE_BYTES + 1)
    with pytest.raises(EvidenceError, match="exceed 2 GiB"):
        read_outputs([record(dtype="string", shape=(1,))], tmp_path)


# Interpreters.


def test_the_interpreter_is_ours_by_default(tmp_path: Path) -> None:
    """With nothing of ours on its path, and nothing written beside the script."""
    argv = prepare(source_of(tmp_path), root=tmp_path, cache=tmp_path)
    assert argv[:3] == (sys.executable, "-I", "-B")


def test_an_interpreter_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path below the root, whose links a virtual environment lives by, or a program on PATH."""
    link = tmp_path / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    named = source_of(tmp_path, python=".venv/bin/python")
    assert prepare(named, root=tmp_path, cache=tmp_path)[0] == str(link)
    monkeypatch.setenv("PATH", str(link.parent))
    found = source_of(tmp_path, python="python")
    assert prepare(found, root=tmp_path, cache=tmp_path)[0] == str(link)


@pytest.mark.parametrize("python", [".venv/bin/python", "no-such-python", "tools/reference.py"])
def test_a_missing_interpreter_is_said(tmp_path: Path, python: str) -> None:
    """Absent, or a file that cannot be executed."""
    with pytest.raises(ConfigError, match="no interpreter") as caught:
        prepare(source_of(tmp_path, python=python), root=tmp_path, cache=tmp_path)
    assert caught.value.where == "$.source.python"


def test_a_missing_script_is_said(tmp_path: Path) -> None:
    """Before an environment is built for it."""
    source = source_of(tmp_path)
    source.entry.unlink()
    with pytest.raises(ConfigError, match="no such script"):
        prepare(source, root=tmp_path, cache=tmp_path)
