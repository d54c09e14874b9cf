import os
import select
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.records.observation import RunStatus
from ci_parity.run.channel import LocalProcess
from ci_parity.run.protocol import MAX_ANSWER_BYTES, Worker, WorkerError, WorkerProcess

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="signals and named pipes are POSIX: run on Linux"
)

# Every fake worker can read a request and answer it; what it does between is the test's.
PRELUDE = """\
import json, os, signal, subprocess, sys, time

def receive():
    return json.loads(sys.stdin.readline())

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

def answer(request, **words):
    say(json.dumps({"ok": True, "id": request["id"], **words}) + "\\n")

def mutter(text):
    sys.stderr.write(text)
    sys.stderr.flush()

"""
LONG_S = 20.0


def worker(folder: Path, code: str) -> WorkerProcess:
    """Start a fake worker that runs this code."""
    script = folder / "worker.py"
    script.write_text(PRELUDE + textwrap.dedent(code), encoding="utf-8")
    return WorkerProcess([sys.executable, "-I", script], env={}, cwd=folder)


def failure(folder: Path, code: str, *, timeout_s: float = LONG_S) -> WorkerError:
    """Return how the first request to a fake worker failed."""
    with worker(folder, code) as started:
        return failed(started, timeout_s=timeout_s)


def failed(started: Worker, *, timeout_s: float = LONG_S, **payload: Any) -> WorkerError:
    """Return how a request failed."""
    with pytest.raises(WorkerError) as caught:
        started.request("run", timeout_s=timeout_s, **payload)
    return caught.value


def test_requests_and_answers_are_lines_of_json(tmp_path: Path) -> None:
    """Each with a number of its own; what is asked arrives, what is answered returns."""
    code = """
        for number in (1, 2):
            request = receive()
            assert request["id"] == number
            answer(request, heard=request)
        """
    with worker(tmp_path, code) as started:
        first = started.request("hello", timeout_s=LONG_S)
        second = started.request("run", timeout_s=LONG_S, stem="größe\n", inputs=[{"a": None}])
    assert first["heard"] == {"verb": "hello", "id": 1}
    assert second["heard"] == {"verb": "run", "id": 2, "stem": "größe\n", "inputs": [{"a": None}]}


class Elsewhere(LocalProcess):
    """A worker that has names of its own for our files; what it wrote must be fetched."""

    settled = 0

    def named(self, path: Path, *, written: bool) -> str:
        """Return a name that says what was asked."""
        return f"{'written' if written else 'read'}:{path.name}"

    def settle(self) -> None:
        """Count."""
        self.settled += 1


def test_paths_are_named_as_the_worker_knows_them(tmp_path: Path) -> None:
    """The one it writes to is known by its key; after each answer what was written is fetched."""
    script = tmp_path / "worker.py"
    code = "request = receive()\nanswer(request, heard=request)\nreceive()\nsay('{}\\n')"
    script.write_text(PRELUDE + code, encoding="utf-8")
    channel = Elsewhere([sys.executable, "-I", script], env={}, cwd=tmp_path)
    paths = {"model": Path("/a/m.onnx"), "input_folder": Path("/b/in"), "folder": Path("/c/out")}
    with Worker(channel) as started:
        heard = started.request("run", timeout_s=LONG_S, stem="c0", **paths)["heard"]
        assert channel.settled == 1
        failed(started, folder=Path("/c/out"))
    assert channel.settled == 1
    expected = {"model": "read:m.onnx", "input_folder": "read:in", "folder": "written:out"}
    assert heard == {"verb": "run", "id": 1, "stem": "c0", **expected}


def test_an_answer_may_come_in_pieces(tmp_path: Path) -> None:
    """A line is complete at its end."""
    code = """
        request = receive()
        say('{"ok": true, ')
        time.sleep(0.05)
        say('"id": 1, "x": 2}\\n')
        receive()
        """
    with worker(tmp_path, code) as started:
        assert started.request("run", timeout_s=LONG_S)["x"] == 2


def test_a_last_answer_needs_no_line_end(tmp_path: Path) -> None:
    """The worker answered and was gone."""
    with worker(tmp_path, 'receive(); say(\'{"ok": true, "id": 1}\')') as started:
        assert started.request("close", timeout_s=LONG_S) == {"ok": True, "id": 1}


# Death.


def test_an_exit_is_a_crash_with_its_status(tmp_path: Path) -> None:
    """The runtime gave up, with its reason on standard error."""
    error = failure(tmp_path, "receive(); mutter('no memory\\n'); os._exit(3)")
    assert (error.status, error.alive) == (RunStatus.CRASH, False)
    assert error.message == ("the worker exited with status 3 during 'run'; last words: no memory")


def test_a_quiet_exit_is_a_crash_too(tmp_path: Path) -> None:
    """Status 0 is not an answer."""
    error = failure(tmp_path, "receive()")
    assert (error.status, error.alive) == (RunStatus.CRASH, False)
    assert error.message == "the worker exited with status 0 during 'run'"


@pytest.mark.parametrize(
    ("number", "name"), [(11, "SIGSEGV"), (6, "SIGABRT"), (9, "SIGKILL"), (41, "signal 41")]
)
def test_a_signal_is_a_crash_with_its_name(tmp_path: Path, number: int, name: str) -> None:
    """A fault, an assertion, the kernel's last resort, and one without a name."""
    error = failure(tmp_path, f"receive(); os.kill(os.getpid(), {number})")
    assert (error.status, error.alive) == (RunStatus.CRASH, False)
    assert error.message == f"the worker was ended by {name} during 'run'"


def test_a_worker_that_is_dead_before_the_request_is_a_crash(tmp_path: Path) -> None:
    """There is nobody to write to."""
    with worker(tmp_path, "os._exit(5)") as started:
        started._channel.ending(LONG_S)
        error = failed(started)
    assert (error.status, error.alive) == (RunStatus.CRASH, False)
    assert "exited with status 5" in error.message


def test_a_worker_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    """Every request after its end fails at once."""
    with worker(tmp_path, "os._exit(5)") as started:
        failed(started)
        error = failed(started)
    assert (error.status, error.alive) == (RunStatus.CRASH, False)
    assert error.message == "no worker is left for 'run'"


# Silence.


def test_a_hang_is_a_timeout(tmp_path: Path) -> None:
    """The worker is ended then."""
    with worker(tmp_path, "receive(); time.sleep(60)") as started:
        error = failed(started, timeout_s=0.3)
        assert started._channel.ending(0) is not None
    assert (error.status, error.alive) == (RunStatus.TIMEOUT, False)
    assert error.message == "no answer to 'run' within 0.3 s"


def test_a_hang_has_last_words(tmp_path: Path) -> None:
    """What it was doing when it stopped."""
    code = """
        mutter("compiling kernel 7\\n")
        answer(receive())
        time.sleep(60)
        """
    with worker(tmp_path, code) as started:
        started.request("load", timeout_s=LONG_S)
        error = failed(started, timeout_s=0.1)
    assert error.message.endswith("within 0.1 s; last words: compiling kernel 7")


def test_a_worker_that_reads_nothing_is_a_timeout(tmp_path: Path) -> None:
    """A request larger than any pipe must not hold us up for ever."""
    with worker(tmp_path, "time.sleep(60)") as started:
        error = failed(started, timeout_s=0.3, inputs="x" * 4_000_000)
    assert (error.status, error.alive) == (RunStatus.TIMEOUT, False)


def test_a_worker_that_closes_its_output_is_not_waited_for(tmp_path: Path) -> None:
    """It lives, but it will never answer."""
    code = """
        answer(receive())
        receive()
        mutter("bye\\n")
        os.close(1)
        time.sleep(60)
        """
    with worker(tmp_path, code) as started:
        started.request("load", timeout_s=LONG_S)
        error = failed(started, timeout_s=0.3)
    assert (error.status, error.alive) == (RunStatus.PROTOCOL, False)
    assert error.message == "the worker closed its output during 'run'; last words: bye"


# Garbage.


@pytest.mark.parametrize(
    "line",
    [
        "Loading model...",
        "",
        "[]",
        "null",
        "1",
        '"ok"',
        "{}",
        '{"ok": true}',
        '{"id": 1}',
        '{"ok": true, "id": 2}',
        '{"ok": true, "id": 0}',
        '{"ok": true, "id": "1"}',
        '{"ok": true, "id": null}',
        '{"ok": 1, "id": 1}',
        '{"ok": "true", "id": 1}',
        '{"ok": null, "id": 1, "error": "x"}',
        '{"ok": true, "id": 1, "duration_ms": NaN}',
        '{"ok": true, "id": 1, "x": 1e999}',
        '{"ok": false, "ok": true, "id": 1}',
        '{"ok": true, "id": 1} trailing',
        '{"ok": true, "id": 1, "name": "\\ud800"}',
        "[" * 2000,
    ],
)
def test_an_answer_that_is_not_the_protocols_ends_the_worker(tmp_path: Path, line: str) -> None:
    """Chatter, half answers, another request's number, JSON that two readers read differently."""
    with worker(tmp_path, f"receive(); say({line!r} + '\\n'); receive()") as started:
        error = failed(started)
        assert started._channel.ending(0) is not None
    assert (error.status, error.alive) == (RunStatus.PROTOCOL, False)
    assert error.message == f"the answer to 'run' is not the protocol's: {line[:200]!r}"


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    """A model's output on the wrong channel."""
    code = (
        "receive(); sys.stdout.buffer.write(b'\\xff\\xfe\\x00\\n'); sys.stdout.flush(); receive()"
    )
    error = failure(tmp_path, code)
    assert error.status is RunStatus.PROTOCOL
    assert "\ufffd" in error.message


def test_an_echo_is_not_an_answer(tmp_path: Path) -> None:
    """`cat` repeats the request, number and all."""
    with WorkerProcess(["/bin/cat"], env={}, cwd=tmp_path) as started:
        error = failed(started)
    assert (error.status, error.alive) == (RunStatus.PROTOCOL, False)


def test_a_line_without_end_is_cut_off(tmp_path: Path) -> None:
    """Twenty million characters are not kept, nor shown."""
    assert MAX_ANSWER_BYTES < 20_000_000
    code = """
        receive()
        say('{"ok": true, "id": 1, "x": "' + "x" * 20_000_000 + '"}\\n')
        receive()
        """
    error = failure(tmp_path, code)
    assert (error.status, error.alive) == (RunStatus.PROTOCOL, False)
    assert len(error.message) < 400


def test_a_second_answer_is_nobodys(tmp_path: Path) -> None:
    """It would be taken for the next request's."""
    code = """
        request = receive()
        answer(request)
        answer(request)
        answer(receive())
        """
    with worker(tmp_path, code) as started:
        started.request("load", timeout_s=LONG_S)
        error = failed(started)
    assert (error.status, error.alive) == (RunStatus.PROTOCOL, False)


# Errors.


def test_an_error_leaves_the_worker_alive(tmp_path: Path) -> None:
    """It takes the next request."""
    code = """
        request = receive()
        say(json.dumps({"ok": False, "id": 1, "error": "Fail: no such op"}) + "\\n")
        answer(receive(), x=1)
        """
    with worker(tmp_path, code) as started:
        error = failed(started)
        assert (error.status, error.alive) == (RunStatus.ERROR, True)
        assert error.message == str(error) == "Fail: no such op"
        assert error.carried
        assert started.request("run", timeout_s=LONG_S)["x"] == 1


@pytest.mark.parametrize(
    ("said", "carried"), [("true", False), ("false", True), ("1", True), ('"no"', True)]
)
def test_a_worker_may_say_that_it_could_not_hand_a_value_on(
    said: str, carried: bool, tmp_path: Path
) -> None:
    """Then the failure is none of the runtime's; no other word means that."""
    line = f'{{"ok": false, "id": 1, "error": "no int3", "not_carried": {said}}}\n'
    with worker(tmp_path, f"receive(); say({line!r}); receive()") as started:
        assert failed(started).carried is carried


@pytest.mark.parametrize(
    ("error", "said"),
    [(None, "None"), (["a", 1], "['a', 1]"), ("x" * 1_000_000, "x" * 4000)],
)
def test_any_reason_becomes_a_text_of_bounded_length(
    tmp_path: Path, error: object, said: str
) -> None:
    """A report cannot be filled by a worker."""
    code = f"""
        receive()
        say(json.dumps({{"ok": False, "id": 1, "error": {error!r}}}) + "\\n")
        receive()
        """
    assert failure(tmp_path, code).message == said


def test_an_error_without_reason_says_so(tmp_path: Path) -> None:
    """An empty message would look like none."""
    code = 'receive(); say(\'{"ok": false, "id": 1}\\n\'); receive()'
    assert failure(tmp_path, code).message == "no reason given"


# Standard error.


def test_warnings_are_kept_line_by_line(tmp_path: Path) -> None:
    """Without the empty ones."""
    code = """
        mutter("W: one\\n\\n  \\nW: zwei ß \\n")
        sys.stderr.buffer.write(b"\\xff\\n")
        sys.stderr.flush()
        os._exit(0)
        """
    with worker(tmp_path, code) as started:
        failed(started)
        assert started.warnings() == ("W: one", "W: zwei ß ", "\ufffd")


def test_a_chatty_worker_neither_stops_nor_fills_anything(tmp_path: Path) -> None:
    """Ten megabytes of warnings: the end is kept, the last lines are its last words."""
    code = """
        for number in range(100_000):
            sys.stderr.write(f"warning {number} {'x' * 90}\\n")
        mutter("y" * 100_000 + "\\n")
        for number in range(6):
            mutter(f"{number}" * 5000 + "\\n")
        answer(receive())
        receive()
        """
    with worker(tmp_path, code) as started:
        started.request("load", timeout_s=LONG_S)
        error = failed(started)
        kept = started.warnings()
    assert sum(len(line) for line in kept) < 80_000
    assert kept[-1] == "5" * 5000
    assert error.message.count(" | ") == 5
    assert error.message.endswith("5" * 300)
    assert len(error.message) < 2000


# Ends.


def test_leaving_ends_the_worker_and_all_it_started(tmp_path: Path) -> None:
    """Its child holds a pipe, which must come to an end."""
    os.mkfifo(tmp_path / "alive")
    pipe = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    code = """
        child = "import time; f = open('alive', 'w'); f.write('x'); f.flush(); time.sleep(60)"
        subprocess.Popen([sys.executable, "-I", "-c", child])
        request = receive()
        answer(request) if request["verb"] == "hello" else os._exit(1)
        receive()
        """
    with worker(tmp_path, code) as started:
        started.request("hello", timeout_s=LONG_S)
        assert select.select([pipe], [], [], 10)[0]
        assert os.read(pipe, 10) == b"x"
    assert started._channel.ending(0) is not None
    assert select.select([pipe], [], [], 10)[0]
    assert os.read(pipe, 10) == b""
    os.close(pipe)


def test_who_waits_is_told_of_an_end_by_another_thread(tmp_path: Path) -> None:
    """At once, not when its time is over."""
    with worker(tmp_path, "receive()\nmutter('here\\n')\nreceive()") as started:

        def end() -> None:
            while not started.warnings():
                time.sleep(0.01)
            started.kill()

        ending = threading.Thread(target=end)
        ending.start()
        error = failed(started)
        ending.join()
    assert (error.status, error.alive) == (RunStatus.CRASH, False)
    assert "was ended by SIGKILL" in error.message


def test_a_crash_leaves_no_child_behind(tmp_path: Path) -> None:
    """The worker is gone on its own; its child must not outlive it."""
    os.mkfifo(tmp_path / "alive")
    pipe = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    code = """
        child = "import time; f = open('alive', 'w'); f.write('x'); f.flush(); time.sleep(60)"
        null = subprocess.DEVNULL
        subprocess.Popen([sys.executable, "-I", "-c", child], stdout=null, stderr=null)
        answer(receive())
        receive()
        os._exit(1)
        """
    with worker(tmp_path, code) as started:
        started.request("hello", timeout_s=LONG_S)
        assert select.select([pipe], [], [], 10)[0]
        assert os.read(pipe, 10) == b"x"
        assert failed(started).status is RunStatus.CRASH
    assert select.select([pipe], [], [], 10)[0]
    assert os.read(pipe, 10) == b""
    os.close(pipe)


def test_an_exception_inside_ends_the_worker(tmp_path: Path) -> None:
    """As does leaving in any other way, and ending it twice."""
    with pytest.raises(ZeroDivisionError), worker(tmp_path, "time.sleep(60)") as started:
        raise ZeroDivisionError
    assert started._channel.ending(0) is not None
    started.kill()
    assert all(not pump.is_alive() for pump in started._pumps)


def test_a_worker_that_cannot_start_is_our_trouble(tmp_path: Path) -> None:
    """No finding about a model, but an error with the command in it."""
    with pytest.raises(InfrastructureError, match="cannot start"):
        WorkerProcess([tmp_path / "absent"], env={}, cwd=tmp_path)
