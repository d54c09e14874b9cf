from pathlib import Path

import pytest

from ci_parity.base import process
from ci_parity.base.errors import ConfigError, InfrastructureError
from ci_parity.base.process import Completed
from ci_parity.config.runtimes import python_of
from ci_parity.run.environments import built, cache_folder, parse_requirement, provide


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("onnxruntime==1.32.0", "onnxruntime", "==1.32.0"),
        (" onnxruntime == 1.32.0 ", "onnxruntime", "==1.32.0"),
        ("onnxruntime-gpu==1.20.1", "onnxruntime-gpu", "==1.20.1"),
        ("onnxruntime-gpu[cuda,cudnn]==1.32.0", "onnxruntime-gpu", "==1.32.0"),
        ("onnxruntime-openvino==1.22.0", "onnxruntime-openvino", "==1.22.0"),
        ("onnxruntime==1.33.0.dev20261101001", "onnxruntime", "==1.33.0.dev20261101001"),
        ("onnxruntime==1.32.0+cu12", "onnxruntime", "==1.32.0+cu12"),
        ("openvino==2026.4.1", "openvino", "==2026.4.1"),
        ("openvino==2023.1.0", "openvino", "==2023.1.0"),
        ("tract==0.23.0", "tract", "==0.23.0"),
        ("onnx==1.14.0", "onnx", "==1.14.0"),
    ],
)
def test_one_version_of_a_runtime_is_a_runtime(text: str, name: str, version: str) -> None:
    """Released, nightly or local, of any distribution that has a worker."""
    found = parse_requirement(text)
    assert (found.name, str(found.specifier)) == (name, version)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("onnxruntime", "does not pin one version"),
        ("onnxruntime>=1.32.0", "does not pin one version"),
        ("onnxruntime~=1.32.0", "does not pin one version"),
        ("onnxruntime!=1.32.0", "does not pin one version"),
        ("onnxruntime===1.32.0", "does not pin one version"),
        ("onnxruntime==1.32.*", "does not pin one version"),
        ("onnxruntime==1.32.0,<2", "does not pin one version"),
        ("onnxruntime==1.32.0,==1.31.0", "does not pin one version"),
        ("onnxruntime==1.32.0; python_version < '4'", "a marker that chooses no Python"),
        ("onnxruntime==1.32.0; sys_platform == 'linux'", "a marker that chooses no Python"),
        ("onnxruntime==1.32.0; python_version == '4.1'", "a marker that chooses no Python"),
        ("onnxruntime @ https://example.com/onnxruntime-1.32.0.whl", "does not pin one version"),
        ("onnxruntime @ file:///tmp/onnxruntime-1.32.0.whl", "does not pin one version"),
        ("numpy==2.0.0", "no worker for runtime 'numpy'"),
        ("my-onnxruntime==1.0", "no worker for runtime"),
        ("torch", "no worker for runtime"),
        ("onnxruntime==", "is not a requirement"),
        ("onnxruntime 1.32.0", "is not a requirement"),
        ("./onnxruntime.whl", "is not a requirement"),
        ("-r requirements.txt", "is not a requirement"),
        ("--index-url=https://example.com onnxruntime==1.32.0", "is not a requirement"),
        ("onnxruntime==1.32.0 --pre", "is not a requirement"),
        ("onnxruntime==1.32.0\nnumpy==1.0", "is not a requirement"),
        ("onnxruntime==1.32.0 # comment", "is not a requirement"),
        ("", "is not a requirement"),
    ],
)
def test_anything_else_is_refused(text: str, said: str) -> None:
    """Ranges, addresses, markers, options, files and other packages; the error shows the way."""
    with pytest.raises(ConfigError) as caught:
        parse_requirement(text)
    assert said in caught.value.what
    assert "onnxruntime==1.32.0" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "oldest"),
    [
        ("tract==0.22.4", "tract==0.23.0"),
        ("openvino==2023.0.2", "openvino==2023.1.0"),
        ("onnx==1.13.1", "onnx==1.14.0"),
    ],
)
def test_a_version_that_no_worker_can_drive_is_refused(text: str, oldest: str) -> None:
    """Before anything is installed; the oldest one is named."""
    with pytest.raises(ConfigError) as caught:
        parse_requirement(text)
    assert caught.value.remedy == f"pin {oldest} or later"


def test_a_requirement_may_ask_for_a_python() -> None:
    """By its marker, which has one spelling wherever the runtime is named."""
    found = parse_requirement("onnxruntime==1.20.1 ;python_version=='3.12'")
    assert str(found) == 'onnxruntime==1.20.1; python_version == "3.12"'
    assert python_of(str(found)) == "3.12"
    assert python_of("onnxruntime==1.20.1") == python_of("current") == ""


def test_extras_are_resolved_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What uv is asked for is all that was asked for, of whatever Python."""
    asked = []

    def run(argv: list[object], **_: object) -> Completed:
        asked.append(Path(str(argv[-1])).read_text(encoding="utf-8"))
        return Completed(argv=(), returncode=1, stdout=b"", stderr=b"no such version")

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(InfrastructureError, match="no such version"):
        provide("onnxruntime-gpu[cudnn,cuda]==1.32.0", cache=tmp_path)
    assert asked == ["onnxruntime-gpu[cuda,cudnn]==1.32.0\nnumpy\n"]


def test_the_runtimes_are_named(tmp_path: Path) -> None:
    """Whoever asks for another package sees which there are."""
    with pytest.raises(ConfigError) as caught:
        built("torch==2.0.0", cache=tmp_path)
    for name in ("onnxruntime-gpu", "openvino", "tract", "onnx"):
        assert name in caught.value.remedy


def test_the_cache_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given relative, it is absolute: workers start in folders of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CI_PARITY_CACHE", "cache")
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("CI_PARITY_CACHE")
    assert cache_folder().is_absolute()
    assert "ci-parity" in cache_folder().parts
