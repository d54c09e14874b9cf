"""Which files of a repository are the models it ships, and which belong together."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from ci_parity.base.errors import ConfigError, EvidenceError
from ci_parity.stages.starting.models import deployments_of, find_models
from tests.support.models import save, save_linear
from tests.support.user_repository import empty_repository


def names(root: Path) -> list[str]:
    """Return what is found below a root."""
    return [path.relative_to(root).as_posix() for path in find_models(root)]


def chains(root: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each deployment with its variants and what they were made from."""
    found = deployments_of(find_models(root), root)
    return [(d.name, [(v.name, v.made_from) for v in d.variants]) for d in found]


def test_models_are_found_wherever_they_are(tmp_path: Path) -> None:
    """Sorted; hidden and foreign folders are not entered."""
    for name in ("b.onnx", "deep/er/a.onnx", ".cache/c.onnx", "node_modules/d.onnx"):
        save_linear(tmp_path / name)
    assert names(tmp_path) == ["b.onnx", "deep/er/a.onnx"]


def test_git_says_what_is_shipped(tmp_path: Path) -> None:
    """Tracked or not, but not ignored: a checkout has no ignored file."""
    repository = empty_repository(tmp_path)
    repository.write(".gitignore", "build/\n")
    save_linear(tmp_path / "build/old.onnx")
    save_linear(tmp_path / "models/reader.onnx")
    assert names(tmp_path) == ["models/reader.onnx"]


def test_an_ignored_model_counts_where_there_is_no_other(tmp_path: Path) -> None:
    """As where DVC keeps the models."""
    repository = empty_repository(tmp_path)
    repository.write(".gitignore", "*.onnx\n")
    save_linear(tmp_path / "models/reader.onnx")
    assert names(tmp_path) == ["models/reader.onnx"]


def test_models_of_tests_count_where_there_is_no_other(tmp_path: Path) -> None:
    """Nobody ships those."""
    save_linear(tmp_path / "tests/data/tiny.onnx")
    assert names(tmp_path) == ["tests/data/tiny.onnx"]
    save_linear(tmp_path / "reader.onnx")
    assert names(tmp_path) == ["reader.onnx"]


def test_no_model_is_said_with_the_ways_to_get_one(tmp_path: Path) -> None:
    """Exporting, fetching, naming."""
    with pytest.raises(ConfigError) as caught:
        find_models(tmp_path)
    assert "git lfs pull" in caught.value.remedy


def test_an_ending_makes_a_variant(tmp_path: Path) -> None:
    """Beside the model of that name, with the same ports; the file's name names the deployment."""
    for name in ("ocr.onnx", "ocr.int8.onnx", "ocr_optimized.onnx", "other/ocr-int8.onnx"):
        save_linear(tmp_path / name)
    assert chains(tmp_path) == [
        ("ocr", [("exported", ""), ("int8", "exported"), ("optimized", "exported")]),
        ("ocr-int8", [("exported", "")]),
    ]


def test_another_signature_is_another_deployment(tmp_path: Path) -> None:
    """Half precision at the ports cannot be fed the same inputs."""
    save_linear(tmp_path / "m.onnx")
    save(
        tmp_path / "m.fp16.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        {"x": (TensorProto.FLOAT16, ["batch", 3])},
        {"y": (TensorProto.FLOAT16, ["batch", 3])},
    )
    assert [name for name, _ in chains(tmp_path)] == ["m.fp16", "m"]


@pytest.mark.parametrize(
    ("path", "name"),
    [("onnx/model.onnx", "acme"), ("models/reader/model.onnx", "reader"), ("größe.onnx", "gr--e")],
)
def test_a_name_that_tells_nothing_gives_way(tmp_path: Path, path: str, name: str) -> None:
    """To that of the nearest folder that tells more."""
    root = tmp_path / "acme"
    save_linear(root / path)
    assert [found for found, _ in chains(root)] == [name]


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    """By a number."""
    for name in ("a/m.onnx", "b/m.onnx"):
        save_linear(tmp_path / name)
    assert [name for name, _ in chains(tmp_path)] == ["m", "m-2"]


def test_cases_in_the_test_layout_are_kept(tmp_path: Path) -> None:
    """A model beside test_data_set_* has its fixtures."""
    save_linear(tmp_path / "reader/model.onnx")
    (tmp_path / "reader/test_data_set_0").mkdir()
    (found,) = deployments_of(find_models(tmp_path), tmp_path)
    assert found.fixtures == tmp_path / "reader"


def test_too_many_models_are_not_guessed_about(tmp_path: Path) -> None:
    """Their number and the command that names some."""
    for number in range(9):
        save_linear(tmp_path / f"m{number}.onnx")
    with pytest.raises(ConfigError, match="9 models") as caught:
        deployments_of(find_models(tmp_path), tmp_path)
    assert "ci-parity init" in caught.value.remedy


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"version https://git-lfs.github.com/spec/v1\noid x\n", "LFS pointer"), (b"x", "ONNX model")],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    """Not passed over: it may be the one that is shipped."""
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(EvidenceError, match=said):
        deployments_of(find_models(tmp_path), tmp_path)
