import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.process import (
    Completed,
    _spawned,
    container_environment,
    kill_spawned,
    kill_tree,
    packaging_environment,
    run,
    spawn,
    worker_environment,
)

SECRETS = (
    "GITHUB_TOKEN", "GH_TOKEN", "INPUT_GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN", "NPM_TOKEN", "TWINE_PASSWORD", "DATABASE_URL", "MY_SECRET",
    "SSH_AUTH_SOCK", "UV_PUBLISH_TOKEN", "UV_PUBLISH_PASSWORD",
)  # fmt: skip
# What would load code into a child, or change what its interpreter imports.
LOADERS = ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "BASH_ENV", "ENV")
RUNTIME = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "ORT_TENSORRT_FP16_ENABLE",
)  # fmt: skip
PACKAGING = (
    "UV_INDEX_URL", "UV_OFFLINE", "PIP_INDEX_URL", "HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE",
    "NETRC", "XDG_CACHE_HOME",
)  # fmt: skip
COMMON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
ENVIRONMENTS = [worker_environment, packaging_environment]
Environment = Callable[[], Mapping[str, str]]


@pytest.fixture(autouse=True)
def _full_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process everything a runner might have set."""
    for name in (*SECRETS, *LOADERS, *RUNTIME, *PACKAGING, *COMMON[1:]):
        monkeypatch.setenv(name, f"value of {name}")
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("name", [*SECRETS, *LOADERS])
def test_no_child_gets_a_secret_or_a_loader(environment: Environment, name: str) -> None:
    """Only what is listed is passed, and none of these is."""
    chosen = environment()
    assert name not in chosen
    assert f"value of {name}" not in chosen.values()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_child_finds_its_way(environment: Environment) -> None:
    """Programs, libraries, a home and a place for temporary files."""
    assert set(COMMON) <= environment().keys()
    assert environment()["PATH"] == os.environ["PATH"]


def test_a_worker_gets_the_settings_of_runtimes_alone() -> None:
    """Threads and devices, but neither a proxy nor a package index."""
    chosen = worker_environment()
    assert set(RUNTIME) <= chosen.keys()
    assert not set(PACKAGING) & chosen.keys()


def test_a_package_manager_gets_the_settings_of_packaging_alone() -> None:
    """Indexes, proxies and certificates, but nothing that concerns a runtime."""
    chosen = packaging_environment()
    assert set(PACKAGING) <= chosen.keys()
    assert not set(RUNTIME) & chosen.keys()


def test_a_model_cannot_bring_session_options_of_its_own() -> None:
    """The variable that lets it is withheld though its prefix is listed."""
    assert "ORT_LOAD_CONFIG_FROM_MODEL" not in worker_environment()


@pytest.mark.parametrize(
    "name",
    [
        "ORT_TENSORRT_CACHE_PATH", "ORT_TENSORRT_ENGINE_CACHE_ENABLE",
        "ORT_TENSORRT_EP_CONTEXT_FILE_PATH", "ORT_TENSORRT_ENGINE_DECRYPTION_LIB_PATH",
        "ORT_MIGRAPHX_LOAD_COMPILED_PATH", "ORT_MIGRAPHX_MODEL_CACHE_PATH",
    ],
)  # fmt: skip
def test_a_worker_finds_no_engines_of_another_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where they are kept nor that they are, here or in a container; others pass."""
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("ORT_TENSORRT_FP16_ENABLE", "1")
    for chosen in (worker_environment(), container_environment()):
        assert name not in chosen
        assert chosen["ORT_TENSORRT_FP16_ENABLE"] == "1"


def test_workers_report_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telemetry is off whatever the runner says."""
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    assert worker_environment()["ORT_DISABLE_TELEMETRY"] == "1"


@pytest.mark.parametrize("environment", [worker_environment, packaging_environment])
def test_a_caller_may_add_variables(
    environment: Callable[[Mapping[str, str]], Mapping[str, str]],
) -> None:
    """They precede what was inherited."""
    chosen = environment({"HOME": "elsewhere", "EXTRA": "x"})
    assert (chosen["HOME"], chosen["EXTRA"]) == ("elsewhere", "x")


def python(code: str, *arguments: str) -> list[str]:
    """Return the command that runs a piece of Python."""
    return [sys.executable, "-I", "-c", textwrap.dedent(code), *arguments]


def finished(code: str, *arguments: str, stdin: bytes = b"") -> Completed:
    """Run a piece of Python in an empty environment."""
    return run(python(code, *arguments), env={}, timeout_s=60, stdin=stdin)


def test_a_program_is_run_to_its_end() -> None:
    """Whatever it exits with, with all it printed."""
    done = finished(
        """
        import sys
        sys.stdout.write(sys.stdin.read().upper())
        sys.stderr.write("warning")
        sys.exit(7)
        """,
        stdin=b"hello",
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"HELLO", b"warning")
    assert done.argv[0] == sys.executable


def test_arguments_are_not_read_by_a_shell() -> None:
    """Whatever a branch or a file is called."""
    words = ("; echo x", "$(id)", "a b", "*", "'", "\n")
    done = finished("import sys; sys.stdout.write(repr(sys.argv[1:]))", *words)
    assert done.stdout.decode() == repr(list(words))


def test_the_environment_is_the_chosen_one() -> None:
    """Nothing of ours leaks in."""
    done = run(
        python("import os; print('MY_SECRET' in os.environ, os.environ['A'])"),
        env={"A": "1"},
        timeout_s=60,
    )
    assert done.stdout.split() == [b"False", b"1"]


def test_a_program_runs_in_the_given_folder(tmp_path: Path) -> None:
    """Relative paths start there."""
    done = run(python("import os; print(os.getcwd())"), env={}, timeout_s=60, cwd=tmp_path)
    assert Path(done.stdout.decode().strip()).samefile(tmp_path)


def test_a_program_that_does_not_end_is_ended() -> None:
    """The error names the command and the limit."""
    with pytest.raises(InfrastructureError, match=r"did not end within 0\.2 s") as caught:
        run(python("import time; time.sleep(60)"), env={}, timeout_s=0.2)
    assert "time.sleep" in caught.value.where


@pytest.mark.parametrize("name", ["ci-parity-no-such-program", "./absent", "/"])
def test_a_program_that_cannot_start_is_an_error(tmp_path: Path, name: str) -> None:
    """Absent from PATH, from the folder, or no program at all."""
    with pytest.raises(InfrastructureError, match="cannot start") as caught:
        run([name, "x"], env={}, timeout_s=60)
    assert caught.value.where == f"{name} x"
    assert caught.value.remedy
    with pytest.raises(InfrastructureError, match="cannot start"):
        spawn([name], env={}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        (b"out", b"err", "err"),
        (b"out\n", b" \n", "out"),
        (b"", b"1\n2\n3\n4\n5\n6\n7\n", "3\n4\n5\n6\n7"),
        (b"", b"\xff", "\ufffd"),
        (b"", b"", ""),
    ],
)
def test_last_words_are_the_end_of_what_was_said(stdout: bytes, stderr: bytes, words: str) -> None:
    """Of standard error, else of standard output."""
    done = Completed(argv=("x",), returncode=1, stdout=stdout, stderr=stderr)
    assert done.last_words == words


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether every holder of a process's standard output is gone: then reading it ends."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], 10)
    return bool(readable) and process.stdout.read() == b""


def closed(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a process that is gone."""
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX: run on Linux")
def test_a_tree_is_ended_whole(tmp_path: Path) -> None:
    """The program, and what it started and left behind."""
    code = """
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)"])
        sys.stderr.write("ready\\n")
        sys.stderr.flush()
        time.sleep(60)
        """
    process = spawn(python(code), env={}, cwd=tmp_path)
    assert process.stderr is not None
    assert process.stderr.readline() == b"ready\n"
    kill_tree(process)
    assert process.returncode == -signal.SIGKILL
    assert ended(process)
    closed(process)


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX: run on Linux")
def test_a_tree_without_its_root_is_ended(tmp_path: Path) -> None:
    """The program is gone; its child still holds the pipe."""
    code = """
        import subprocess, sys
        subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)"])
        """
    process = spawn(python(code), env={}, cwd=tmp_path)
    assert process.wait() == 0
    kill_tree(process)
    assert ended(process)
    closed(process)


def test_a_process_that_is_gone_may_be_killed(tmp_path: Path) -> None:
    """Twice, even."""
    process = spawn(python("pass"), env={}, cwd=tmp_path)
    process.wait()
    kill_tree(process)
    kill_tree(process)
    assert process.returncode == 0
    closed(process)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX: run on Linux")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_amid_a_start_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Then what was started is known, and is ended though nobody holds it."""
    started = []
    real = subprocess.Popen

    def interrupted(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **named))
        signal.raise_signal(number)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            spawn(python("import time; time.sleep(60)"), env={}, cwd=tmp_path)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert started[0].poll() is None
    kill_spawned()
    assert started[0].returncode == -signal.SIGKILL
    closed(started[0])


def test_an_interrupt_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As below a program that is told to outlive its terminal."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = spawn(python("pass"), env={}, cwd=tmp_path)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    kill_tree(process)
    closed(process)


def test_what_was_ended_is_let_go(tmp_path: Path) -> None:
    """Its number may be another's by then."""
    process = spawn(python("pass"), env={}, cwd=tmp_path)
    kill_tree(process)
    assert process not in _spawned
    closed(process)
