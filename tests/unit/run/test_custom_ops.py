"""Where a worker may find a library, and what it does with the bytes that it finds."""

import sys
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_bytes
from ci_parity.run.custom_ops import with_libraries
from ci_parity.run.workers.onnxruntime_worker import load_library

DATA = b"a library"


class Options:
    """Session options that read what they are told to load."""

    def __init__(self) -> None:
        self.loaded: list[tuple[Path, bytes]] = []

    def register_custom_ops_library(self, path: str) -> None:
        """Remember the path and what lies there."""
        self.loaded.append((Path(path), Path(path).read_bytes()))


def test_a_library_may_be_at_any_root(tmp_path: Path) -> None:
    """The other options stay, and those without libraries are as they were."""
    library = {"path": "ops/a.so", "sha256": "0"}
    roots = (tmp_path / "tree", tmp_path)
    found = with_libraries({"custom_ops": [library], "execution_mode": "parallel"}, roots)
    places = [str(root / "ops" / "a.so") for root in roots]
    assert found == {"custom_ops": [{**library, "places": places}], "execution_mode": "parallel"}
    assert with_libraries({"execution_mode": "parallel"}, roots) == {"execution_mode": "parallel"}


def test_what_is_loaded_is_a_copy_of_what_was_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first place that has the bytes; the copy is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    absent, other, right = (tmp_path / name for name in ("absent.so", "other.so", "right.so"))
    other.write_bytes(b"another")
    right.write_bytes(DATA)
    options = Options()
    places = [str(path) for path in (absent, other, right)]
    load_library(options, {"path": "ops/a.so", "sha256": sha256_bytes(DATA), "places": places})
    ((path, data),) = options.loaded
    assert (path.name, data) == ("a.so", DATA)
    assert path.parent.parent == tmp_path
    assert not path.parent.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="has no such permissions")
def test_the_copy_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is open to this user alone."""
    monkeypatch.chdir(tmp_path)

    class Looking(Options):
        def register_custom_ops_library(self, path: str) -> None:
            assert Path(path).parent.stat().st_mode & 0o077 == 0
            super().register_custom_ops_library(path)

    (tmp_path / "a.so").write_bytes(DATA)
    options = Looking()
    library = {"path": "a.so", "sha256": sha256_bytes(DATA), "places": [str(tmp_path / "a.so")]}
    load_library(options, library)
    assert len(options.loaded) == 1


def test_other_bytes_are_refused_by_name(tmp_path: Path) -> None:
    """Both digests are said, and what is not there."""
    (tmp_path / "a.so").write_bytes(b"another")
    options = Options()
    places = [str(tmp_path / "a.so"), str(tmp_path / "b.so")]
    library = {"path": "ops/a.so", "sha256": sha256_bytes(DATA), "places": places}
    with pytest.raises(ValueError, match=r"'ops/a\.so' is not loaded") as caught:
        load_library(options, library)
    for words in (sha256_bytes(DATA), sha256_bytes(b"another"), "No such file"):
        assert words in str(caught.value)
    assert options.loaded == []
