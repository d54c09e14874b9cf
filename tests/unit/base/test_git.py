"""A remote's address becomes an origin without its secrets."""

import pytest

from ci_parity.base.git import Remote, redacted


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://git.example/acme/models.git", "git.example/acme/models"),
        ("https://user:secret@git.example:8443/acme/models", "git.example/acme/models"),
        ("ssh://git@git.example:22/acme/models.git", "git.example/acme/models"),
        ("git@git.example:acme/models.git", "git.example/acme/models"),
        ("git.example:/srv/models.git", "git.example/srv/models"),
        ("/srv/git/models.git", "models"),
        ("/srv/git/models.git/", "models"),
        ("file:///srv/git/models.git", "models"),
        ("/", "log"),
    ],
)
def test_names_a_remote(url: str, name: str) -> None:
    """Host and path of a server, the last name of a folder; no user, port, secret or suffix."""
    assert Remote(url=url, object_format="sha1", access=()).name == name


def test_redacts_every_address() -> None:
    """User and password never reach a message."""
    text = "fatal: https://user:secret@git.example/a and http://token@x/b, mail a@b"
    assert redacted(text) == "fatal: https://git.example/a and http://x/b, mail a@b"
