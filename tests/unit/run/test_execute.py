import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.config.systems import Target
from ci_parity.records.observation import CaseInputs, InputSet, Observation, RunStatus
from ci_parity.records.placement import Method, Placement
from ci_parity.records.values import ValueRecord, read_value
from ci_parity.run.execute import Job, Ports, observe
from ci_parity.run.runtime import Launch

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the fake worker is a shell script: run on Linux"
)

# A worker that starts in a moment. What it does with a case is the name of the case's input; `load`
# and `hello` obey the first lines of the files of those names, where the test wrote any.
WORKER = r"""
echo started >> starts
echo "token: ${GITHUB_TOKEN:-none}" >&2
number=0
say() { printf '{"ok": true, "id": %d, %s}\n' "$number" "$1"; }
runs() { say '"duration_ms": 1.5, "providers": ["CPUExecutionProvider"], "outputs": '"$1"; }
while read -r line; do
  number=$((number + 1))
  case "$line" in
    *'"verb": "hello"'*) say "$(cat hello)" ;;
    *'"verb": "load"'*) printf '%s\n' "$line" > loaded; eval "$(cat load)" ;;
    *'"verb": "placement"'*) say "$(cat placed)" ;;
    *'"name": "fine"'*)
      printf '\0\0\200\77' > y.bin
      runs '[{"name": "y", "kind": "tensor", "dtype": "float32", "shape": [1], "file": "y.bin"}]' ;;
    *'"name": "none"'*) runs '[]' ;;
    *'"name": "sequence"'*)
      runs '[{"name": "y", "kind": "sequence", "items": [{"name": "", "kind": "absent"}]}]' ;;
    *'"name": "elsewhere"'*)
      say '"duration_ms": 1, "providers": ["Other"], "outputs": []' ;;
    *'"name": "repeats"'*)
      say '"duration_ms": 1, "outputs": [], "repeats": [[{"name": "y", "kind": "absent"}]]' ;;
    *'"name": "error"'*) printf '{"ok": false, "id": %d, "error": "no such op"}\n' "$number" ;;
    *'"name": "segv"'*) echo "last warning" >&2; kill -SEGV $$ ;;
    *'"name": "exit"'*) exit 3 ;;
    *'"name": "hang"'*) exec sleep 60 ;;
    *'"name": "noise"'*) echo "hello, world" ;;
    *'"name": "twice"'*)
      runs '[{"name": "y", "kind": "absent"}, {"name": "y", "kind": "absent"}]' ;;
    *'"name": "bare"'*) say '"x": 1' ;;
    *'"name": "null"'*) runs null ;;
    *'"name": "text"'*) runs '"y"' ;;
    *'"name": "shape"'*) runs '[{"name": "y", "kind": "tensor", "shape": [1.5]}]' ;;
    *'"name": "duration"'*) say '"outputs": [], "duration_ms": "soon"' ;;
    *'"name": "nothing"'*) say '"outputs": [], "duration_ms": null' ;;
    *'"name": "again"'*) say '"outputs": [], "duration_ms": 1, "repeats": 7' ;;
    *) echo "unexpected: $line" >&2; exit 9 ;;
  esac
done
"""
HELLO = (
    '"protocol": 1, "runtime": "fake", "version": "1.0", "python": "3.11.4", "build": "b",'
    ' "providers": ["CPUExecutionProvider"], "verbs": ["hello"]'
)
LOAD = """say '"providers": ["CPUExecutionProvider"]'"""
GARBAGE = ("twice", "bare", "null", "text", "shape", "duration", "nothing", "again")


class Counter:
    """A step of progress that counts."""

    def __init__(self) -> None:
        self.done = 0

    def advance(self, note: str = "") -> None:
        """Count one more."""
        assert not note
        self.done += 1


def inputs(*names: str) -> InputSet:
    """Return cases that are named like what they make the worker do."""
    cases = [
        CaseInputs(case=f"{number}-{name}", inputs=(ValueRecord(name=name, kind="absent"),))
        for number, name in enumerate(names)
    ]
    return InputSet(folder="inputs", source="fixtures", cases=tuple(cases))


def observed(
    folder: Path, *names: str, hello: str = HELLO, load: str = LOAD, timeout_s: float = 20.0,
    repeat: int = 1, provider: str = "CPUExecutionProvider", placed: str | None = None,
) -> Observation:  # fmt: skip
    """Run cases on the fake worker."""
    exchange = folder / "exchange"
    exchange.mkdir()
    (exchange / "hello").write_text(hello, encoding="utf-8")
    (exchange / "load").write_text(load, encoding="utf-8")
    (folder / "worker.sh").write_text(WORKER, encoding="utf-8")
    job = Job(
        launch=Launch(
            argv=("/bin/sh", str(folder / "worker.sh")), label="fake==1.0", environment="digest"
        ),
        model=Path("models") / "m.onnx",
        target=Target(name="cpu", provider=provider, session_options={"intra_op_num_threads": 1}),
        timeout_s=timeout_s,
        repeat=repeat,
        ports=Ports(inputs=("x",), outputs=("b", "a")),
    )
    step = Counter()
    (exchange / "placed").write_text(placed or "", encoding="utf-8")
    found = observe(job, inputs(*names), exchange, step, placed=placed is not None)
    not_run = sum(run.status is RunStatus.NOT_RUN for run in found.cases)
    assert step.done == len(found.cases) - not_run
    return found


def starts(folder: Path) -> int:
    """Return how many workers were started."""
    return len((folder / "exchange" / "starts").read_text("utf-8").splitlines())


def statuses(found: Observation) -> list[RunStatus]:
    """Return how each case ended."""
    return [run.status for run in found.cases]


OK, CRASH, ERROR = RunStatus.OK, RunStatus.CRASH, RunStatus.ERROR


def test_an_observation_is_what_the_worker_said(tmp_path: Path) -> None:
    """Who answered, where it ran, what came out, how long it took."""
    found = observed(tmp_path, "fine", "sequence")
    assert (found.label, found.environment) == ("fake==1.0, CPUExecutionProvider", "digest")
    assert found.load is OK
    assert found.runtime is not None
    assert (found.runtime.name, found.runtime.version, found.runtime.build) == ("fake", "1.0", "b")
    assert found.providers_requested == found.providers_used == ("CPUExecutionProvider",)
    first, second = found.cases
    assert (first.case, first.status, first.duration_ms) == ("0-fine", OK, 1.5)
    value = read_value(first.outputs[0], Path(found.folder))
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [1.0]
    assert second.outputs[0].items == (ValueRecord(name="", kind="absent"),)
    assert starts(tmp_path) == 1


def test_the_worker_is_told_what_the_target_says(tmp_path: Path) -> None:
    """The model by its full path, for it runs in a folder of its own."""
    observed(tmp_path, "fine")
    said = (tmp_path / "exchange" / "loaded").read_text("utf-8")
    assert f'"model": "{(Path.cwd() / "models" / "m.onnx")}"' in said
    assert '"session_options": {"intra_op_num_threads": 1}' in said
    assert '"release"' not in said
    assert '"provider": "CPUExecutionProvider", "provider_options": {}' in said
    assert '"input_names": ["x"], "output_names": ["b", "a"]' in said


def test_a_worker_gets_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's custom code finds nothing to send home."""
    monkeypatch.setenv("GITHUB_TOKEN", "hidden")
    assert observed(tmp_path, "fine").warnings == ("token: none",)


@pytest.mark.parametrize("name", ["segv", "exit", "noise"])
def test_a_worker_that_dies_costs_its_case_alone(tmp_path: Path, name: str) -> None:
    """A fresh one takes the next case; the others have their results."""
    found = observed(tmp_path, "fine", name, "fine", "fine")
    status = RunStatus.PROTOCOL if name == "noise" else CRASH
    assert statuses(found) == [OK, status, OK, OK]
    assert [run.case for run in found.cases] == ["0-fine", f"1-{name}", "2-fine", "3-fine"]
    assert found.load is OK
    assert starts(tmp_path) == 2


def test_a_crash_keeps_its_last_words(tmp_path: Path) -> None:
    """In the message of the case, and among the warnings."""
    found = observed(tmp_path, "segv")
    assert found.cases[0].message.startswith("the worker was ended by SIGSEGV during 'run'")
    assert found.cases[0].message.endswith("last warning")
    assert "last warning" in found.warnings


def test_a_worker_that_hangs_costs_its_case_alone(tmp_path: Path) -> None:
    """Its time limit is per case."""
    found = observed(tmp_path, "hang", "fine", timeout_s=0.5)
    assert statuses(found) == [RunStatus.TIMEOUT, OK]
    assert found.cases[0].message.startswith("no answer to 'run' within 0.5 s")


def test_repeated_runs_have_more_time(tmp_path: Path) -> None:
    """So many runs, so many limits."""
    found = observed(tmp_path, "hang", timeout_s=0.3, repeat=2)
    assert found.cases[0].message.startswith("no answer to 'run' within 0.6 s")


def test_an_error_costs_its_case_and_no_worker(tmp_path: Path) -> None:
    """The runtime refused the input and goes on."""
    found = observed(tmp_path, "error", "fine")
    assert statuses(found) == [ERROR, OK]
    assert found.cases[0].message == "no such op"
    assert starts(tmp_path) == 1


@pytest.mark.parametrize("name", GARBAGE)
def test_outputs_that_are_none_cost_their_case_alone(tmp_path: Path, name: str) -> None:
    """Doubled names, wrong types, missing keys: a finding, never a crash of ours."""
    found = observed(tmp_path, name, "fine")
    assert statuses(found) == [RunStatus.PROTOCOL, OK]
    assert found.cases[0].message.startswith("unreadable outputs: ")
    assert starts(tmp_path) == 1


def test_a_model_that_always_crashes_is_given_up(tmp_path: Path) -> None:
    """After twenty workers; what was not tried is said to be so."""
    found = observed(tmp_path, *["exit"] * 23)
    assert statuses(found) == [CRASH] * 20 + [RunStatus.NOT_RUN] * 3
    assert found.cases[-1].message == "given up after 20 workers died or hung"
    assert starts(tmp_path) == 20


def test_a_model_that_always_hangs_is_given_up_sooner(tmp_path: Path) -> None:
    """After three, for each has cost a whole time limit."""
    found = observed(tmp_path, *["hang"] * 4, timeout_s=0.4)
    assert statuses(found) == [RunStatus.TIMEOUT] * 3 + [RunStatus.NOT_RUN]


def test_further_runs_that_differ_are_recorded(tmp_path: Path) -> None:
    """Beside the first."""
    found = observed(tmp_path, "repeats")
    assert found.cases[0].repeats == ((ValueRecord(name="y", kind="absent"),),)


def test_the_provider_of_the_last_run_counts(tmp_path: Path) -> None:
    """A runtime may fall back while it runs."""
    assert observed(tmp_path, "fine", "elsewhere").providers_used == ("Other",)


PLACED = (
    '"method": "assignment", "memcpy": 0, "operators":'
    ' [{"provider": "GPU", "op_type": "Add", "count": 1, "names": []}]'
)
PLACES = HELLO.replace('["hello"]', '["hello", "placement"]')


def test_where_nodes_ran_is_asked_once_the_cases_have_run(tmp_path: Path) -> None:
    """Only of a provider other than the CPU, and only by who wants to know."""
    found = observed(tmp_path, "fine", hello=PLACES, provider="GPU", placed=PLACED)
    assert found.placement is not None
    assert (found.placement.method, found.placement.on("GPU")) == (Method.ASSIGNMENT, 1)
    assert statuses(found) == [OK]


def test_nobody_asks_where_nodes_ran_unless_told_to(tmp_path: Path) -> None:
    """Searches and noise runs do not."""
    assert observed(tmp_path, "fine", hello=PLACES, provider="GPU").placement is None


def test_the_plain_cpu_is_not_asked(tmp_path: Path) -> None:
    """A worker that would answer nonsense is not heard: nothing else is there."""
    found = observed(tmp_path, "fine", hello=PLACES, placed="nonsense")
    assert found.placement == Placement(method=Method.CPU)


def test_a_worker_that_is_gone_has_not_told_where_nodes_ran(tmp_path: Path) -> None:
    """What it said of the cases before holds."""
    found = observed(tmp_path, "fine", "segv", hello=PLACES, provider="GPU", placed=PLACED)
    assert found.placement is not None
    assert (found.placement.method, statuses(found)) == (Method.NONE, [OK, CRASH])
    assert "no worker is left" in found.placement.why_not


@pytest.mark.parametrize(
    ("load", "status", "said"),
    [
        ('printf \'{"ok": false, "id": 2, "error": "bad graph"}\\n\'', ERROR, "bad graph"),
        ("kill -SEGV $$", CRASH, "SIGSEGV during 'load'"),
        ("exit 7", CRASH, "exited with status 7 during 'load'"),
        ("exec sleep 60", RunStatus.TIMEOUT, "no answer to 'load'"),
        ("echo loading", RunStatus.PROTOCOL, "'loading'"),
    ],
)
def test_a_model_that_does_not_load_runs_no_case(
    tmp_path: Path, load: str, status: RunStatus, said: str
) -> None:
    """The observation says why; nothing is tried again."""
    timeout_s = 0.5 if status is RunStatus.TIMEOUT else 20.0
    found = observed(tmp_path, "fine", "fine", load=load, timeout_s=timeout_s)
    assert (found.load, found.cases) == (status, ())
    assert said in found.load_message
    assert starts(tmp_path) == 1


@pytest.mark.parametrize("version", ["2", "0", '"1"', "null"])
def test_another_protocol_is_not_spoken(tmp_path: Path, version: str) -> None:
    """Before anything is loaded."""
    found = observed(tmp_path, "fine", hello=HELLO.replace("1", version, 1))
    assert (found.load, found.cases) == (RunStatus.PROTOCOL, ())
    assert "speaks protocol" in found.load_message
    assert not (tmp_path / "exchange" / "loaded").exists()


def test_a_silent_hello_is_no_protocol(tmp_path: Path) -> None:
    """A worker that does not say its version has none."""
    found = observed(tmp_path, "fine", hello='"runtime": "x"')
    assert "speaks protocol None" in found.load_message


def test_without_cases_the_model_is_loaded_all_the_same(tmp_path: Path) -> None:
    """Whether it loads is known, and nothing else."""
    found = observed(tmp_path)
    assert (found.load, found.cases) == (OK, ())
    assert found.runtime is not None
    assert starts(tmp_path) == 1


def test_garbage_lists_are_empty(tmp_path: Path) -> None:
    """Providers that are no list are no providers."""
    found = observed(tmp_path, "bare", load='say \'"providers": "CPU"\'')
    assert found.providers_used == ()


def test_names_are_as_the_worker_gave_them(tmp_path: Path) -> None:
    """Whatever a worker calls itself becomes text."""
    hello: Any = HELLO.replace('"fake"', "7")
    found = observed(tmp_path, "fine", hello=hello)
    assert found.runtime is not None
    assert found.runtime.name == "7"


def test_what_a_worker_says_of_itself_is_short(tmp_path: Path) -> None:
    """A runner in another language has no Python; none has a novel for a name."""
    hello = f'"protocol": 1, "runtime": "{"x" * 5000}", "providers": {["p" * 5000] * 500}'
    found = observed(tmp_path, "fine", hello=hello.replace("'", '"'))
    assert found.runtime is not None
    assert (len(found.runtime.name), found.runtime.python) == (1000, "")
    assert [len(name) for name in found.runtime.providers] == [1000] * 100
