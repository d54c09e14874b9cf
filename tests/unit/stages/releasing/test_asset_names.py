"""Keys of a store as names of release assets, and names that are none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_parity.base.errors import EvidenceError
from ci_parity.release.objects.keys import object_key, pointer_key
from ci_parity.stages.releasing.asset_names import (
    Version,
    name_of_object,
    name_of_version,
    object_of,
    version_of,
)
from tests.unit.release.objects import sha

KEPT_BY_GITHUB = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
PART = st.from_regex(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,30}[A-Za-z0-9_-])?", fullmatch=True)


@given(data=st.binary())
def test_an_object_is_found_by_its_name(data: bytes) -> None:
    """An empty one too, which GitHub does not keep as it is."""
    key = object_key(sha(data))
    name = name_of_object(key, len(data))
    assert KEPT_BY_GITHUB.fullmatch(name)
    assert object_of(name) == (key, not data)


@given(name=st.lists(PART, min_size=1, max_size=4).map("/".join), number=st.integers(1, 10**10 - 1))
def test_a_pointer_is_found_by_the_names_of_its_states(name: str, number: int) -> None:
    """Whatever plain name it has: no two share a name, and GitHub changes none."""
    version = Version(key=pointer_key(name), number=number)
    named = name_of_version(version)
    assert KEPT_BY_GITHUB.fullmatch(named)
    assert version_of(named) == version


def test_a_name_that_github_cannot_hold_is_refused() -> None:
    """The longest names of channels that the store makes fit; others are told."""
    longest = f"channels/{'a' * 64}/{'b_' * 32}"
    assert version_of(name_of_version(Version(key=pointer_key(longest), number=1)))
    with pytest.raises(EvidenceError, match="too long"):
        name_of_version(Version(key=pointer_key("/".join(["a" * 128] * 2)), number=1))


@pytest.mark.parametrize(
    "name",
    ["", "release.tar", "sha256-" + "a" * 63, "sha256-" + "A" * 64, f"sha256-{'a' * 64}.empty",
     f"sha256-{'a' * 64}.tar", f"SHA256-{'a' * 64}", "upload-1", "pointer-a", "pointer-a.v1",
     "pointer-.v0000000001", "pointer-a_.v0000000001", "pointer-a_x.v0000000001",
     "pointer-_sa.v0000000001", "pointer-a_s_sb.v0000000001", "pointer-.._sa.v0000000001"],
)  # fmt: skip
def test_other_assets_are_not_the_stores(name: str) -> None:
    """They may stand beside it in the release."""
    assert object_of(name) == ("", False)
    assert version_of(name) is None
