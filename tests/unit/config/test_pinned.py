"""A target whose runtime stands in a lock: `runtime: {requires: FILE}`."""

from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.load import load_deployment

CONFIG = """\
version: 1
variants: {exported: {path: m.onnx}}
targets: {cpu: {runtime: RUNTIME}}
fixtures: cases
"""


def runtime_of(root: Path, runtime: str) -> str:
    """Return the runtime of the only target of a config that spells it so."""
    path = root / "ci-parity.yml"
    path.write_text(CONFIG.replace("RUNTIME", runtime), encoding="utf-8")
    return load_deployment(path).targets[0].runtime


def pinned(root: Path, text: str, name: str = "requirements.txt") -> None:
    """Write a file of pins."""
    (root / name).write_text(text, encoding="utf-8")


def test_the_version_is_that_of_the_file(tmp_path: Path) -> None:
    """Whatever bumps the file bumps the runtime."""
    pinned(tmp_path, "numpy==2.4.0\nonnxruntime==1.31.1\n")
    assert runtime_of(tmp_path, "{requires: requirements.txt}") == "onnxruntime==1.31.1"
    pinned(tmp_path, "numpy==2.4.0\nonnxruntime==1.32.0\n")
    assert runtime_of(tmp_path, "{requires: requirements.txt}") == "onnxruntime==1.32.0"


def test_the_extras_are_those_of_the_file(tmp_path: Path) -> None:
    """CUDA's own wheels come with onnxruntime-gpu by them."""
    pinned(tmp_path, "onnxruntime-gpu[cudnn, cuda]==1.32.0\n")
    runtime = runtime_of(tmp_path, "{requires: requirements.txt, package: onnxruntime-gpu}")
    assert runtime == "onnxruntime-gpu[cuda,cudnn]==1.32.0"


def test_the_python_stands_beside_the_file(tmp_path: Path) -> None:
    """A lock says which version, not on which Python it serves."""
    pinned(tmp_path, "onnxruntime==1.31.1\n")
    runtime = runtime_of(tmp_path, '{requires: requirements.txt, python: "3.12"}')
    assert runtime == 'onnxruntime==1.31.1; python_version == "3.12"'


def test_a_package_can_be_named(tmp_path: Path) -> None:
    """Where a file pins several, and for runtimes that are no onnxruntime."""
    pinned(tmp_path, "onnxruntime==1.31.1\nonnxruntime-gpu==1.30.0\nopenvino==2026.4.1\n")
    for package, version in (("onnxruntime-gpu", "1.30.0"), ("openvino", "2026.4.1")):
        spelled = f"{{requires: requirements.txt, package: {package}}}"
        assert runtime_of(tmp_path, spelled) == f"{package}=={version}"


@pytest.mark.parametrize(
    ("text", "spelled", "said"),
    [
        ("numpy==2.4.0\n", "{requires: requirements.txt}", "it pins no onnxruntime"),
        ("onnxruntime>=1.30\n", "{requires: requirements.txt}", "it pins no onnxruntime"),
        (
            "onnxruntime==1.31.1\nonnxruntime-gpu==1.30.0\n",
            "{requires: requirements.txt}",
            "it pins onnxruntime-gpu==1.30.0 and onnxruntime==1.31.1",
        ),
        ("onnxruntime==1.31.1\n", "{requires: missing.txt}", "no runtime can be taken"),
        ("onnxruntime==1.31.1\n", "{requires: ../other.txt}", "no runtime can be taken"),
        ("onnxruntime==1.31.1\n", "{requires: requirements.txt, package: numpy}", "no runtime"),
        ("onnxruntime==1.31.1\n", "{requires: requirements.txt, version: 1}", "unknown key"),
    ],
)
def test_a_file_that_settles_no_runtime_is_refused(
    tmp_path: Path, text: str, spelled: str, said: str
) -> None:
    """None, several, a range, no file, one outside, and a package that is no runtime."""
    pinned(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        runtime_of(tmp_path, spelled)
    assert said in str(caught.value)
