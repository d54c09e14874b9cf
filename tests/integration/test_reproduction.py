"""Reproductions of real faults, run by their own script in environments made for the purpose."""

import json
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci_parity.base.progress import SilentProgress
from ci_parity.config.systems import Target
from ci_parity.localise.reproduction import Observed, Reproduction, System, write_reproduction
from ci_parity.localise.specimen import Specimen
from ci_parity.records.observation import CaseInputs, InputSet, RunStatus
from ci_parity.records.values import read_value, write_value
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import prepare
from tests.corpus.catalogue import Case, Side, cases
from tests.integration.support.corpus_command import missing_for
from tests.integration.support.diff_command import environments
from tests.integration.support.reproduction_script import LIMIT_S, lines, run_script

pytestmark = pytest.mark.network

# Faults of every kind: other numbers, NaN, another runtime, refusing to load, a crash.
NAMES = (
    "log-subnormal", "prelu-nan", "openvino-min-nan", "cast-mul-one-invalid-graph",
    "int-div-by-zero",
)  # fmt: skip
CASES = tuple(case for case in cases() if case.name in NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A reproduction, and what its candidate did."""

    folder: Path
    candidate: Observed


def options_of(side: Side) -> dict[str, str | int]:
    """Return a side's session options as a target has them."""
    pairs = (option.split("=") for option in side.session_options)
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def observed(side: Side, model: Path, folder: Path) -> Observed:
    """Run a case on one side."""
    target = Target(name="t", runtime=side.requirement, session_options=options_of(side))
    launch = prepare(side.requirement, cache=environments())
    ports = onnx.load(model).graph.input
    with np.load(model.with_name("inputs.npz")) as feeds:
        given = [
            write_value(port.name, feeds[port.name], folder, f"in{at}")
            for at, port in enumerate(ports)
        ]
    job = Job(launch=launch, model=model, target=target, timeout_s=LIMIT_S)
    case = CaseInputs(case="c", inputs=tuple(given))
    inputs = InputSet(folder=str(folder), source="given", cases=(case,))
    with SilentProgress().step("", 1) as step:
        observation = observe(job, inputs, folder, step)
    if observation.load is not RunStatus.OK:
        return Observed(status=observation.load, message=observation.load_message)
    (ran,) = observation.cases
    outputs = {record.name: np.array(read_value(record, folder)) for record in ran.outputs}
    return Observed(status=ran.status, message=ran.message, outputs=outputs)


def system_of(side: Side) -> System:
    """Return what is said of a side."""
    return System(runtime=side.requirement, session_options=options_of(side))


def reproduced(case: Case, folder: Path) -> Written:
    """Write the reproduction of a case of the corpus."""
    if missing := missing_for(case):
        pytest.skip(missing)
    (folder / "baseline").mkdir()
    (folder / "candidate").mkdir()
    path, inputs = case.build(folder)
    model = onnx.load(path)
    with np.load(inputs) as feeds:
        specimen = Specimen(baseline=model, candidate=model, inputs=dict(feeds))
    candidate = observed(case.candidate, path, folder / "candidate")
    written = write_reproduction(
        specimen,
        observed(case.baseline, path, folder / "baseline"),
        candidate,
        Reproduction(
            title=case.name,
            sentence="A fault of the corpus.",
            baseline=system_of(case.baseline),
            candidate=system_of(case.candidate),
        ),
        folder / "repro",
    )
    return Written(folder=written, candidate=candidate)


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_reproduction_reproduces_in_a_fresh_environment(case: Case, tmp_path: Path) -> None:
    """The candidate's runtime shows the fault, the baseline's does not."""
    written = reproduced(case, tmp_path)
    cache = tmp_path / "fresh"
    faulty = run_script(written.folder, case.candidate.requirement, cache)
    assert faulty.returncode == 1, faulty
    assert lines(faulty)[-1].startswith("fault reproduced: ")
    sound = run_script(written.folder, case.baseline.requirement, cache, "--side", "baseline")
    assert sound.returncode == 0, sound
    assert lines(sound)[-1].startswith("no fault: ")


def case_named(name: str) -> Case:
    """Return a case of the corpus."""
    return next(case for case in CASES if case.name == name)


def test_a_refusal_is_the_fault(tmp_path: Path) -> None:
    """The words of the candidate are those of the record, whatever the paths in them."""
    written = reproduced(case_named("cast-mul-one-invalid-graph"), tmp_path)
    assert written.candidate.status is RunStatus.ERROR
    done = run_script(written.folder, "onnxruntime==1.32.0", environments())
    assert lines(done)[-1].startswith("fault reproduced: refuses to load: InvalidArgument")


def test_a_crash_is_the_fault(tmp_path: Path) -> None:
    """The script survives it and says which signal it was."""
    case = case_named("int-div-by-zero")
    written = reproduced(case, tmp_path)
    assert written.candidate.status is RunStatus.CRASH
    done = run_script(written.folder, case.candidate.requirement, environments())
    assert lines(done)[-1] == "fault reproduced: the process dies: signal 8"


def test_a_later_version_says_that_the_fault_is_gone(tmp_path: Path) -> None:
    """What maintainers do with it: the candidate's options, another version."""
    written = reproduced(case_named("prelu-nan"), tmp_path)
    done = run_script(written.folder, "onnxruntime==1.32.0", environments())
    assert done.returncode == 0, done
    assert lines(done)[0] == "here: onnxruntime 1.32.0"


def test_without_the_runtime_nothing_is_said(tmp_path: Path) -> None:
    """An environment of another runtime ends with 3."""
    written = reproduced(case_named("openvino-min-nan"), tmp_path)
    done = run_script(written.folder, "onnxruntime==1.32.0", environments())
    assert done.returncode == 3, done
    assert lines(done)[-1] == "could not run: No module named 'openvino'"


def test_another_result_is_neither(tmp_path: Path) -> None:
    """A model that was changed is noticed, and what it computes is nobody's result."""
    written = reproduced(case_named("log-subnormal"), tmp_path)
    model = onnx.load(written.folder / "model.onnx")
    model.graph.node[0].op_type = "Exp"
    onnx.save(model, written.folder / "model.onnx")
    done = run_script(written.folder, "onnxruntime==1.32.0", environments())
    assert done.returncode == 2, done
    assert lines(done)[0] == "note: model.onnx is not the recorded file"


def test_wrong_words_are_no_result(tmp_path: Path) -> None:
    """A side that there is not ends with 3, not with argparse's 2."""
    written = reproduced(case_named("log-subnormal"), tmp_path)
    done = run_script(written.folder, "onnxruntime==1.32.0", environments(), "--side", "both")
    assert done.returncode == 3


def test_the_record_says_how_each_side_ended(tmp_path: Path) -> None:
    """The runtime and the options of both, and what came of them."""
    case = case_named("int-div-by-zero")
    folder = reproduced(case, tmp_path).folder
    sides = json.loads((folder / "repro.json").read_bytes())["sides"]
    for name, side in (("baseline", case.baseline), ("candidate", case.candidate)):
        assert sides[name]["runtime"] == side.requirement
        assert sides[name]["session_options"] == options_of(side)
    assert [sides[name]["result"]["status"] for name in ("baseline", "candidate")] == [
        "error", "crash",
    ]  # fmt: skip


RUNTIMES = ("onnxruntime==1.32.0", "openvino==2026.1.0", "tract==0.23.9", "onnx==1.23.2")


def doubled(dtype: int, folder: Path, value: Any, twice: Any, requirement: str) -> Path:
    """Write the reproduction of 2 x, whose candidate is said to have brought x."""
    ports = [helper.make_tensor_value_info(name, dtype, ["n", 3]) for name in ("x", "y")]
    node = helper.make_node("Add", ["x", "x"], ["y"], name="add")
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    system = System(runtime=requirement)
    return write_reproduction(
        Specimen(baseline=model, candidate=model, inputs={"x": value}),
        Observed(outputs={"y": twice}),
        Observed(outputs={"y": value}),
        Reproduction(title="double", sentence="No fault.", baseline=system, candidate=system),
        folder / "repro",
    )


@pytest.mark.parametrize("requirement", RUNTIMES)
def test_every_runtime_is_run(requirement: str, tmp_path: Path) -> None:
    """Each loads the model, is fed, and its result is compared."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    folder = doubled(TensorProto.FLOAT, tmp_path, x, x + x, requirement)
    done = run_script(folder, requirement, environments())
    assert done.returncode == 0, done
    assert lines(done)[0] == f"here: {requirement.replace('==', ' ')}"


@pytest.mark.parametrize("requirement", ["openvino==2026.1.0", "onnx==1.23.2"])
def test_types_that_numpy_lacks_are_run(requirement: str, tmp_path: Path) -> None:
    """As their bits, there and back."""
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    folder = doubled(TensorProto.BFLOAT16, tmp_path, x, x + x, requirement)
    done = run_script(folder, requirement, environments())
    assert done.returncode == 0, done


@pytest.mark.parametrize("requirement", ["onnxruntime==1.32.0", "tract==0.23.9"])
def test_types_that_a_runtime_does_not_take_are_no_result(requirement: str, tmp_path: Path) -> None:
    """Not through Python: the script says so and ends with 3."""
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.int4)
    folder = doubled(TensorProto.INT8, tmp_path, x, x, requirement)
    done = run_script(folder, requirement, environments())
    assert done.returncode == 3, done
    assert lines(done)[-1] == "could not run: this runtime takes no int4 through Python"


def test_onnxruntime_takes_types_that_numpy_lacks(tmp_path: Path) -> None:
    """It has few operators for them: one that casts."""
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    folder = doubled(TensorProto.BFLOAT16, tmp_path, x, x + x, "onnxruntime==1.32.0")
    model = onnx.load(folder / "model.onnx")
    model.graph.node[0].CopyFrom(helper.make_node("Identity", ["x"], ["y"]))
    onnx.save(model, folder / "model.onnx")
    done = run_script(folder, "onnxruntime==1.32.0", environments())
    assert done.returncode == 1, done
