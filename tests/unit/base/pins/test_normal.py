"""Names, versions, markers and addresses in one spelling."""

import pytest

from ci_parity.base.pins.normal import (
    all_of,
    any_of,
    exact_version,
    location_identity,
    marker_text,
    public_url,
    same_version,
)


@pytest.mark.parametrize(
    ("url", "public"),
    [
        (
            "https://user:secret@index.example.invalid/simple",
            "https://index.example.invalid/simple",
        ),
        (
            "git+ssh://git@git.example.invalid/x.git@main",
            "git+ssh://git.example.invalid/x.git@main",
        ),
        ("https://${USER}:${PASSWORD}@index.example.invalid/", "https://index.example.invalid/"),
        ("https://u:p@ss@index.example.invalid/", "https://index.example.invalid/"),
        (
            "https://x.example.invalid/a?sig=secret&rev=main",
            "https://x.example.invalid/a?sig=…&rev=main",
        ),
        ("https://x.example.invalid/a@b/c", "https://x.example.invalid/a@b/c"),
        ("./a@b", "./a@b"),
    ],
)
def test_credentials_are_dropped(url: str, public: str) -> None:
    """A report shows addresses to everybody; an @ of a path or a revision is none."""
    assert public_url(url) == public


@pytest.mark.parametrize(
    ("location", "identity"),
    [
        (
            "https://x.example.invalid/My_Pkg-1.0.post1-cp311-cp311-linux_x86_64.whl",
            ("my-pkg", "1.0.post1"),
        ),
        ("https://x.example.invalid/my-pkg-1.0.tar.gz#sha256=aa", ("my-pkg", "1.0")),
        ("git+https://x.example.invalid/Org/My.Repo.git@release/1#egg=", ("my-repo", "")),
        ("../sibling", ("sibling", "")),
        ("..", ("..", "")),
        ("./with space/ü", ("./with-space/ü", "")),
    ],
)
def test_what_a_location_tells(location: str, identity: tuple[str, str]) -> None:
    """File names tell name and version; a folder its name; else the location stands for itself."""
    assert location_identity(location) == identity


def test_versions() -> None:
    """Equal in PEP 440 is equal here; a range admits no one version."""
    assert same_version("2.8", "2.8.0")
    assert same_version("not-a-version", "not-a-version")
    assert not same_version("2.8", "2.8+cpu")
    assert exact_version("==2.8.0") == "2.8.0"
    assert [exact_version(text) for text in ("==2.*", "~=2.8", "", "==1,==2", "^1")] == [""] * 5


def test_markers() -> None:
    """One spelling; conditions are joined once each; what always holds makes a choice hold."""
    assert marker_text("python_version<'3'") == 'python_version < "3"'
    assert marker_text("no  marker ==") == "no marker =="
    windows, old = "sys_platform == 'win32'", "python_version < '3'"
    assert all_of(windows, "", windows) == 'sys_platform == "win32"'
    assert all_of(windows, f"{old} or {windows}") == (
        'sys_platform == "win32" and (python_version < "3" or sys_platform == "win32")'
    )
    assert any_of(windows, "") == ""
    assert any_of() == ""
    assert any_of(windows, old) == 'python_version < "3" or sys_platform == "win32"'
