"""The facts of installed runtimes: built folders, the interpreter that runs this, and variables."""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.detect.runtime_words import explain_runtime
from ci_parity.records.facts import ABSENT, EMPTY, Facts
from ci_parity.run.facts import environment_variable_facts, runtime_facts

HASH = "7634f50c427838bb021c2d66a3d1168e9d199b0607e6329399f04846d42e20b4"
LOCK = f"""\
numpy==2.3.0 \\
    --hash=sha256:{"0" * 64} \\
    --hash=sha256:{"1" * 64}
onnxruntime==1.31.1 \\
    --hash=sha256:{HASH}
"""
CAPI = "onnxruntime/capi"
PYBIND = f"{CAPI}/onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so"


class Environment:
    """An environment as uv leaves it, made of a few files."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.site = prefix / "lib" / "python3.11" / "site-packages"
        self.site.mkdir(parents=True)
        self.python = prefix / "bin" / "python"
        (prefix / "pyvenv.cfg").write_text("implementation = CPython\nversion_info = 3.11.7\n")
        (prefix / "ci-parity-complete").write_text(LOCK)
        self.install("numpy", "2.3.0", {"numpy/__init__.py": b"numpy"})
        self.runtime("1.31.1")

    def runtime(
        self, version: str, *, cuda: bytes = b"", extra: Mapping[str, bytes] | None = None
    ) -> None:
        """Install onnxruntime with three libraries, and a CUDA provider where `cuda` is given."""
        files = {
            "onnxruntime/__init__.py": version.encode(),
            f"{CAPI}/libonnxruntime.so.{version}": b"library " + version.encode(),
            f"{CAPI}/libonnxruntime_providers_shared.so": b"shared",
            PYBIND: b"pybind " + version.encode(),
        }
        if cuda:
            files[f"{CAPI}/libonnxruntime_providers_cuda.so"] = cuda
        self.install("onnxruntime", version, files | dict(extra or {}))

    def install(
        self, name: str, version: str, files: Mapping[str, bytes], *, requires: str = "",
        installer: str = "uv", tag: str = "cp311-cp311-manylinux_2_28_x86_64",
    ) -> None:  # fmt: skip
        """Write a package and its dist-info in place of any of the same name."""
        for old in self.site.glob(f"{name}-*.dist-info"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}\n\nText."
        wheel = f"Wheel-Version: 1.0\nTag: {tag}\n"
        files = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
        rows = []
        for path, content in files.items():
            file = self.site / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            rows.append(f"{path},sha256={digest},{len(content)}")
        rows.append(f"../../../bin/{name},sha256={installer},{len(installer)}")
        rows.append(f"{info}/INSTALLER,sha256={installer},{len(installer)}")
        rows.append(f"{info}/RECORD,,")
        (self.site / info / "RECORD").write_text("\n".join(reversed(rows)) + "\n")

    def facts(self, *, measure: bool = False, lock: str = "") -> Facts:
        """Return the environment's facts."""
        return runtime_facts(self.python, lock, measure=measure)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """Return an environment with onnxruntime 1.31.1."""
    return Environment(tmp_path / "environment")


def test_an_environment_is_recorded_to_the_byte(environment: Environment) -> None:
    """Versions, tags, contents, the lock's hash where it is the wheel's, and every library."""
    facts = environment.facts(lock=LOCK)
    assert facts["python"] == "3.11.7"
    assert (facts["package.onnxruntime"], facts["package.numpy"]) == ("1.31.1", "2.3.0")
    assert facts["package.onnxruntime.wheel"] == "cp311-cp311-manylinux_2_28_x86_64"
    assert facts["package.onnxruntime.sha256"] == HASH
    assert "package.numpy.sha256" not in facts
    assert facts["build.cuda"] == ABSENT
    libraries = {key: value for key, value in facts.items() if key.startswith("library.")}
    assert libraries == {
        "library.libonnxruntime.so": hashlib.sha256(b"library 1.31.1").hexdigest(),
        "library.libonnxruntime_providers_shared.so": hashlib.sha256(b"shared").hexdigest(),
        "library.onnxruntime_pybind11_state.so": hashlib.sha256(b"pybind 1.31.1").hexdigest(),
    }


def test_the_installer_and_the_folder_leave_no_trace(
    environment: Environment, tmp_path: Path
) -> None:
    """The same wheels, installed by another tool elsewhere, are the same facts."""
    other = Environment(tmp_path / "other")
    other.install("numpy", "2.3.0", {"numpy/__init__.py": b"numpy"}, installer="pip at last")
    assert other.facts(lock=LOCK) == environment.facts(lock=LOCK)


def test_one_byte_of_a_wheel_is_another_content(environment: Environment) -> None:
    """A rebuilt wheel under the same version is seen."""
    before = environment.facts()
    environment.install("numpy", "2.3.0", {"numpy/__init__.py": b"Numpy"})
    after = environment.facts()
    assert before["package.numpy"] == after["package.numpy"]
    assert explain_runtime(before, after) == ("numpy changed under the same version",)


def test_a_patched_library_is_found_by_its_size_or_by_measuring(environment: Environment) -> None:
    """RECORD is believed for a file of its size; a measurement believes nothing."""
    before = environment.facts()
    library = environment.site / CAPI / "libonnxruntime_providers_shared.so"
    library.write_bytes(b"Shared")
    assert environment.facts() == before
    said = ("libonnxruntime_providers_shared.so changed under the same version",)
    assert explain_runtime(before, environment.facts(measure=True)) == said
    library.write_bytes(b"patched")
    assert explain_runtime(before, environment.facts()) == said


def test_a_library_nobody_recorded_is_a_fact(environment: Environment) -> None:
    """What a user drops beside the provider libraries is loaded, and so it is recorded."""
    before = environment.facts()
    (environment.site / CAPI / "libmy_provider.so").write_bytes(b"mine")
    after = environment.facts()
    assert explain_runtime(before, after) == ("libmy_provider.so appeared under the same version",)
    (environment.site / CAPI / "libonnxruntime.so.1.31.1").unlink()
    assert environment.facts()["library.libonnxruntime.so"] == ABSENT


def test_measured_digests_are_kept_beside_the_mark(environment: Environment) -> None:
    """A second measurement reads no library; a changed one is read again."""
    first = environment.facts(measure=True)
    kept = environment.prefix / "ci-parity-libraries.json"
    entries = json.loads(kept.read_text())
    assert len(entries) == 3
    marked = {path: [size, stamp, "kept"] for path, (size, stamp, _) in entries.items()}
    kept.write_text(json.dumps(marked))
    assert environment.facts(measure=True)["library.libonnxruntime.so"] == "kept"
    library = environment.site / CAPI / "libonnxruntime.so.1.31.1"
    os.utime(library, ns=(0, 0))
    again = environment.facts(measure=True)["library.libonnxruntime.so"]
    assert again == first["library.libonnxruntime.so"]


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": [1, 2]}', '{"a": ["x", 2, "y"]}'])
def test_a_damaged_keep_is_measured_again(environment: Environment, text: str) -> None:
    """What was kept is a shortcut, never evidence."""
    first = environment.facts(measure=True)
    (environment.prefix / "ci-parity-libraries.json").write_text(text)
    assert environment.facts(measure=True) == first


def test_nothing_is_kept_in_a_folder_that_is_not_ours(environment: Environment) -> None:
    """Without our completion mark nothing is written."""
    (environment.prefix / "ci-parity-complete").unlink()
    environment.facts(measure=True)
    assert not (environment.prefix / "ci-parity-libraries.json").exists()


def test_a_gpu_wheel_says_what_it_was_built_for(environment: Environment) -> None:
    """Build literals are parsed, never run; NVIDIA's own wheels are packages like any other."""
    info = b"package_name = 'onnxruntime-gpu'\n__version__ = '1.27.0'\ncuda_version = '13.0'\n"
    trap = b"import sys\nsys.exit(7)\n"
    files = {f"{CAPI}/build_and_package_info.py": info + trap}
    environment.runtime("1.27.0", cuda=b"cuda", extra=files)
    environment.install("nvidia_cudnn_cu13", "9.14.0", {"nvidia/cudnn/lib/libcudnn.so.9": b"x"})
    facts = environment.facts()
    assert facts["build.cuda"] == "13.0"
    assert facts["package.nvidia-cudnn-cu13"] == "9.14.0"
    assert "library.libonnxruntime_providers_cuda.so" in facts
    assert "library.libcudnn.so" not in facts


def test_a_build_file_that_is_no_python_fails_visibly(environment: Environment) -> None:
    """A file that is there and cannot be read is not absent."""
    environment.runtime("1.31.1", extra={f"{CAPI}/build_and_package_info.py": b"cuda_version = ("})
    assert environment.facts()["build.cuda"].startswith("failed: ")


@pytest.mark.parametrize(
    ("lock", "key", "value"),
    [
        (LOCK.replace("2.3.0", "2.4.0"), "package.numpy", "failed: the lock pins 2.4.0, 2.3.0 is"),
        (f"{LOCK}sympy==1.14.0\n", "package.sympy", ABSENT),
    ],
)
def test_what_is_installed_is_held_against_the_lock(
    environment: Environment, lock: str, key: str, value: str
) -> None:
    """An environment that is not what its lock says cannot pass for it."""
    assert environment.facts(lock=lock)[key].startswith(value)


def test_a_broken_record_is_a_failed_fact(environment: Environment) -> None:
    """An installation that cannot be read says so where its digests would be."""
    (environment.site / "onnxruntime-1.31.1.dist-info" / "RECORD").write_text("a,b\n")
    facts = environment.facts()
    assert facts["package.onnxruntime.content"].startswith("failed: ")
    assert facts["library"].startswith("failed: ")
    (environment.site / "onnxruntime-1.31.1.dist-info" / "RECORD").unlink()
    assert environment.facts()["package.onnxruntime.content"] == ABSENT


def test_without_a_lock_the_runtime_and_what_it_requires_count(environment: Environment) -> None:
    """A tool that happens to be installed beside it is none of its business."""
    requires = 'Requires-Dist: flatbuffers\nRequires-Dist: sympy; extra == "symbolic"'
    environment.install("onnxruntime", "1.31.1", {"onnxruntime/a.py": b""}, requires=requires)
    for name in ("flatbuffers", "sympy", "pytest"):
        environment.install(name, "1.0", {f"{name}/a.py": b""})
    names = [
        key for key in environment.facts() if key.count(".") == 1 and key.startswith("package")
    ]
    assert names == ["package.flatbuffers", "package.numpy", "package.onnxruntime"]


def test_an_interpreter_without_packages_is_refused(tmp_path: Path) -> None:
    """A folder that was half removed says how to get it back."""
    with pytest.raises(InfrastructureError) as caught:
        runtime_facts(tmp_path / "bin" / "python", "")
    assert "built again" in caught.value.remedy


def test_a_windows_layout_is_understood(tmp_path: Path) -> None:
    """There the packages lie in Lib and the libraries end in dll and pyd."""
    made = Environment(tmp_path / "posix")
    made.install(
        "onnxruntime",
        "1.31.1",
        {f"{CAPI}/onnxruntime.dll": b"a", f"{CAPI}/onnxruntime_pybind11_state.pyd": b"b"},
    )
    prefix = tmp_path / "windows"
    prefix.mkdir()
    (prefix / "Lib").mkdir()
    made.site.rename(prefix / "Lib" / "site-packages")
    facts = runtime_facts(prefix / "Scripts" / "python.exe", "")
    assert "library.onnxruntime.dll" in facts
    assert facts["python"] == ABSENT


def test_the_interpreter_that_runs_this_is_read_in_full() -> None:
    """The real onnxruntime beside us has all its facts, and RECORD's digests are its bytes'."""
    facts = runtime_facts(Path(sys.executable), "")
    assert facts["python"] == sys.version.split()[0]
    assert [key for key in facts if key.startswith("library.")]
    assert "package.numpy" in facts
    assert not [value for value in facts.values() if value.startswith("failed")]
    assert runtime_facts(Path(sys.executable), "", measure=True) == facts


def test_the_variables_that_change_results_are_recorded() -> None:
    """By family and by name; set to nothing is not absent, and other variables are left alone."""
    facts = environment_variable_facts(
        {
            "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "", "NVIDIA_TF32_OVERRIDE": "0",
            "MKL_CBWR": "AVX2\x1b[0m", "HOME": "/h", "GITHUB_TOKEN": "t", "CUDA_CACHE_PATH": "/c",
        }
    )  # fmt: skip
    assert facts == {
        "environment.CUDA_VISIBLE_DEVICES": EMPTY,
        "environment.MKL_CBWR": "AVX2\\x1b[0m",
        "environment.NVIDIA_TF32_OVERRIDE": "0",
        "environment.OMP_NUM_THREADS": "4",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ORT_HUB_TOKEN", "hunter2"),
        ("MIGRAPHX_API_KEY", "hunter2"),
        ("ORT_MIRROR", "https://user:hunter2@host/path"),
    ],
)
def test_secrets_are_not_recorded(name: str, value: str) -> None:
    """Neither a secret's variable nor one in an address leaks into a public record."""
    facts = environment_variable_facts({name: value})
    assert "hunter2" not in facts[f"environment.{name}"]


def bump(environment: Environment) -> None:
    """Install a new release, whose libraries are all new."""
    environment.runtime("1.32.0")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (bump, ("onnxruntime 1.31.1 → 1.32.0",)),
        (
            lambda e: e.install("numpy", "2.4.0", {"numpy/__init__.py": b"numpy"}),
            ("numpy 2.3.0 → 2.4.0 (dependency)",),
        ),
        (
            lambda e: e.runtime("1.31.1", cuda=b"other"),
            ("libonnxruntime_providers_cuda.so changed under the same version",),
        ),
        (
            lambda e: e.install("numpy", "2.3.0", {"numpy/__init__.py": b"numpy"}, tag="musl"),
            ("numpy changed under the same version (cp311-cp311-manylinux_2_28_x86_64 → musl)",),
        ),
        (
            lambda e: e.install("nvidia_cudnn_cu12", "9.1", {"nvidia/a": b""}),
            ("nvidia-cudnn-cu12 9.1 added (dependency)",),
        ),
        (
            lambda e: (e.prefix / "pyvenv.cfg").write_text("version = 3.12.1\n"),
            ("Python 3.11.7 → 3.12.1",),
        ),
    ],
)
def test_each_difference_is_one_sentence(
    environment: Environment, change: Callable[[Environment], object], said: tuple[str, ...]
) -> None:
    """What follows from a change is not said beside it."""
    environment.runtime("1.31.1", cuda=b"cuda")
    before = environment.facts()
    change(environment)
    after = environment.facts()
    assert explain_runtime(before, after) == said


def test_variables_are_said_by_their_names() -> None:
    """A variable that comes, goes or changes names both sides."""
    before = environment_variable_facts({"MKL_CBWR": "AVX2"})
    after = environment_variable_facts({"MKL_CBWR": "SSE4_2", "OMP_NUM_THREADS": "4"})
    assert explain_runtime(before, after) == (
        "MKL_CBWR AVX2 → SSE4_2",
        "OMP_NUM_THREADS absent → 4",
    )


def test_no_difference_is_ever_silent(environment: Environment) -> None:
    """Whichever single fact changes, there is a sentence for it."""
    facts = dict(environment.facts(lock=LOCK)) | {"environment.OMP_NUM_THREADS": "1"}
    assert explain_runtime(facts, dict(facts)) == ()
    changed = ({**facts, key: "something else"} for key in facts)
    assert [
        key for key, other in zip(facts, changed, strict=True) if not explain_runtime(facts, other)
    ] == []
