"""A pipeline in a process of its own: the same to the bit, and lost without us."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError, InfrastructureError
from ci_parity.preprocess.diagnose import diagnose
from ci_parity.preprocess.execute import apply, walk
from ci_parity.preprocess.model import Pipeline
from ci_parity.preprocess.planned import step_names
from ci_parity.preprocess.wire import pipeline_from_json, pipeline_to_json
from ci_parity.records.preprocess import Match
from ci_parity.stages.declared_pipeline import DeclaredProcess
from tests.support.raw_inputs import picture, sound, write_pipeline, write_tokenizer

LONG_S = 120.0
SHORT_S = 3.0
# Of each run, every start is tried in all its ways: just below what the library itself gives up at.
CATASTROPHE = "(a+)+$"
RUNS = ("a" * 20 + "! ") * 5000

OUTSIDE = (
    "tensors=[{'name': 'x', 'kind': 'tensor', 'dtype': 'uint8', 'shape': [9], "
    "'file': '../raw.txt', 'items': []}]"
)

PIPELINES = {
    "image": "image: {input: x, steps: [{resize: {policy: exact, size: [8, 9]}}, {scale: "
    "{divide: 255}}, {normalise: {mean: [0.4, 0.5, 0.6], std: 0.3}}, {pad: {size: 16}}, "
    "{crop: {size: 10}}]}",
    "text": "text: {tokenizer: tokenizer.json, normalise: [NFC, strip], prompt: 'say {text}', "
    "truncation: {length: 9}, padding: {length: 12, id: 0}, "
    "outputs: {ids: input_ids, mask: attention_mask}}",
    "bytes": "bytes: {input: x, beginning: 16, end: 16}\n"
    "constants: {rate: {dtype: int64, value: 16000}, state: {shape: [2, 3], value: 0.5}}",
    "audio": "audio: {input: x, batch: false, rate: 6000, scale: 2, "
    "window: {length: 256, hop: 128}}",
    "tabular": "tabular: {format: csv, columns: {age: {missing: nan}, city: {type: category, "
    "categories: [Rome, Oslo]}, name: {type: text}}, inputs: {f: {columns: [city, age], "
    "dtype: float32}, n: {columns: [name], dtype: string}}}",
}
RAWS = {
    "image": picture(form="JPEG"),
    "text": " the model means ü the same".encode(),
    "bytes": b"  a file of its own  ",
    "audio": sound(),
    "tabular": "age,city,name\n3,Rome,Ada\n,Oslo,größe\n".encode(),
}


def pipeline(folder: Path, text: str) -> Pipeline:
    """Write a pipeline, and a tokenizer beside it."""
    write_tokenizer(folder)
    return write_pipeline(folder, text)


def hungry(folder: Path, *, pattern: str = "the|.", **changes: object) -> Pipeline:
    """Return a pipeline of text whose tokenizer.json wants too much."""
    path = write_tokenizer(folder)
    value = json.loads(path.read_text(encoding="utf-8"))
    value["pre_tokenizer"]["pattern"] = {"Regex": pattern}
    path.write_text(json.dumps(value | changes), encoding="utf-8")
    return write_pipeline(folder, "text: {tokenizer: tokenizer.json, outputs: {x: input_ids}}")


def process(made: Pipeline, timeout_s: float = LONG_S, memory_bytes: int = 0) -> DeclaredProcess:
    """Return a process for a pipeline, whose files lie beside it."""
    return DeclaredProcess(
        made, made.root / "exchange", timeout_s, memory_bytes=memory_bytes
    )  # fmt: skip


def raw(made: Pipeline, data: bytes | str, name: str = "raw.txt") -> Path:
    """Write a raw file."""
    path = made.root / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def lost(running: DeclaredProcess, file: Path, case: str = "slow") -> InfrastructureError:
    """Return how the process was lost at a raw file."""
    with pytest.raises(InfrastructureError) as caught:
        running.tensors(file, file.parent, case)
    return caught.value


def same(found: Mapping[str, np.ndarray], due: Mapping[str, np.ndarray]) -> None:
    """Hold tensors to others, bit for bit."""
    assert list(found) == list(due)
    for name, array in due.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        if array.dtype == object:
            assert found[name].tolist() == array.tolist()
        else:
            assert found[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", PIPELINES)
def test_tensors_steps_and_diagnoses_are_those_of_this_process(tmp_path: Path, kind: str) -> None:
    """To the bit, whatever the pipeline: equal ones, and those that differ, with their cause."""
    made, data = pipeline(tmp_path, PIPELINES[kind]), RAWS[kind]
    file = raw(made, data)
    due = apply(made, data)
    first = next(iter(due))
    wrong = {n: a if a.dtype == object else a + a.dtype.type(1) for n, a in due.items()}
    partial = {"other": due[first], **{name: due[name] for name in list(due)[1:]}}
    with process(made) as running:
        same(running.tensors(file, tmp_path, "c"), due)
        same(running.tensors(file, tmp_path, "c"), due)
        for stored in (due, wrong, partial):
            found = running.diagnosed(file, tmp_path, "c", stored, 60.0)
            assert found == diagnose(made, data, stored)
        assert running.steps(file, tmp_path, "c") == tuple(s.summary for s in walk(made, data))


def test_a_cause_is_found_there_too(tmp_path: Path) -> None:
    """Half a search is no search: the answer is the one of `diagnose`, causes and all."""
    made = pipeline(tmp_path, PIPELINES["image"])
    stored = {"x": apply(made, RAWS["image"])["x"][:, ::-1]}
    with process(made) as running:
        found = running.diagnosed(raw(made, RAWS["image"]), tmp_path, "c", stored, 60.0)
    assert found == diagnose(made, RAWS["image"], stored)
    assert found.match is Match.DIFFERENT


def test_an_infinite_distance_comes_through(tmp_path: Path) -> None:
    """JSON has no infinity."""
    made = pipeline(tmp_path, PIPELINES["tabular"])
    stored = dict(apply(made, RAWS["tabular"]))
    stored["n"] = np.array([["Ada"], ["Bob"]], object)
    with process(made) as running:
        found = running.diagnosed(raw(made, RAWS["tabular"]), tmp_path, "c", stored, 60.0)
    assert found == diagnose(made, RAWS["tabular"], stored)
    assert [item.max_abs for item in found.inputs if item.name == "n"] == [np.inf]


@pytest.mark.parametrize("kind", PIPELINES)
def test_a_pipeline_travels_as_it_was_read(tmp_path: Path, kind: str) -> None:
    """What runs is what was read, whatever becomes of its file meanwhile."""
    made = pipeline(tmp_path, PIPELINES[kind])
    arrived = pipeline_from_json(json.loads(json.dumps(pipeline_to_json(made))))
    # By their words, since a column that is missing as NaN is not equal to itself.
    assert repr(arrived) == repr(made)


@pytest.mark.parametrize("kind", PIPELINES)
def test_steps_are_announced_by_their_names(tmp_path: Path, kind: str) -> None:
    """Each before it is done, and in their order."""
    made, heard = pipeline(tmp_path, PIPELINES[kind]), list[str]()
    done = [
        (step.name, heard[-1])
        for step in walk(made, RAWS[kind], begin=heard.append)
        if step.name != "constant"
    ]
    assert [name for name, _ in done] == [begun for _, begun in done]
    assert [name for name, _ in done] == list(step_names(made.kind))


def test_a_refusal_is_the_same_error(tmp_path: Path) -> None:
    """Kind, words, place and remedy; the process lives on."""
    made = pipeline(tmp_path, PIPELINES["text"])
    bad, link = raw(made, b"\xff\xfe", "bad.txt"), tmp_path / "below" / "link.txt"
    link.parent.mkdir()
    link.symlink_to(bad)
    with process(made) as running:
        for file, root in ((bad, tmp_path), (tmp_path / "gone", tmp_path), (link, link.parent)):
            with pytest.raises(EvidenceError):
                running.tensors(file, root, "c")
        with pytest.raises(EvidenceError) as here:
            apply(made, b"\xff\xfe")
        with pytest.raises(EvidenceError) as there:
            running.tensors(bad, tmp_path, "c")
        assert str(there.value) == str(here.value)
        (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
        with pytest.raises(ConfigError, match="tokenizer cannot be used"):
            running.tensors(raw(made, "the"), tmp_path, "c")


def test_a_regular_expression_that_takes_for_ever_is_ended(tmp_path: Path) -> None:
    """The case, the file and the step are named; a fresh process takes the next case."""
    made = hungry(tmp_path, pattern=CATASTROPHE)
    slow, quick = raw(made, RUNS, "slow.txt"), raw(made, "the", "quick.txt")
    with process(made, SHORT_S) as running:
        same(running.tensors(quick, tmp_path, "quick"), apply(made, b"the"))
        error = lost(running, slow)
        same(running.tensors(quick, tmp_path, "quick"), apply(made, b"the"))
    assert error.what.startswith(
        "preprocessing was lost at step 'tokens': no answer to 'tensors' within 3 s"
    )
    assert error.where == "preprocess.yml, case slow, slow.txt"
    assert "regular expression" in error.remedy
    assert "policy.timeout_s" in error.remedy


def test_a_library_that_aborts_takes_nobody_along(tmp_path: Path) -> None:
    """Padding to 2^46 tokens ends tokenizers' whole process; without a token there is none."""
    padding = {
        "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": 2**46,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    made = hungry(tmp_path, padding=padding, post_processor=None)
    fatal, empty = raw(made, "the", "fatal.txt"), raw(made, "", "empty.txt")
    with process(made) as running:
        assert running.tensors(empty, tmp_path, "empty")["x"].shape == (1, 0)
        error = lost(running, fatal, "fatal")
        assert running.tensors(empty, tmp_path, "empty")["x"].shape == (1, 0)
    assert "at step 'tokens': the worker was ended by SIGABRT" in error.what
    assert "memory allocation" in error.what
    assert error.where == "preprocess.yml, case fatal, fatal.txt"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_what_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    """Each replacement makes the text eight times as long: 10^11 characters in the end."""
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 8}
    made = hungry(tmp_path, normalizer={"type": "Sequence", "normalizers": [step] * 12})
    big, small = raw(made, "aa", "big.txt"), raw(made, "the", "small.txt")
    with process(made, memory_bytes=400 * 10**6) as running:
        error = lost(running, big, "big")
        same(running.tensors(small, tmp_path, "small"), apply(made, b"the"))
    assert "took more than 0.4 GiB of memory, and was ended" in error.what
    assert "more memory" in error.remedy


def test_a_difference_stays_one_where_the_search_for_its_cause_is_lost(tmp_path: Path) -> None:
    """In capitals the text is harmless; the change to lower case, which is tried, is not."""
    made = hungry(tmp_path, pattern=CATASTROPHE)
    data = RUNS.upper().encode()
    stored = {"x": apply(made, data)["x"] + 1}
    with process(made, SHORT_S) as running:
        found = running.diagnosed(raw(made, data), tmp_path, "c", stored, 1.0)
    assert found.match is Match.DIFFERENT
    assert found.causes == ()
    assert "no cause was searched for to the end: preprocessing was lost at step" in found.words
    assert "tokens, with text in lower case" in found.words


def test_no_secret_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the workflow stays here, and what steers Python too."""
    monkeypatch.setenv("GITHUB_TOKEN", "a secret of ours")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret of ours")
    monkeypatch.setenv("PYTHONSTARTUP", "elsewhere.py")
    # A fake of its own says what it got.
    fake = tmp_path / "fake.py"
    code = """
answer(receive())
said = {"kind": "EvidenceError", "what": json.dumps(dict(os.environ))}
answer(receive(), refused=said)
"""
    fake.write_text(FAKE + code, encoding="utf-8")
    made = pipeline(tmp_path, PIPELINES["bytes"])
    argv = (sys.executable, "-I", str(fake))
    with (
        DeclaredProcess(made, tmp_path / "x", LONG_S, worker=argv) as running,
        pytest.raises(EvidenceError) as caught,
    ):
        running.tensors(raw(made, "x"), tmp_path, "c")
    found = json.loads(caught.value.what)
    assert found["PATH"]
    assert not {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONSTARTUP"} & found.keys()
    assert "a secret of ours" not in caught.value.what


def test_it_starts_once_and_only_when_it_is_needed(tmp_path: Path) -> None:
    """Each process leaves a mark as it starts."""
    made = pipeline(tmp_path, PIPELINES["bytes"])
    marks, fake = tmp_path / "marks", tmp_path / "fake.py"
    fake.write_text(
        f"open({str(marks)!r}, 'a').write('x')\nimport runpy\n"
        "runpy.run_module('ci_parity.preprocess', run_name='__main__')\n",
        encoding="utf-8",
    )
    argv = (sys.executable, "-P", str(fake))
    file = raw(made, RAWS["bytes"])
    with DeclaredProcess(made, tmp_path / "x", LONG_S, worker=argv) as running:
        assert not marks.exists()
        for _ in range(5):
            running.tensors(file, tmp_path, "c")
            running.diagnosed(file, tmp_path, "c", apply(made, RAWS["bytes"]), 1.0)
    assert marks.read_text() == "x"


def test_a_process_that_an_earlier_case_spoilt_is_tried_again(tmp_path: Path) -> None:
    """It dies at the second request; a fresh one answers it."""
    made = pipeline(tmp_path, PIPELINES["bytes"])
    said = "{'kind': 'EvidenceError', 'what': f'asked {number}'}"
    running, file = fake_process(
        made,
        f"""
        for number in range(2):
            answer(request, refused={said})
            request = receive()
        os._exit(9)
    """,
    )
    with running:
        for number in (0, 1, 0, 1):
            with pytest.raises(EvidenceError, match=f"asked {number}"):
                running.tensors(file, tmp_path, "c")


def test_processes_that_die_one_after_another_are_given_up(tmp_path: Path) -> None:
    """Nothing starts for ever; what was not looked at says so."""
    made = pipeline(tmp_path, PIPELINES["bytes"])
    running, file = fake_process(made, "os.abort()")
    with running:
        errors = [lost(running, file) for _ in range(21)]
    assert all("SIGABRT" in error.what for error in errors[:20])
    assert "given up after 20 processes died" in errors[20].what


@pytest.mark.parametrize(
    "answered",
    [
        "tensors=3", "tensors=[{}]", "", "refused=3", "refused={'kind': 'SystemExit'}", OUTSIDE,
        "diagnosis={}", "diagnosis={'match': 'equal'}, open=False",
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused(tmp_path: Path, answered: str) -> None:
    """A process that somebody took over has no more to say than its form allows."""
    made = pipeline(tmp_path, PIPELINES["bytes"])
    running, file = fake_process(made, f"answer(request, {answered})")
    with running, pytest.raises(CiParityError):
        running.tensors(file, tmp_path, "c")
    running, file = fake_process(made, f"answer(request, {answered})")
    stored = {"x": np.zeros(1, np.int32)}
    with running, pytest.raises(CiParityError):
        running.diagnosed(file, tmp_path, "c", stored, 1.0)


FAKE = """\
import json, os, sys

def receive():
    return json.loads(sys.stdin.readline())

def answer(request, **words):
    sys.stdout.write(json.dumps({"ok": True, "id": request["id"], **words}) + "\\n")
    sys.stdout.flush()

"""


def fake_process(made: Pipeline, code: str) -> tuple[DeclaredProcess, Path]:
    """Return a process that loads, and then does what the test says with the first request."""
    fake = made.root / "fake.py"
    lines = [line.removeprefix(" " * 8) for line in code.strip("\n").splitlines()]
    fake.write_text(
        "\n".join([FAKE, "answer(receive())", "request = receive()", *lines]), encoding="utf-8"
    )
    argv = (sys.executable, "-I", str(fake))
    running = DeclaredProcess(made, made.root / "exchange", LONG_S, worker=argv)
    return running, raw(made, "x")
