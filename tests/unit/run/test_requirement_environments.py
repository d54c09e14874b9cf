"""What a requirements file of a source may say; nothing here is resolved or installed."""

from pathlib import Path

import pytest

from ci_parity.base.errors import CiParityError, ConfigError, EvidenceError
from ci_parity.run.requirement_environments import provide

HASH = "--hash=sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "asks for no package"),
        ("# numpy==2.3.4\n", "asks for no package"),
        ("--index-url https://index.invalid/simple\n", "asks for no package"),
        ("numpy\n", "numpy pins no version"),
        ("numpy>=2\n", "numpy >=2 pins no version"),
        ("numpy==2.*\n", "pins no version"),
        ("numpy==2.3.4\ntorch~=2.9\n", "torch ~=2.9 pins no version"),
        ("torch @ https://index.invalid/torch-2.9.0-cp311-none-any.whl\n", "torch does not come"),
        ("git+https://git.invalid/a/b.git@main#egg=b\n", "does not come from an index"),
        ("./wheels/torch-2.9.0-py3-none-any.whl\n", "torch does not come from an index"),
        ("../torch\n", "does not come from an index"),
        ("-e .\n", "-e has no place"),
        ("--editable=.\n", "--editable has no place"),
        ("-r other.txt\nnumpy==2.3.4\n", "-r has no place"),
        ("-c other.txt\nnumpy==2.3.4\n", "-c has no place"),
        ("--find-links wheels\nnumpy==2.3.4\n", "--find-links has no place"),
        ("--no-binary :all:\nnumpy==2.3.4\n", "--no-binary has no place"),
        ("--pre\nnumpy==2.3.4\n", "--pre has no place"),
        ("--trusted-host index.invalid\nnumpy==2.3.4\n", "--trusted-host has no place"),
        ("--index-url a --extra-index-url b\nnumpy==2.3.4\n", "--index-url has no place"),
        ("--index-url\nnumpy==2.3.4\n", "--index-url has no place"),
        ("numpy==2.3.4 --config-settings=a=b\n", "--config-settings"),
        ("numpy==2.3.4 --global-option=a\n", "--global-option"),
        (f"numpy==2.3.4 {HASH}\ntorch==2.9.0\n", "torch has no hash, and others have"),
        ("--require-hashes\nnumpy==2.3.4\n", "numpy has no hash"),
    ],
)
def test_what_the_digest_or_wheels_do_not_cover_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    """Before anything is fetched or built; each with its line and the way out."""
    path = tmp_path / "requirements-source.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        provide(path, root=tmp_path, cache=tmp_path / "cache")
    assert said in caught.value.what
    assert caught.value.where.startswith("requirements-source.txt")
    assert "uv pip compile" in caught.value.remedy
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.txt", None, "no such file"),
        ("binary.txt", b"\0\1", "not a text file"),
        ("broken.txt", b"numpy==\n", "not a requirement"),
    ],
)
def test_what_is_no_requirements_file_is_refused(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    """Absent, not text, not of the format."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EvidenceError, match=said):
        provide(path, root=tmp_path, cache=tmp_path / "cache")


def test_a_password_of_an_index_is_not_shown(tmp_path: Path) -> None:
    """Not even in the refusal of its line."""
    path = tmp_path / "requirements.txt"
    path.write_text("--index-url https://me:secret@index.invalid x\na==1\n", encoding="utf-8")
    with pytest.raises(CiParityError) as caught:
        provide(path, root=tmp_path, cache=tmp_path / "cache")
    assert "secret" not in str(caught.value)
