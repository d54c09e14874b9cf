"""What uv and Pipenv themselves wrote from one day to another, as a dependency bot commits it."""

from pathlib import Path

import pytest

from ci_parity.base.pins import PinChangeKind, compare_pins, read_pins

LOCKS = Path(__file__).parent / "written_by_tools"
BY_UV = ["uv.lock", "pylock.toml", "requirements.txt"]


def changes(file: str, before: str, after: str) -> list[tuple[PinChangeKind, str, str, str]]:
    """Return kind, name and both sides of every difference; a hash's sides are digests."""
    sides = [read_pins(Path(file), LOCKS / side) for side in (before, after)]
    return [
        (c.kind, c.name, *(("", "") if c.kind is PinChangeKind.HASHES else (c.was, c.now)))
        for c in compare_pins(*sides)
    ]


@pytest.mark.parametrize("file", BY_UV)
def test_wheels_that_were_added_to_a_release(file: str) -> None:
    """PyYAML 6.0 got wheels for Python 3.11 a year after it was released."""
    assert changes(file, "earlier", "base") == [(PinChangeKind.HASHES, "pyyaml", "", "")]


@pytest.mark.parametrize("file", BY_UV)
def test_a_package_that_another_one_pulled_in(file: str) -> None:
    """Nobody asked for MarkupSafe, and it moved."""
    moved = (PinChangeKind.VERSION, "markupsafe", "2.1.1", "2.1.2")
    assert changes(file, "base", "transitive") == [moved]


@pytest.mark.parametrize("file", BY_UV)
def test_a_package_that_was_asked_for(file: str) -> None:
    """Its new hashes are no difference of their own."""
    moved = (PinChangeKind.VERSION, "jinja2", "3.1.1", "3.1.2")
    assert changes(file, "transitive", "direct") == [moved]


def test_a_lock_of_pipenv() -> None:
    """Its digest of the Pipfile moved along, which is no pin."""
    moved = (PinChangeKind.VERSION, "jinja2", "3.1.1", "3.1.2")
    assert changes("Pipfile.lock", "base", "direct") == [moved]


@pytest.mark.parametrize("file", [*BY_UV, "Pipfile.lock"])
def test_who_asked_for_a_package_is_known(file: str) -> None:
    """From the lock itself, or from the manifest beside it."""
    pins = read_pins(Path(file), LOCKS / "direct")
    assert pins["jinja2"][0].direct is True
    assert pins["markupsafe"][0].direct is False
