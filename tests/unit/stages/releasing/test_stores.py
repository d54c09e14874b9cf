"""The store that a spec names, where it is a release of GitHub, and the specs that name none."""

from pathlib import Path

import pytest

from ci_parity.base.errors import ConfigError
from ci_parity.github.assets import is_upload_address
from ci_parity.stages.releasing.stores import open_store

JOB = {"GITHUB_REPOSITORY": "acme/models", "GITHUB_TOKEN": "t"}
SERVER = {**JOB, "GITHUB_API_URL": "https://github.acme.example/api/v3"}


@pytest.mark.parametrize(
    ("spec", "environ", "label"),
    [
        ("github-release:store", JOB, "github-release:acme/models:store"),
        ("github-release:models/v1.0", JOB, "github-release:acme/models:models/v1.0"),
        ("github-release:other/repo.x:store", JOB, "github-release:other/repo.x:store"),
        ("github-release:other/repo:store", {}, "github-release:other/repo:store"),
        ("github-release:store", SERVER, "github-release:acme/models:store at github.acme.example"),
    ],
)
def test_a_release_is_named_by_its_tag(
    tmp_path: Path, spec: str, environ: dict[str, str], label: str
) -> None:
    """And by the repository, of the job or another; nothing is asked of GitHub yet."""
    assert open_store(spec, tmp_path, environ=environ).label == label


@pytest.mark.parametrize(
    "spec",
    ["github-release:", "github-release:s3cret@host/x:store", "github-release://s3cret",
     "github-release:a/b:c/d:s3cret", "github-release:../x:s3cret", "github-release:a/..:s3cret",
     "github-release:s3cret?x=1", "github-release:s3cret/", "github-release:s3cret//x",
     "github-release:s3cret..x", "github-release:-s3cret", "github-release:s3cret\n"],
)  # fmt: skip
def test_what_is_no_tag_is_refused_unseen(tmp_path: Path, spec: str) -> None:
    """It could hold credentials."""
    with pytest.raises(ConfigError, match="not the tag") as caught:
        open_store(spec, tmp_path, environ=JOB)
    assert "s3cret" not in str(caught.value)
    assert "OWNER/NAME" in caught.value.remedy


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "which repository"),
        ({"GITHUB_REPOSITORY": "acme"}, "which repository"),
        ({**JOB, "GITHUB_API_URL": "https://git.acme.example/api/v1"}, "Gitea"),
        ({**JOB, "GITHUB_API_URL": "https://user:s3cret@api.github.com"}, "not the address"),
        ({**JOB, "GITHUB_API_URL": "ftp://api.github.com"}, "not the address"),
    ],
)
def test_an_environment_that_names_no_api_is_refused(
    tmp_path: Path, environ: dict[str, str], words: str
) -> None:
    """Before anything is sent anywhere."""
    with pytest.raises(ConfigError, match=words) as caught:
        open_store("github-release:store", tmp_path, environ=environ)
    assert "s3cret" not in str(caught.value)
    assert caught.value.remedy


def test_other_stores_are_opened_as_ever(tmp_path: Path) -> None:
    """A folder, and what is no store at all."""
    assert "released" in open_store("released", tmp_path).label
    with pytest.raises(ConfigError, match="unknown kind of store") as caught:
        open_store("ftp://x", tmp_path)
    assert "github-release:TAG" in caught.value.remedy


@pytest.mark.parametrize(
    ("api", "uploads"),
    [
        ("https://api.github.com", "https://uploads.github.com"),
        ("https://api.acme.ghe.com", "https://uploads.acme.ghe.com"),
        ("https://github.acme.example/api/v3", "https://github.acme.example/api/uploads"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_an_api_takes_uploads_at_its_own_hosts(api: str, uploads: str) -> None:
    """At no other, under no other scheme or port, and with no credentials of another's."""
    path = "/repos/acme/models/releases/1/assets"
    assert is_upload_address(api, uploads + path)
    scheme, _, host = uploads.partition("://")
    for other in (
        f"{scheme}://x{host}", f"{scheme}://{host.split('/')[0]}.evil.example",
        f"{scheme}://user@{host}", f"{scheme}://{host.split('/')[0]}@evil.example",
        "https://uploads.evil.example", f"ftp://{host}", f"{scheme}://{host.split('/')[0]}:81",
    ):  # fmt: skip
        assert not is_upload_address(api, other + path)
