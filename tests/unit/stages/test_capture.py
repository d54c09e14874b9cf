"""A capture on a small repository: NumPy is the source, every refusal has its script."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError, InfrastructureError
from ci_parity.base.progress import SilentProgress
from ci_parity.config.discover import find_deployment
from ci_parity.fixtures.manifest import load_manifest
from ci_parity.stages.capture import Capture, CapturedCase, CaptureOptions, capture
from ci_parity.stages.identify import fixtures_of
from tests.support.models import save_linear
from tests.support.source_repository import DOUBLE, LOADS, SourceRepository, doubled


@pytest.fixture
def repository(tmp_path: Path) -> SourceRepository:
    """Return a repository with two cases, batch and one, of y = 2 x."""
    return SourceRepository(tmp_path / "user")


def run(repository: SourceRepository, *cases: str, **options: Any) -> Capture:
    """Capture, and see that what is told is what is returned."""
    told: list[CapturedCase] = []
    wanted = CaptureOptions(root=repository.root, cases=cases, **options)
    done = capture(wanted, {}, SilentProgress(), told.append)
    assert tuple(told) == done.cases
    return done


def refusal(
    repository: SourceRepository, *cases: str, kind: type[CiParityError] = EvidenceError,
    **options: Any,
) -> CiParityError:  # fmt: skip
    """Return the error of a capture that must leave the fixture set as it was."""
    before = repository.snapshot()
    with pytest.raises(CiParityError) as caught:
        run(repository, *cases, **options)
    assert type(caught.value) is kind
    assert repository.snapshot() == before
    assert caught.value.where
    assert caught.value.remedy
    return caught.value


# What is stored.


def test_every_case_without_references_gets_them(repository: SourceRepository) -> None:
    """With all that was measured; a second capture finds nothing left to do."""
    deployment = find_deployment(repository.root)
    before = fixtures_of(deployment)[1].digest
    weights = repository.weights()
    repository.source(LOADS, checkpoint="w.npy")
    done = run(repository)
    assert [(case.name, case.outputs, case.change) for case in done.cases] == [
        ("batch", ("y float32[4, 3]",), ""), ("one", ("y float32[1, 3]",), ""),
    ]  # fmt: skip
    assert done.warnings == ()
    assert repository.references() == {"batch": {"y": doubled(4)}, "one": {"y": doubled(1)}}
    stored = load_manifest(repository.fixtures / "fixtures.yml").cases
    assert {case.provenance for case in stored} == {done.provenance}
    assert (done.provenance.version, done.provenance.repeat_max_abs) == (np.__version__, 0.0)
    assert done.provenance.checkpoint_sha256
    assert weights.exists()
    assert fixtures_of(deployment)[1].digest != before
    assert run(repository).cases == ()


def test_a_case_can_be_named(repository: SourceRepository) -> None:
    """The other one is left alone."""
    assert [case.name for case in run(repository, "one").cases] == ["one"]
    assert repository.references() == {"batch": {}, "one": {"y": doubled(1)}}


def test_references_are_replaced_on_demand_alone(repository: SourceRepository) -> None:
    """With how far the old ones are."""
    run(repository)
    repository.source(DOUBLE.replace("2 *", "np.float32(2.5) *"))
    assert run(repository).cases == ()
    assert "--replace" in refusal(repository, "one").remedy
    (case,) = run(repository, "one", replace=True).cases
    assert case.change == "the old references differ by at most 0.5, in y"
    changes = {case.name: case.change for case in run(repository, replace=True).cases}
    assert changes == {"one": "the old references are equal", "batch": case.change}


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (b"", "the old references cannot be read"),
        (None, "other references than before in z"),
    ],
)
def test_old_references_of_another_kind_are_said(
    repository: SourceRepository, old: bytes | None, said: str
) -> None:
    """Broken ones can be replaced, and so can those of outputs that are gone."""
    from ci_parity.records.messages import encode_proto

    path = repository.fixtures / "one" / "output_0.pb"
    path.write_bytes(encode_proto("z", np.ones(2, np.float32)) if old is None else old)
    (case,) = run(repository, "one", replace=True).cases
    assert case.change.startswith(said)
    assert repository.references()["one"] == {"y": doubled(1)}


def test_a_dry_run_stores_nothing(repository: SourceRepository) -> None:
    """It tells what a capture would."""
    before = repository.snapshot()
    assert [case.name for case in run(repository, dry_run=True).cases] == ["batch", "one"]
    assert repository.snapshot() == before


def test_what_was_stored_before_a_failure_stays_whole(repository: SourceRepository) -> None:
    """The second process dies between two cases: the first is stored, the next as it was."""
    code = (
        "import os, pathlib\n"
        "again = pathlib.Path('ran').exists()\n"
        "pathlib.Path('ran').touch()\n"
        "def predict(inputs):\n"
        "    if again and len(inputs['x']) == 1: os._exit(3)\n"
        "    return 2 * inputs['x']\n"
    )
    repository.source(code)
    with pytest.raises(InfrastructureError, match="exited with status 3"):
        run(repository)
    assert repository.references() == {"batch": {"y": doubled(4)}, "one": {}}
    (repository.root / "ran").unlink()
    repository.source()
    assert [case.name for case in run(repository).cases] == ["one"]


# Whether it repeats.


@pytest.mark.parametrize(
    "code",
    [
        "rng = np.random.default_rng()\nw = rng.random(3, 'f4')\ndef predict(inputs):\n    {}x * w",
        "rng = np.random.default_rng(0)\ndef predict(inputs):\n    {}x * rng.random(x.shape, 'f4')",
        "n = np.zeros((), 'f4')\ndef predict(inputs):\n    n[...] += 1\n    {}x * n",
    ],
    ids=["weights nobody loaded", "dropout behind a seed", "state of the case before"],
)
def test_an_unsteady_source_is_said_and_recorded(repository: SourceRepository, code: str) -> None:
    """Neither a seed nor a single case hides it."""
    repository.source("import numpy as np\n" + code.format("x = inputs['x']; return "))
    (case,) = run(repository, "one").cases
    assert case.repeat_max_abs > 0
    stored = load_manifest(repository.fixtures / "fixtures.yml").cases[1].provenance
    assert stored.repeat_max_abs == case.repeat_max_abs
    (warning,) = run(repository, "one", replace=True, dry_run=True).warnings
    assert warning.startswith("two runs of the source differ by up to ")


def test_answers_that_differ_in_kind_are_refused(repository: SourceRepository) -> None:
    """No number says how sure such a reference is."""
    code = "import os\ndef predict(inputs):\n    x = inputs['x']\n    x[0, 0] = {}\n    return x\n"
    code = code.format("float('nan') if os.path.exists('ran') else open('ran', 'w').close() or 0")
    repository.source(code)
    assert "from one run to the next" in refusal(repository, "one").what


def test_a_reference_that_is_no_number_is_counted(repository: SourceRepository) -> None:
    """It may be meant; it is stored."""
    repository.source("def predict(inputs):\n    return inputs['x'] + float('nan')\n")
    assert [case.nan for case in run(repository).cases] == [12, 3]


# What is refused.


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("{'y': inputs['x'].astype('f8')}", "it is float64, the model declares float32"),
        ("{}", "the source returned 0 outputs, the model has 1"),
        ("[inputs['x']] * 2", "the source returned 2 outputs, the model has 1"),
        ("{'y': inputs['x'], '': inputs['x']}", "the model has no output ''"),
        ("{1: inputs['x'], '1': inputs['x']}", "returned an output twice"),
        ("1 / 0", "ZeroDivisionError: division by zero (tools/reference.py, line 2)"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    repository: SourceRepository, returned: str, said: str
) -> None:
    """Never a cast, never a guess."""
    repository.source(f"def predict(inputs):\n    return {returned}\n")
    assert said in refusal(repository).what


@pytest.mark.parametrize("module", ["onnxruntime", "onnx.reference"])
def test_a_source_that_computes_with_onnx_is_refused(
    repository: SourceRepository, module: str
) -> None:
    """At the first case, whatever model it ran."""
    repository.source(f"import {module}\n{DOUBLE}")
    error = refusal(repository)
    assert error.what == (
        f"the source computed with {module}: a reference must come from the system before "
        "conversion"
    )
    assert "source.allow_onnx: true" in error.remedy


SESSION = """\
import onnxruntime
session = onnxruntime.InferenceSession({}, providers=["CPUExecutionProvider"])
def predict(inputs):
    return session.run(None, inputs)
"""


def test_an_onnx_model_may_be_the_source(repository: SourceRepository) -> None:
    """Where the config says so, and it is none of the deployment's own."""
    save_linear(repository.root / "source.onnx", weight=2.0, outputs=("original",))
    code = SESSION.format("'source.onnx'")
    repository.source(code, allow_onnx=True, framework="onnxruntime", checkpoint="source.onnx")
    done = run(repository)
    assert repository.references()["one"] == {"y": doubled(1)}
    assert done.warnings == ()
    assert done.provenance.checkpoint_sha256


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (SESSION.format("'model.onnx'"), "model.onnx of variant 'exported' was opened"),
        (SESSION.format("'int8.onnx'"), "int8.onnx of variant 'int8' was opened"),
        (SESSION.format("open('model.onnx', 'rb').read()"), "variant 'exported' was opened"),
        (SESSION.format("'copy.onnx'"), "copy.onnx was opened, which is variant 'exported' byte"),
        ("import onnx\nmodel = onnx.load('model.onnx')\n" + DOUBLE, "variant 'exported'"),
        ("data = open('copy.onnx', 'rb').read()\n" + DOUBLE, "byte for byte"),
    ],
    ids=["session", "other variant", "bytes", "copy", "weights", "copy's bytes"],
)
def test_a_reference_made_by_the_candidate_is_refused(
    repository: SourceRepository, code: str, said: str
) -> None:
    """Whoever opened the deployed model, or a copy of it, and whatever the config allows."""
    model = repository.root / "model.onnx"
    (repository.root / "copy.onnx").write_bytes(model.read_bytes())
    save_linear(repository.root / "int8.onnx", outputs=("y", "extra"))
    repository.source(code, allow_onnx=True, variants={"int8": {"path": "int8.onnx"}})
    error = refusal(repository)
    assert error.what.startswith("a reference made by the candidate is refused: ")
    assert said in error.what


def test_a_file_as_large_as_a_variant_is_no_copy(repository: SourceRepository) -> None:
    """To tell them apart the variant is not opened again, which would look like the source did."""
    size = (repository.root / "model.onnx").stat().st_size
    (repository.root / "other.bin").write_bytes(b"x" * size)
    repository.source(DOUBLE.replace("    return", "    open('other.bin').close()\n    return"))
    assert len(run(repository).cases) == 2


# What stays doubtful.


def test_an_unopened_checkpoint_is_no_provenance(repository: SourceRepository) -> None:
    """The warning says so; a digest of weights that nobody read would be a lie."""
    repository.weights()
    repository.source(checkpoint="w.npy")
    done = run(repository, "one")
    assert len(done.warnings) == 1
    assert "the checkpoint w.npy was never opened" in done.warnings[0]
    assert done.provenance.checkpoint_sha256 == ""


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        ("scikit-learn", "scikit-learn was not imported while the source ran"),
        ("our own", "no package 'our own' is installed there, its version is not known"),
    ],
)
def test_a_framework_that_did_not_run_is_said(
    repository: SourceRepository, framework: str, said: str
) -> None:
    """The provenance would name a system that computed nothing."""
    repository.source(framework=framework)
    assert run(repository, "one", dry_run=True).warnings == (said,)


# What cannot be captured at all.


def test_without_a_source_there_is_nothing_to_run(repository: SourceRepository) -> None:
    """The remedy shows how to name one."""
    text = (repository.root / "ci-parity.yml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("source:")]
    repository.user.write("ci-parity.yml", "\n".join(lines))
    assert "names no source" in refusal(repository, kind=ConfigError).what


def test_an_unknown_case_is_refused(repository: SourceRepository) -> None:
    """With the one that was probably meant."""
    assert refusal(repository, "bach").remedy == "did you mean 'batch'?"
    assert refusal(repository, "typical").remedy == "stored: batch, one"


def test_a_missing_script_or_checkpoint_is_refused(repository: SourceRepository) -> None:
    """Before anything runs."""
    repository.source(checkpoint="w.npy")
    assert refusal(repository).what == "there is no such checkpoint"
    repository.source()
    (repository.root / "tools" / "reference.py").unlink()
    assert refusal(repository, kind=ConfigError).what == "there is no such script"


def test_a_hanging_source_is_ended(repository: SourceRepository) -> None:
    """By the policy's time limit."""
    repository.source("def predict(inputs):\n    while True: pass\n")
    repository.user.replace("ci-parity.yml", "timeout_s: 60", "timeout_s: 2")
    assert "within 2 s" in refusal(repository, kind=InfrastructureError).what
