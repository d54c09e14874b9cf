"""The store that a spec names, and the specs that name none."""

from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.release.objects.opening import open_store
from tests.unit.release.objects import file_of, sha


@pytest.mark.parametrize("spec", ["released", "file:released", "file:a/../released"])
def test_a_folder_lies_below_the_deployment(tmp_path: Path, spec: str) -> None:
    """By a path or with the scheme; it begins with the first thing that is kept."""
    store = open_store(spec, tmp_path)
    assert not (tmp_path / "released").exists()
    store.put(file_of(tmp_path, b"x"), sha(b"x"))
    assert (tmp_path / "released" / "sha256").is_dir()


def test_an_absolute_folder_may_lie_anywhere(tmp_path: Path) -> None:
    """A disk that several machines mount is named like this."""
    root = tmp_path / "root"
    root.mkdir()
    assert str(tmp_path / "disk") in open_store(f"file:{tmp_path / 'disk'}", root).label


@pytest.mark.parametrize("spec", ["../out", "file:../out", "link/out", "file:", "a\nb"])
def test_a_relative_folder_does_not_leave_the_deployment(tmp_path: Path, spec: str) -> None:
    """Not by `..`, nor through a link."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError):
        open_store(spec, root)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """It is refused before anything is asked of it."""
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(ConfigError, match="no folder"):
        open_store("taken", tmp_path)


@pytest.mark.parametrize(
    ("spec", "label"),
    [("s3://models", "s3://models"), ("s3://acme-models/a/b/", "s3://acme-models/a/b")],
)
def test_a_bucket_is_named_with_its_prefix(tmp_path: Path, spec: str, label: str) -> None:
    """Nothing is asked of it yet: there need be neither network nor credentials."""
    assert open_store(spec, tmp_path).label == label


@pytest.mark.parametrize(
    "spec",
    ["s3://AKIA:s3cret@models/a", "s3://models/a?X-Amz-Signature=s3cret", "s3://models/../s3cret",
     "s3://models//s3cret", "s3://", "s3:s3cret", "gs://k:s3cret@models", "az://c/a?sig=s3cret",
     "az://c:s3cret@acme.blob.core.windows.net/a", "abfs://C#s3cret", "s3://models/.s3cret"],
)  # fmt: skip
def test_an_address_that_could_hold_a_secret_is_refused_unseen(tmp_path: Path, spec: str) -> None:
    """The error names the scheme, and nothing of what follows."""
    with pytest.raises(ConfigError) as caught:
        open_store(spec, tmp_path)
    assert "s3cret" not in str(caught.value)
    assert f"{spec.partition(':')[0]}://" in caught.value.where


def test_another_kind_of_store_is_refused(tmp_path: Path) -> None:
    """With what there is instead."""
    with pytest.raises(ConfigError, match="unknown kind of store 'ftp'") as caught:
        open_store("ftp://user:s3cret@host/x", tmp_path)
    assert "s3cret" not in str(caught.value)
    assert "s3://" in caught.value.remedy


@pytest.mark.parametrize(("spec", "extra"), [("gs://models", "gcs"), ("az://models", "azure")])
def test_a_store_whose_library_is_missing_names_the_extra(
    tmp_path: Path, spec: str, extra: str
) -> None:
    """These libraries are not among those that develop this project."""
    with pytest.raises(ConfigError, match="not installed") as caught:
        open_store(spec, tmp_path)
    assert f"ci-parity[{extra}]" in caught.value.remedy
