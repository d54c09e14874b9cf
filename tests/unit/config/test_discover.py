from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.config.discover import find_deployment
from ci_parity.config.load import policy
from ci_parity.config.pinned import pinned_runtime

CONFIG = "version: 1\nvariants: {exported: {path: m.onnx}}\nfixtures: cases\n"


def model(root: Path, folder: str, beside: str = "test_data_set_0/input_0.pb") -> Path:
    """Write a model in the ONNX test layout."""
    path = root / folder / "model.onnx"
    (path.parent / beside).parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"onnx")
    (path.parent / beside).write_bytes(b"")
    return path


def requirements(root: Path, text: str, file: str = "requirements.txt") -> None:
    """Write a requirement file."""
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text, encoding="utf-8")


def refusal(root: Path, config: str = "") -> ConfigError:
    """Return the error of a repository without a deployment."""
    with pytest.raises(ConfigError) as caught:
        find_deployment(root, config)
    return caught.value


@pytest.mark.parametrize("beside", ["test_data_set_0/input_0.pb", "fixtures.yml"])
def test_a_model_in_the_test_layout_is_a_deployment(tmp_path: Path, beside: str) -> None:
    """One variant on one target, judged by the defaults."""
    path = model(tmp_path, "models/digits", beside)
    found = find_deployment(tmp_path)
    assert (found.name, found.root) == ("digits", tmp_path)
    assert found.origin == "models/digits (discovered)"
    assert [(v.name, v.path) for v in found.variants] == [("exported", path)]
    assert [(t.name, t.runtime) for t in found.targets] == [("cpu", "current")]
    assert found.fixtures == path.parent
    assert found.policy == policy({})
    assert found.release.log == ""


def test_a_model_at_the_top_is_a_deployment(tmp_path: Path) -> None:
    """The repository's own folder gives the name."""
    root = tmp_path / "reader"
    path = model(root, ".")
    found = find_deployment(root)
    assert (found.name, found.variants[0].path.resolve()) == ("reader", path.resolve())


@pytest.mark.parametrize(
    ("folder", "name"),
    [("mein Modell", "mein-Modell"), (".hidden/x", ""), ("größe", "gr--e"), ("...", ""),
     ("_x", "x"), ("x" * 100, "x" * 64), ("模型", "model")],
)  # fmt: skip
def test_a_folder_gives_a_valid_name(tmp_path: Path, folder: str, name: str) -> None:
    """Whatever it is called; hidden folders are not looked into."""
    model(tmp_path, folder)
    if name:
        assert find_deployment(tmp_path).name == name
    else:
        assert "no model with fixtures" in refusal(tmp_path).what


def test_a_config_precedes_discovery(tmp_path: Path) -> None:
    """What the team wrote counts."""
    model(tmp_path, "models/digits")
    (tmp_path / "ci-parity.yml").write_text(CONFIG, encoding="utf-8")
    assert find_deployment(tmp_path).origin == "ci-parity.yml"


def test_a_named_config_is_taken(tmp_path: Path) -> None:
    """Its paths start from its own folder."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "edge.yml").write_text(CONFIG, encoding="utf-8")
    found = find_deployment(tmp_path, "deploy/edge.yml")
    assert (found.origin, found.root) == ("edge.yml", tmp_path / "deploy")


def test_a_named_config_must_exist(tmp_path: Path) -> None:
    """Discovery does not stand in for a file somebody asked for."""
    model(tmp_path, "models/digits")
    assert refusal(tmp_path, "edge.yml").what == "no such config file: edge.yml"


def test_a_broken_config_is_not_passed_over(tmp_path: Path) -> None:
    """A model in the test layout does not excuse it."""
    model(tmp_path, "models/digits")
    (tmp_path / "ci-parity.yml").write_text("version: 2", encoding="utf-8")
    assert "problems in the config" in refusal(tmp_path).what


@pytest.mark.parametrize("files", [(), ("models/m/model.onnx",), ("models/m/test_data_set_0/x",)])
def test_without_model_and_cases_the_next_step_is_shown(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """A model alone is no deployment, nor are cases alone."""
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_bytes(b"")
    error = refusal(tmp_path)
    assert error.what == "no ci-parity.yml and no model with fixtures"
    assert "ci-parity init" in error.remedy
    assert "test_data_set_0" in error.remedy


def test_two_models_ask_for_a_choice(tmp_path: Path) -> None:
    """Both are named, sorted, with the command that chooses one."""
    model(tmp_path, "models/b")
    model(tmp_path, "models/a")
    error = refusal(tmp_path)
    assert "2 models with fixtures" in error.what
    assert error.what.endswith("models/a, models/b")
    assert "ci-parity init models/a/model.onnx" in error.remedy


@pytest.mark.parametrize(
    "folder", [".git/x", ".venv/x", "node_modules/x", "venv/x", "a/site-packages/x"]
)
def test_foreign_folders_are_not_searched(tmp_path: Path, folder: str) -> None:
    """The test models of an installed package are not this repository's."""
    model(tmp_path, folder)
    model(tmp_path, "models/own")
    assert find_deployment(tmp_path).name == "own"


def test_a_link_in_a_circle_is_not_followed(tmp_path: Path) -> None:
    """A folder that holds itself is one folder."""
    model(tmp_path, "models/own")
    (tmp_path / "models" / "own" / "again").symlink_to(tmp_path)
    assert find_deployment(tmp_path).name == "own"


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        ("onnxruntime==1.32.0\n", "onnxruntime==1.32.0"),
        ("numpy\nonnxruntime-gpu==1.20.1 \\\n    --hash=sha256:00\n", "onnxruntime-gpu==1.20.1"),
        ("onnxruntime==1.32.0 ; python_version < '4'  # pin\r\n", "onnxruntime==1.32.0"),
        ("onnxruntime==1.32.0 --hash=sha256:00\n", "onnxruntime==1.32.0"),
        ("onnxruntime==1.32.0#egg\n", "current"),
        ("onnxruntime==1.32.0 ; sys_platform == 'no-such'\n", "current"),
        ("onnxruntime @ https://example.com/onnxruntime-1.32.0.whl\n", "current"),
        ("openvino==2026.4.1\n", "current"),
        ("onnxruntime==1.32.0\nonnxruntime==1.32.0\n", "onnxruntime==1.32.0"),
        ("onnxruntime==1.32.0\nonnxruntime==1.31.0\n", "current"),
        ("onnxruntime==1.32.0\nonnxruntime-gpu==1.32.0\n", "current"),
        ("onnxruntime>=1.32.0\n", "current"),
        ("onnxruntime==1.*\n", "current"),
        ("onnxruntime==1.32.*\n", "current"),
        ("onnxruntime==1.32.0,<2\n", "current"),
        ("# onnxruntime==1.32.0\n", "current"),
        ("my-onnxruntime==1.32.0\n", "current"),
        ("onnxruntime-extensions2==1.0\n", "current"),
        ("onnxruntime\n", "current"),
        ("", "current"),
    ],
)
def test_the_pinned_runtime_is_the_one_that_runs(tmp_path: Path, text: str, runtime: str) -> None:
    """One exact version, or the one at hand."""
    requirements(tmp_path, text)
    assert pinned_runtime(tmp_path) == runtime


LOCKS = {
    "uv.lock": 'version = 1\n[[package]]\nname = "onnxruntime"\nversion = "1.30.0"\n'
    'source = { registry = "https://example.com/simple" }\n',
    "poetry.lock": '[[package]]\nname = "onnxruntime"\nversion = "1.30.0"\n'
    'optional = false\npython-versions = ">=3.10"\ngroups = ["main"]\nfiles = []\n'
    '[metadata]\nlock-version = "2.1"\npython-versions = "*"\ncontent-hash = "00"\n',
    "pylock.toml": 'lock-version = "1.0"\ncreated-by = "uv"\n'
    '[[packages]]\nname = "onnxruntime"\nversion = "1.30.0"\n',
    "Pipfile.lock": '{"_meta": {"pipfile-spec": 6}, '
    '"default": {"onnxruntime": {"version": "==1.30.0"}}}',
    "pyproject.toml": '[project]\nname = "x"\ndependencies = ["onnxruntime==1.30.0"]\n',
}


@pytest.mark.parametrize("name", LOCKS)
def test_every_lock_format_is_seen(tmp_path: Path, name: str) -> None:
    """Whichever tool wrote it."""
    requirements(tmp_path, LOCKS[name], name)
    assert pinned_runtime(tmp_path) == "onnxruntime==1.30.0"


def test_a_lock_precedes_what_is_asked_for(tmp_path: Path) -> None:
    """A lock says what runs; requirement files may say what was wished for."""
    requirements(tmp_path, LOCKS["uv.lock"], "uv.lock")
    requirements(tmp_path, "onnxruntime==1.32.0\n")
    assert pinned_runtime(tmp_path) == "onnxruntime==1.30.0"


def test_included_requirements_are_read(tmp_path: Path) -> None:
    """A constraint pins what a requirement asks for, and nothing by itself."""
    requirements(tmp_path, "onnxruntime==1.31.0\n", "constraints/all.txt")
    requirements(tmp_path, "-c constraints/all.txt\nnumpy\n")
    assert pinned_runtime(tmp_path) == "current"
    requirements(tmp_path, "-r base.in\n-c constraints/all.txt\n")
    requirements(tmp_path, "onnxruntime\n", "base.in")
    assert pinned_runtime(tmp_path) == "onnxruntime==1.31.0"


def test_pins_further_down_are_not_the_repositorys(tmp_path: Path) -> None:
    """An example's requirements say nothing about production."""
    requirements(tmp_path, "onnxruntime==1.20.0\n", "examples/requirements.txt")
    assert pinned_runtime(tmp_path) == "current"


def test_a_lock_that_cannot_be_read_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The next file counts, and the log names the one that was passed over."""
    requirements(tmp_path, "[[package", "uv.lock")
    requirements(tmp_path, "onnxruntime==1.32.0\n")
    assert pinned_runtime(tmp_path) == "onnxruntime==1.32.0"
    assert "no runtime is taken from uv.lock" in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("onnxruntime==1.32.0\nonnxruntime-gpu==1.31.0\n",
         "it pins onnxruntime-gpu==1.31.0 and onnxruntime==1.32.0"),
        ("onnxruntime==1.32.0\nonnxruntime==1.31.0\n",
         "onnxruntime is pinned as 1.32.0 and as 1.31.0"),
    ],
)  # fmt: skip
def test_pins_that_leave_it_open_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    """Which of them runs in production, only the team knows; the next file counts."""
    requirements(tmp_path, text)
    assert pinned_runtime(tmp_path) == "current"
    assert said in caplog.text
    requirements(tmp_path, LOCKS["pyproject.toml"], "pyproject.toml")
    assert pinned_runtime(tmp_path) == "onnxruntime==1.30.0"


def test_requirement_files_are_read_in_order(tmp_path: Path) -> None:
    """The first that pins one version counts."""
    requirements(tmp_path, "onnxruntime>=1\n")
    requirements(tmp_path, "onnxruntime==1.31.0\n", "requirements.lock")
    requirements(tmp_path, "onnxruntime==1.32.0\n", "requirements/runtime.txt")
    assert pinned_runtime(tmp_path) == "onnxruntime==1.31.0"


def test_a_requirement_file_that_is_no_text_pins_nothing(tmp_path: Path) -> None:
    """Bytes of another encoding are passed over."""
    (tmp_path / "requirements.txt").write_bytes("onnxruntime==1.32.0".encode("utf-16"))
    assert pinned_runtime(tmp_path) == "current"


def test_a_discovered_runtime_is_the_pinned_one(tmp_path: Path) -> None:
    """The bump of a requirement file is what changes the target."""
    model(tmp_path, "models/digits")
    requirements(tmp_path, "onnxruntime==1.32.0\n")
    assert find_deployment(tmp_path).targets[0].runtime == "onnxruntime==1.32.0"
