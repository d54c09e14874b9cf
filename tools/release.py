"""Makes a release of the action: an `action.yml` that pulls our image, and the users' tags.

    python -m tools.release --repository OWNER/NAME --commit SHA --tag release/v1.2.3 \
        --image ghcr.io/OWNER/NAME@sha256:…

The sources build the image (`image: Dockerfile`); what users run must not. So a release is a commit
on top of the tested one that changes this line alone. `v1.2.3` is created once and never moved;
`v1` follows when no newer `v1` version is out. Commits made through the API are signed by GitHub.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from packaging.version import Version

from ci_parity import __version__
from ci_parity.base.errors import CiParityError, ConfigError
from ci_parity.github.client import RestClient

ROOT = Path(__file__).parents[1]
_FROM_SOURCE = "  image: Dockerfile\n"
_IMAGE = re.compile(r"[a-z0-9.-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}")
_TAG = re.compile(r"release/v(\d+\.\d+\.\d+)")
_VERSION_REF = re.compile(r"refs/tags/v(\d+\.\d+\.\d+)")
# The image's own entry, said again: Kubernetes runners start no image without one.
_ENTRY = "  entrypoint: /opt/venv/bin/python\n  args: [/opt/ci-parity/entrypoint.py]\n"


def released_action(source: str, image: str) -> str:
    """Return the text of `action.yml` that runs `image` instead of building one.

    Raises:
        ConfigError: the image has no digest, or the source does not build its own.
    """
    if not _IMAGE.fullmatch(image):
        raise ConfigError(f"{image!r} is not REGISTRY/NAME@sha256:DIGEST", where="--image")
    if source.count(_FROM_SOURCE) != 1:
        raise ConfigError("the action does not build its image", where="action.yml: runs.image")
    return source.replace(_FROM_SOURCE, f"  image: docker://{image}\n{_ENTRY}")


def version_of(tag: str) -> Version:
    """Return the version that a tag asks to release, which is the one of the sources.

    Raises:
        ConfigError: the tag has another form, or names another version.
    """
    match = _TAG.fullmatch(tag)
    if match is None or match[1] != __version__:
        raise ConfigError(
            f"the tag {tag!r} does not release version {__version__}",
            where="--tag",
            remedy=f"push the tag release/v{__version__}, or change ci_parity/__init__.py",
        )
    return Version(match[1])


def publish(
    client: RestClient, repository: str, commit: str, version: Version, action: str
) -> tuple[str, ...]:
    """Put `action` on top of `commit` and tag it; return the tags that now lead there.

    1. The new commit: the tested one's tree with another action.yml.
    2. The version's own tag; one that exists is refused.
    3. The major version's tag, unless a newer version of it is out.

    Raises:
        PublishError: GitHub refuses.
    """
    git = f"/repos/{repository}/git"
    base = _object(client.get(f"{git}/commits/{commit}"))["tree"]["sha"]
    entry = {"path": "action.yml", "mode": "100644", "type": "blob", "content": action}
    tree = _object(client.post(f"{git}/trees", {"base_tree": base, "tree": [entry]}))["sha"]
    made = {"message": f"Release {version}", "tree": tree, "parents": [commit]}
    sha = _object(client.post(f"{git}/commits", made))["sha"]
    client.post(f"{git}/refs", {"ref": f"refs/tags/v{version}", "sha": sha})
    if version < max(_released(client, git, version.major)):
        return (f"v{version}",)
    major = f"v{version.major}"
    if f"refs/tags/{major}" in _refs(client, git, version.major):
        client.patch(f"{git}/refs/tags/{major}", {"sha": sha, "force": True})
    else:
        client.post(f"{git}/refs", {"ref": f"refs/tags/{major}", "sha": sha})
    return (f"v{version}", major)


def _released(client: RestClient, git: str, major: int) -> Iterator[Version]:
    for ref in _refs(client, git, major):
        if match := _VERSION_REF.fullmatch(ref):
            yield Version(match[1])


def _refs(client: RestClient, git: str, major: int) -> list[str]:
    """Return the tags of a major version: its own, and those of its releases."""
    found = [_object(ref)["ref"] for ref in client.items(f"{git}/matching-refs/tags/v{major}")]
    return [ref for ref in found if re.fullmatch(rf"refs/tags/v{major}(\..*)?", ref)]


def _object(answer: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", answer)


def main() -> int:
    """Release what was tested and built; the token comes from GITHUB_TOKEN."""
    parser = argparse.ArgumentParser(description="Release the action")
    for name in ("repository", "commit", "tag", "image"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    try:
        version = version_of(given.tag)
        action = released_action((ROOT / "action.yml").read_text(encoding="utf-8"), given.image)
        api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
        client = RestClient(api, os.environ.get("GITHUB_TOKEN", ""))
        tags = publish(client, given.repository, given.commit, version, action)
    except CiParityError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"released as {', '.join(tags)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
