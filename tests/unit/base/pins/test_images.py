"""Container images that a repository names, and what a bot changes in them."""

from pathlib import Path

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins import Image, ImageChange, ImageChangeKind, compare_images, read_images
from ci_parity.base.pins.image import parse_image
from tests.unit.base.pins.samples import Edit, edited, write

DOCKERFILE = """\
# syntax=docker/dockerfile:1
ARG BASE=registry.example.invalid:5000/cuda
ARG TAG="12.8.1-runtime"
FROM --platform=$BUILDPLATFORM python:3.12-slim@sha256:@p1@ AS build
RUN pip install torch \\
    # a comment inside
    && echo FROM nothing
RUN <<EOF
FROM also-nothing
EOF
FROM ${BASE}:${TAG}@sha256:@c1@
COPY --from=build /app /app
COPY --from=0 /app /app
COPY --chown=1 --from=ghcr.example.invalid/uv:0.9 /uv /bin/
RUN --mount=type=bind,from=tools:1,target=/t tool --from=no/image
FROM build AS debug
FROM scratch
FROM $UNKNOWN
"""
COMPOSE = """\
x-common: &common
  image: registry.example.invalid/ort:1.27@sha256:@c1@
services:
  gpu:
    <<: *common
    ports: !reset []
  db: {image: "postgres:${PG:-16}"}
  built: {build: .}
"""
WORKFLOW = """\
on: push
jobs:
  test:
    runs-on: ubuntu-latest
    container: {image: "ghcr.example.invalid/ort-gpu:1.27@sha256:@c1@", options: --gpus all}
    services:
      db:
        image: postgres:16
    steps:
      - uses: actions/checkout@v7
      - uses: docker://alpine:3.22
  plain:
    container: node:24
    steps: []
  dynamic:
    container: ${{ matrix.image }}
"""
ACTION = "runs:\n  using: docker\n  image: docker://ghcr.example.invalid/action:v1\n"


def read(root: Path, file: str, text: str) -> list[tuple[str, str, int]]:
    """Return role, reference and line of the images in a text."""
    found = read_images(write(root, file, text), root)
    return [(i.role, i.reference[:60], int(i.where.rpartition(":")[2])) for i in found]


def test_a_dockerfile(tmp_path: Path) -> None:
    """Variables with defaults are filled in; stages, comments and here-documents are no images."""
    found = read_images(write(tmp_path, "Dockerfile", DOCKERFILE), tmp_path)
    assert [(i.role, i.repository, i.tag, i.floating, i.where[-3:]) for i in found] == [
        ("FROM … AS build", "python", "3.12-slim", False, "e:4"),
        ("FROM", "registry.example.invalid:5000/cuda", "12.8.1-runtime", False, ":11"),
        ("COPY --from", "ghcr.example.invalid/uv", "0.9", True, ":14"),
        ("COPY --from", "tools", "1", True, ":15"),
        ("FROM", "$UNKNOWN", "", True, ":18"),
    ]


def test_the_escape_directive(tmp_path: Path) -> None:
    """A Windows Dockerfile continues its lines with a backtick."""
    text = "# escape=`\nFROM a:1 `\n  AS build\nRUN dir C:\\\nFROM b:2\n"
    assert read(tmp_path, "app.Dockerfile", text) == [
        ("FROM … AS build", "a:1", 2),
        ("FROM", "b:2", 5),
    ]


def test_shell_operators_are_no_documents(tmp_path: Path) -> None:
    """Shifts and here-strings do not swallow the lines after them."""
    shifts = "FROM a:1\nRUN echo $((1<<3)) 1 << 3\nRUN cat <<<word\n"
    text = f"{shifts}RUN <<-'EOF' cat\nFROM c\n\tEOF\nFROM b:2\n"
    assert [reference for _, reference, _ in read(tmp_path, "Dockerfile", text)] == ["a:1", "b:2"]


def test_a_compose_file(tmp_path: Path) -> None:
    """Anchors are followed, unknown tags ignored, defaults of variables filled in."""
    gpu, database = read(tmp_path, "compose.yaml", COMPOSE)
    assert (gpu[0], gpu[2]) == ("services.gpu", 2)
    assert gpu[1].startswith("registry.example.invalid/ort:1.27@sha256:")
    assert database == ("services.db", "postgres:16", 7)


def test_a_workflow_and_an_action(tmp_path: Path) -> None:
    """Containers, services, docker steps; an expression stays one."""
    found = read(tmp_path, ".github/workflows/ci.yml", WORKFLOW)
    assert [(role, line) for role, _, line in found] == [
        ("jobs.test.container", 5),
        ("jobs.test.services.db", 8),
        ("jobs.test.steps", 11),
        ("jobs.plain.container", 13),
        ("jobs.dynamic.container", 16),
    ]
    assert found[-1][1] == "${{ matrix.image }}"
    assert read(tmp_path, "action.yml", ACTION) == [
        ("runs.image", "ghcr.example.invalid/action:v1", 3)
    ]


@pytest.mark.parametrize(
    ("text", "repository", "tag", "digest"),
    [
        ("python", "python", "", ""),
        ("host:5000/a/b", "host:5000/a/b", "", ""),
        ("host:5000/a/b:c", "host:5000/a/b", "c", ""),
        (f"a@sha256:{'0' * 64}", "a", "", f"sha256:{'0' * 64}"),
        ("a@sha256:short", "a@sha256:short", "", ""),
    ],
)
def test_a_reference(text: str, repository: str, tag: str, digest: str) -> None:
    """A port is no tag; a torn digest fixes nothing."""
    image = parse_image(text)
    assert (image.repository, image.tag, image.digest) == (repository, tag, digest)
    assert image.reference == text


@pytest.mark.parametrize(
    ("edits", "kind"),
    [
        ([("sha256:@c1@", "sha256:@c2@")], ImageChangeKind.DIGEST),
        (
            [("12.8.1-runtime", "13.0.0-runtime"), ("sha256:@c1@", "sha256:@c2@")],
            ImageChangeKind.TAG,
        ),
        ([("invalid:5000/cuda", "invalid:5000/rocm")], ImageChangeKind.REPOSITORY),
        ([("FROM ${BASE}:${TAG}@sha256:@c1@\n", "")], ImageChangeKind.REMOVED),
    ],
)
def test_what_a_bot_changes(tmp_path: Path, edits: list[Edit], kind: ImageChangeKind) -> None:
    """One image moved in one respect; the others are left in peace."""
    before = read_images(write(tmp_path, "Dockerfile", DOCKERFILE), tmp_path)
    after = read_images(write(tmp_path, "Dockerfile", edited(DOCKERFILE, *edits)), tmp_path)
    (change,) = compare_images(before, after)
    assert (change.kind, change.role) == (kind, "FROM")
    assert change.was.startswith("registry.example.invalid:5000/cuda:12.8.1-runtime@sha256:")
    assert change.now != change.was
    assert compare_images(before, before) == ()


@pytest.mark.parametrize("file", ["compose.yaml", ".github/workflows/ci.yml"])
def test_a_digest_in_yaml(tmp_path: Path, file: str) -> None:
    """A digest that moved under the same tag is found where it stands."""
    text = COMPOSE if file == "compose.yaml" else WORKFLOW
    before = read_images(write(tmp_path, file, text), tmp_path)
    after = read_images(write(tmp_path, file, edited(text, ("@c1@", "@c2@"))), tmp_path)
    (change,) = compare_images(before, after)
    assert change.kind is ImageChangeKind.DIGEST
    assert change.where.startswith(f"{file}:")


def test_a_new_image_on_top_moves_no_other() -> None:
    """Images are told by what they are used for and by their names."""
    old = [Image(repository="a", tag="1", role="FROM")]
    new = [Image(repository="b", tag="1", role="FROM", where="Dockerfile:1"), *old]
    added = ImageChange(
        kind=ImageChangeKind.ADDED, role="FROM", was="", now="b:1", where="Dockerfile:1"
    )
    assert compare_images(old, new) == (added,)


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("Dockerfile", "RUN echo\n", "no FROM line"),
        ("Dockerfile", "FROM a\nRUN <<EOF\nFROM b\n", "does not end"),
        ("Dockerfile", "ARG A=aa\n" + "ARG A=$A$A\n" * 40 + "FROM $A\n", "over 1000 characters"),
        ("compose.yml", "services: [\n", "malformed YAML"),
        ("compose.yml", "services: {a: {image: a, image: b}}\n", "duplicate key"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, file: str, text: str, what: str) -> None:
    """A file whose images cannot be known is not a file without images."""
    with pytest.raises(EvidenceError, match=what) as caught:
        read_images(write(tmp_path, file, text), tmp_path)
    assert caught.value.where.startswith(file)
