"""Noise floors of boundaries: measured once, kept, and said where there are none."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ci_parity.base.progress import SilentProgress
from ci_parity.compare import metrics
from ci_parity.compare.tolerance import Calibrated, Limits
from ci_parity.config.load import policy, target
from ci_parity.records.noise import NoiseFloors, OutputStep, Precision
from ci_parity.records.outcome import Outcome
from ci_parity.records.values import Value
from ci_parity.run.execute import Job, Ports
from ci_parity.run.runtime import WORKERS, Launch
from ci_parity.stages.noise import MANY_CASES, SEEDS, SEEDS_OF_MANY, Calibrator, seed
from ci_parity.stages.suite import write_inputs
from tests.unit.calibrate.twins import FLOAT, model, node, normal, tensor, weights

# Writes down that it was started and which models it loads, and then is the real one or none.
WORKER = """
import json, os, sys, time
mode, log, real = sys.argv[1:]
with open(log, "a") as stream:
    stream.write("started\\n")
if mode == "real":
    os.execv(sys.executable, [sys.executable, "-I", "-B", real])
number = 0
for line in sys.stdin:
    number += 1
    verb = json.loads(line)["verb"]
    answer = {"ok": True, "id": number, "protocol": 1, "providers": ["CPUExecutionProvider"]}
    if verb == "load" and mode == "refuses" or verb == "run" and mode == "fails":
        answer = {"ok": False, "id": number, "error": f"this worker {mode}"}
    if verb == "run" and mode == "hangs":
        time.sleep(60)
    print(json.dumps(answer), flush=True)
"""
CASES: Mapping[str, Mapping[str, Value]] = {"one": {"x": normal(3, 4)}, "two": {"x": normal(5, 4)}}


class Bench:
    """A folder with a model, its inputs, and workers that count their starts."""

    def __init__(self, folder: Path, cases: Mapping[str, Mapping[str, Value]] = CASES) -> None:
        self.folder = folder
        self.inputs = write_inputs(cases.items(), folder / "inputs", source="given")
        (folder / "worker.py").write_text(WORKER, encoding="utf-8")
        self.log = folder / "starts"
        self.number = 0

    def calibrator(self, cache: str = "") -> Calibrator:
        """Return a new one, with a cache folder of that name if it has one."""
        self.number += 1
        return Calibrator(
            self.inputs, self.folder / f"noise{self.number}",
            cache=self.folder / cache if cache else None, progress=SilentProgress(),
        )  # fmt: skip

    def job(
        self, made: onnx.ModelProto | bytes | None = None, *, mode: str = "real", name: str = "m",
        timeout_s: float = 60, **settings: Any,
    ) -> Job:  # fmt: skip
        """Return a system: a model on a worker, on the target with these settings."""
        path = self.folder / f"{name}.onnx"
        made = dense() if made is None else made
        path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
        argv = (
            sys.executable, "-I", str(self.folder / "worker.py"), mode, str(self.log),
            str(WORKERS / "onnxruntime_worker.py"),
        )  # fmt: skip
        launch = Launch(argv=argv, label="counted", environment="")
        ports = Ports(inputs=("x",))
        return Job(
            launch=launch, model=path, target=target("cpu", settings), timeout_s=timeout_s,
            repeat=3, ports=ports,
        )  # fmt: skip

    @property
    def starts(self) -> int:
        """How many of our workers were started."""
        return self.log.read_text("utf-8").count("started") if self.log.exists() else 0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a bench with two cases."""
    return Bench(tmp_path)


def dense(scale: float = 0.3) -> onnx.ModelProto:
    """Return y = tanh(x @ w)."""
    nodes = [node("MatMul", "x w", "m"), node("Tanh", "m", "y")]
    return model(nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])],
                 [weights("w", 4, 4, scale=scale)])  # fmt: skip


def picky() -> onnx.ModelProto:
    """Return a model that takes three rows only."""
    nodes = [node("MatMul", "x w", "m"), node("Reshape", "m s", "y")]
    return model(nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, [3, 4])],
                 [weights("w", 4, 4), tensor("s", [3, 4], np.int64)])  # fmt: skip


def spreads(floors: NoiseFloors) -> list[Any]:
    """Return what was measured of each case that was, one output each."""
    found = []
    for case in floors.cases:
        assert len(case.outputs) == 1, case.failure
        output = case.outputs[0]
        values = np.fromfile(Path(floors.folder) / output.file, "<f4")
        found.append(values.reshape(output.shape))
    return found


def failures(floors: NoiseFloors) -> dict[str, str]:
    """Return why cases have no floor."""
    return {case.case: case.failure for case in floors.cases if case.failure}


def files(folder: Path) -> set[str]:
    """Return the names of all files below a folder."""
    return {path.name for path in folder.rglob("*") if path.is_file()}


# Measuring.


def test_every_case_has_the_floors_of_its_outputs(bench: Bench) -> None:
    """In order, each in a file, at the precision of the graph."""
    job = bench.job()
    floors = bench.calibrator().floors(job, job)
    assert (floors.failure, floors.exact, floors.rounding) == ("", False, False)
    assert (floors.precision, floors.seeds) == (Precision.FLOAT32, SEEDS)
    assert [case.case for case in floors.cases] == ["one", "two"]
    for spread, rows in zip(spreads(floors), (3, 5), strict=True):
        assert spread.shape == (rows, 4)
        assert 1e-9 < spread.mean() < 1e-6
    assert floors.cases[0].outputs[0].output == "y"
    assert bench.starts == 1


def test_seeds_are_far_from_each_other() -> None:
    """So that a logarithm times one of them has another fraction with the next."""
    seeds = [seed(number) for number in range(32)]
    assert min(seeds) > 1e4
    gaps = np.diff(np.sort(seeds))
    assert gaps.min() > 100
    assert max(seeds) < 2**18  # times the logarithm of a usual number, float32 has fractions left


def test_many_cases_run_with_fewer_seeds(tmp_path: Path) -> None:
    """A few at a time; there is one floor for each."""
    cases = {f"case {number}": {"x": normal(2, 4, seed=number)} for number in range(MANY_CASES + 1)}
    bench = Bench(tmp_path, cases)
    job = bench.job()
    floors = bench.calibrator().floors(job, job)
    assert floors.seeds == SEEDS_OF_MANY
    assert [case.case for case in floors.cases] == list(cases)
    assert len({spread.tobytes() for spread in spreads(floors)}) == len(cases)


def test_nothing_is_left_but_the_floors(bench: Bench) -> None:
    """Neither the outputs of perturbed runs nor the twin, which is as large as the model."""
    calibrator = bench.calibrator()
    job = bench.job()
    floors = calibrator.floors(job, job)
    kept = {output.file for case in floors.cases for output in case.outputs}
    assert files(calibrator.folder) == kept | {"twin.json"}


def test_a_model_is_measured_once(bench: Bench) -> None:
    """However many boundaries it is in, under whichever name."""
    calibrator = bench.calibrator()
    first = calibrator.floors(bench.job(), bench.job())
    again = calibrator.floors(bench.job(name="copy"), bench.job())
    assert again == first
    assert bench.starts == 1


def test_stored_references_have_the_noise_of_the_candidate(bench: Bench) -> None:
    """There is no other system to run."""
    floors = bench.calibrator().floors(None, bench.job())
    assert len(spreads(floors)) == 2


def test_the_baseline_is_measured_not_the_candidate(bench: Bench) -> None:
    """A candidate that is chaotic must not set its own limit."""
    calm = bench.job()
    wild = bench.job(dense(scale=300.0), name="wild")
    calibrator = bench.calibrator()
    floors = calibrator.floors(calm, wild)
    assert spreads(floors)[0].tobytes() == spreads(calibrator.floors(calm, calm))[0].tobytes()
    assert spreads(calibrator.floors(wild, calm))[0].tobytes() != spreads(floors)[0].tobytes()


def test_a_coarser_candidate_is_measured_at_its_precision(bench: Bench) -> None:
    """By its graph, or by its provider; each precision once."""
    half = dense()
    half.graph.node[1].output[0] = "t"
    half.graph.node.extend([
        node("Cast", "t", "h", to=TensorProto.FLOAT16), node("Cast", "h", "y", to=FLOAT),
    ])  # fmt: skip
    calibrator = bench.calibrator()
    job = bench.job()
    fine = calibrator.floors(job, job)
    coarse = calibrator.floors(job, bench.job(half, name="half"))
    gpu = calibrator.floors(job, bench.job(name="gpu", provider="CUDAExecutionProvider"))
    assert [f.precision for f in (fine, coarse, gpu)] == [
        Precision.FLOAT32, Precision.FLOAT16, Precision.TF32,
    ]  # fmt: skip
    means = [spreads(f)[0].mean() for f in (fine, coarse, gpu)]
    assert means[1] > 1000 * means[0]
    assert 1000 * means[0] < means[2] < means[1]
    before = bench.starts
    assert calibrator.floors(job, bench.job(half, name="half again")) == coarse
    assert bench.starts == before == 3


def test_an_exact_graph_starts_nothing(bench: Bench) -> None:
    """Its floor is 0 everywhere."""
    plain = model([node("Relu", "x", "y")], [("x", FLOAT, ["n", 4])], [("y", FLOAT, None)])
    floors = bench.calibrator("cache").floors(bench.job(plain), bench.job(plain))
    assert (floors.exact, floors.cases, floors.failure) == (True, (), "")
    assert bench.starts == 0


def test_an_exact_graph_rounds_beside_a_coarser_side(bench: Bench) -> None:
    """What it hands through is stored in float16 there."""
    plain = model([node("Relu", "x", "y")], [("x", FLOAT, ["n", 4])], [("y", FLOAT, None)])
    coarse = bench.job(plain, name="coarse", provider="CoreMLExecutionProvider")
    floors = bench.calibrator().floors(bench.job(plain), coarse)
    assert (floors.exact, floors.precision) == (False, Precision.FLOAT16)
    assert spreads(floors)[0].max() > 1e-5


def test_a_graph_that_quantizes_says_so(bench: Bench) -> None:
    """That it rounds, and to which step."""
    nodes = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")]
    plain = model(nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, None)], [tensor("s", 0.25)])
    floors = bench.calibrator().floors(bench.job(plain), bench.job(plain))
    assert (floors.rounding, floors.steps) == (True, (OutputStep(output="y", step=0.25),))
    assert floors.precision is Precision.INT8


def test_external_data_comes_along(bench: Bench) -> None:
    """The user's own file stays as it is."""
    plain = dense()
    held = plain.graph.initializer[0]
    data = bench.folder / "w.bin"
    data.write_bytes(held.raw_data)
    held.ClearField("raw_data")
    held.data_location = TensorProto.EXTERNAL
    held.external_data.add(key="location", value="w.bin")
    floors = bench.calibrator().floors(bench.job(plain), bench.job(plain))
    assert len(spreads(floors)) == 2
    assert data.stat().st_nlink == 1


def test_cases_of_any_name_are_told_apart(tmp_path: Path) -> None:
    """Also where one name continues another as ours do."""
    names = ["a", "a\n0", "a\n0\n1", "", "ä b"]
    bench = Bench(tmp_path, {name: {"x": normal(2, 4, seed=n)} for n, name in enumerate(names)})
    job = bench.job()
    floors = bench.calibrator("cache").floors(job, job)
    assert [case.case for case in floors.cases] == names
    assert len({spread.tobytes() for spread in spreads(floors)}) == len(names)


# Keeping.


def test_kept_floors_start_no_worker(bench: Bench) -> None:
    """The second run reads them, bit by bit."""
    job = bench.job()
    first = bench.calibrator("cache").floors(job, job)
    again = bench.calibrator("cache").floors(job, job)
    assert bench.starts == 1
    for left, right in zip(spreads(first), spreads(again), strict=True):
        np.testing.assert_array_equal(left, right)
    assert [c.outputs[0].peaks for c in first.cases] == [c.outputs[0].peaks for c in again.cases]


def test_what_differs_is_measured_anew(bench: Bench, tmp_path: Path) -> None:
    """Another model, another precision, another input; not another name of a case."""
    job = bench.job()
    bench.calibrator("cache").floors(job, job)
    bench.calibrator("cache").floors(bench.job(dense(0.4)), bench.job(dense(0.4)))
    assert bench.starts == 2
    gpu = bench.job(name="gpu", provider="CUDAExecutionProvider")
    bench.calibrator("cache").floors(bench.job(), gpu)
    assert bench.starts == 3
    values = {"renamed": CASES["one"], "changed": {"x": normal(5, 4, seed=99)}}
    bench.inputs = write_inputs(values.items(), tmp_path / "others", source="given")
    floors = bench.calibrator("cache").floors(bench.job(), bench.job())
    assert bench.starts == 4
    assert [case.case for case in floors.cases] == ["renamed", "changed"]
    assert floors.cases[0].outputs[0].file != floors.cases[1].outputs[0].file


DAMAGES = ("none", "garbage", "empty", "gone", "short", "peaks", "axis", "escape")


def damaged(record: Path, damage: str) -> None:
    """Do that to a kept entry."""
    held = next(record.parent.glob("*.f32"))
    text = record.read_text("utf-8")
    match damage:
        case "garbage":
            record.write_text("{")
        case "empty":
            record.write_text("")
        case "gone":
            held.unlink()
        case "short":
            held.write_bytes(held.read_bytes()[:-4])
        case "peaks":
            record.write_text(text.replace('"peaks":[', '"peaks":[0.5,'))
        case "axis":
            record.write_text(text.replace('"axis":null', '"axis":1'))
        case "escape":
            record.write_text(text.replace(held.name, "../../../../starts"))


def test_a_damaged_entry_is_measured_anew(tmp_path: Path) -> None:
    """And kept again; it is never taken for a floor, whatever is wrong with it."""
    bench = Bench(tmp_path, {d: {"x": normal(2, 4, seed=n)} for n, d in enumerate(DAMAGES)})
    job = bench.job()
    first = bench.calibrator("cache").floors(job, job)
    for record in sorted((tmp_path / "cache").rglob("floors.json")):
        name = next(d for d in DAMAGES if f'"case":"{d}"' in record.read_text("utf-8"))
        damaged(record, name)
    for starts in (4, 4):  # one worker for four cases
        again = bench.calibrator("cache").floors(job, job)
        assert bench.starts == starts
        for left, right in zip(spreads(first), spreads(again), strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(bench: Bench) -> None:
    """A file stands where its folder should be."""
    (bench.folder / "cache").write_text("in the way")
    job = bench.job()
    assert len(spreads(bench.calibrator("cache").floors(job, job))) == 2
    assert len(spreads(bench.calibrator("cache").floors(job, job))) == 2
    assert bench.starts == 2


def test_failures_are_not_kept(bench: Bench) -> None:
    """The next run tries them again, and them alone."""
    for expected in (1, 2):
        floors = bench.calibrator("cache").floors(bench.job(picky()), bench.job(picky()))
        assert list(failures(floors)) == ["two"]
        assert bench.starts == expected
    assert len(list((bench.folder / "cache").rglob("floors.json"))) == 1


# Where there is no floor.


@pytest.mark.parametrize("mode", ["refuses", "fails"])
def test_the_runtime_beside_us_helps_out(mode: str, tmp_path: Path) -> None:
    """Where the baseline's own cannot load the twin, or run a single case; it is asked once."""
    bench = Bench(tmp_path, {str(n): {"x": normal(2, 4, seed=n)} for n in range(6)})
    job = bench.job(mode=mode)
    floors = bench.calibrator().floors(job, job)
    assert len(spreads(floors)) == 6
    assert bench.starts == 1


def test_a_case_that_fails_has_a_reason_and_no_floor(bench: Bench) -> None:
    """The others keep theirs."""
    job = bench.job(picky())
    floors = bench.calibrator().floors(job, job)
    assert floors.failure == ""
    assert [len(case.outputs) for case in floors.cases] == [1, 0]
    assert failures(floors)["two"].startswith("perturbed runs failed: ")
    assert "Reshape" in failures(floors)["two"]


def test_a_model_that_no_runtime_loads_has_a_reason(bench: Bench) -> None:
    """For every case."""
    nodes = [node("Tanh", "x", "t"), node("NoSuchOperator", "t", "y", domain="nobody")]
    plain = model(nodes, [("x", FLOAT, None)], [("y", FLOAT, None)], domains={"nobody": 1})
    floors = bench.calibrator().floors(bench.job(plain), bench.job(plain))
    assert set(failures(floors)) == {"one", "two"}
    assert "no runtime loads the perturbed model" in failures(floors)["one"]


def test_a_model_that_hangs_is_given_up(tmp_path: Path) -> None:
    """After the first few cases: each further one would cost its whole time limit."""
    bench = Bench(tmp_path, {str(n): {"x": normal(2, 4)} for n in range(6)})
    job = bench.job(mode="hangs", timeout_s=1)
    floors = bench.calibrator("cache").floors(job, job)
    assert set(failures(floors).values()) == {"no perturbed run ended within 1 s"}
    assert len(failures(floors)) == 6
    assert bench.starts <= 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"no model", "not an ONNX model"),
        (model([node("Tanh", "x", "y")], [("x", FLOAT, None)], [("y", FLOAT, None)],
               opset=7).SerializeToString(), "opset 7"),
    ],
    ids=["pointer", "garbage", "old"],
)  # fmt: skip
def test_a_model_that_cannot_be_perturbed_has_a_reason(
    data: bytes, words: str, bench: Bench
) -> None:
    """Nothing is raised, and nothing is started."""
    calibrator = bench.calibrator("cache")
    for _ in range(2):
        floors = calibrator.floors(bench.job(data), bench.job(data))
        assert words in floors.failure
    assert bench.starts == 0


def test_a_program_that_is_gone_has_a_reason(bench: Bench) -> None:
    """It could not be started, once."""
    job = bench.job()
    launch = Launch(argv=(str(bench.folder / "gone"),), label="gone", environment="")
    lost = Job(launch=launch, model=job.model, target=job.target, timeout_s=5)
    calibrator = bench.calibrator()
    for _ in range(2):
        assert "cannot start" in calibrator.floors(lost, lost).failure


# Models that try to raise their own limit.


def judged(bench: Bench, plain: onnx.ModelProto, change: Any) -> tuple[Outcome, str]:
    """Return what is made of a candidate that changes the baseline's output of the first case."""
    job = bench.job(plain)
    floors = bench.calibrator().floors(job, job)
    import onnxruntime as ort

    feeds = dict(CASES["one"])
    baseline = ort.InferenceSession(str(job.model)).run(None, feeds)[0]
    limits = Limits(policy=policy({"tolerance": "calibrated"}), floors=floors)
    found = limits.of("one", "y", "y", baseline)
    assert isinstance(found, Calibrated), failures(floors)
    candidate = change(baseline.copy())
    measured = metrics.float_metrics(baseline, candidate, found.allowance)
    settled = found.settle(measured, candidate)
    return settled.outcome, settled.rule


def chaotic(factor: float, *after: onnx.NodeProto) -> onnx.ModelProto:
    """Return y = x + factor * ((x + 1) - x - 1), 0 but for rounding, times `factor`."""
    return model(
        [
            node("Mul", "x third", "a"), node("Mul", "a three", "b"), node("Sub", "b x", "d"),
            node("Mul", "d factor", "f"), *(after or [node("Add", "f x", "y")]),
        ],
        [("x", FLOAT, ["n", 4])], [("y", FLOAT, None)],
        [tensor("third", 1 / 3), tensor("three", 3.0), tensor("factor", factor)],
    )  # fmt: skip


@pytest.mark.parametrize("factor", [1e7, 1e12, 1e30])
def test_noise_that_drowns_the_output_is_no_pass(factor: float, bench: Bench) -> None:
    """However large it is: rounding alone moves such an output too far."""
    outcome, rule = judged(bench, chaotic(factor), lambda y: y * np.float32(1.01))
    assert outcome is not Outcome.PASS, rule


def test_noise_beside_an_output_of_zeros_is_no_pass(bench: Bench) -> None:
    """A ReLU shows nothing of it in the baseline."""
    plain = chaotic(1e20, node("Mul", "f f", "g"), node("Min", "g zero", "y"))
    plain.graph.initializer.append(tensor("zero", 0.0))
    del plain.graph.node[-2:]
    plain.graph.node.extend([node("Abs", "f", "g"), node("Mul", "g tiny", "h"),
                             node("Floor", "h", "y")])  # fmt: skip
    plain.graph.initializer.append(tensor("tiny", 1e-13))
    outcome, rule = judged(bench, plain, lambda y: y + np.float32(1.0))
    assert outcome is not Outcome.PASS, rule


def test_noise_that_is_no_number_is_no_pass(bench: Bench) -> None:
    """A root of what rounding alone makes negative."""
    plain = chaotic(1e30, node("Neg", "f", "n"), node("Sqrt", "n", "s"), node("Add", "s x", "y"))
    outcome, rule = judged(bench, plain, lambda y: y + np.float32(1.0))
    assert outcome is not Outcome.PASS, rule


def test_a_model_that_knows_the_seed_has_the_ladder(bench: Bench) -> None:
    """It could be calm in the baseline and wild in the perturbed runs."""
    plain = dense()
    plain.graph.initializer.append(tensor("ci_parity_noise_seed", 0.0))
    plain.graph.node.insert(0, node("Mul", "x ci_parity_noise_seed", "unused"))
    floors = bench.calibrator().floors(bench.job(plain), bench.job(plain))
    assert "a tensor called ci_parity_noise_seed" in floors.failure
