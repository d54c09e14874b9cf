from typing import Any

import pytest

from ci_parity.run.container.channel import state_words
from ci_parity.run.container.images import pinned_reference

ID = f"sha256:{'1' * 64}"
DIGEST = f"sha256:{'2' * 64}"


@pytest.mark.parametrize(
    ("reference", "known", "pinned"),
    [
        ("registry:5000/team/ort:gpu", [f"registry:5000/team/ort@{DIGEST}"],
         f"registry:5000/team/ort@{DIGEST}"),
        ("registry:5000/team/ort", [f"registry:5000/team/ort@{DIGEST}"],
         f"registry:5000/team/ort@{DIGEST}"),
        ("python:3.12", [f"docker.io/library/python@{DIGEST}"],
         f"docker.io/library/python@{DIGEST}"),
        ("team/ort:gpu", [f"other/ort@{DIGEST}"], ID),
        ("team/ort:gpu", [], ID),
        ("team/ort:gpu", None, ID),
    ],
)  # fmt: skip
def test_a_tag_is_pinned_by_its_registrys_digest_or_the_id(
    reference: str, known: list[str] | None, pinned: str
) -> None:
    """An image that was built here has no digest but its own."""
    assert pinned_reference(reference, {"Id": ID, "RepoDigests": known}) == pinned


@pytest.mark.parametrize(
    ("code", "oom", "limit", "words"),
    [
        (0, False, 0, "exited with status 0"),
        (3, False, 0, "exited with status 3"),
        (139, False, 0, "was ended by SIGSEGV"),
        (137, True, 2**28, "ran out of memory: its container may use 0.25 GiB, and was ended"),
        (137, True, 0, "ran out of memory, and was ended"),
        (137, False, 0, "was ended by SIGKILL"),
    ],
)
def test_how_a_container_ended_is_said(code: int, oom: bool, limit: int, words: str) -> None:
    """Out of memory is not any other kill."""
    state: dict[str, Any] = {"ExitCode": code, "OOMKilled": oom}
    assert state_words({"State": state, "HostConfig": {"Memory": limit}}) == words
