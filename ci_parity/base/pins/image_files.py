"""The images a file of the repository names: Dockerfile, compose file, workflow or action.

YAML is told by its keys, not by its name: `services` of compose, `jobs` of a workflow, `runs` of an
action. A value that is an expression stays one: it is only known when the job runs.
"""

from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.errors import EvidenceError
from ci_parity.base.pins.dockerfile import dockerfile_images, expand
from ci_parity.base.pins.documents import Tree, read_yaml
from ci_parity.base.pins.image import Image, parse_image
from ci_parity.base.pins.text import SourceText, read_source

_MAX_DOCKERFILE = 1024 * 1024
_MAX_REFERENCE = 1000
_DOCKER = "docker://"


def read_images(path: Path, root: Path) -> tuple[Image, ...]:
    """Return the images a file names, in its order.

    Raises:
        EvidenceError: the file is missing, malformed, too large, or outside the repository.
    """
    source = read_source(path, root, limit=_MAX_DOCKERFILE)
    if source.path.suffix in {".yml", ".yaml"}:
        return tuple(_yaml_images(read_yaml(source), source))
    found = tuple(dockerfile_images(source))
    if not found:
        raise EvidenceError("no FROM line: not a Dockerfile", where=source.name)
    return found


def _yaml_images(document: Tree, source: SourceText) -> Iterator[Image]:
    for name, service in document.at("services").entries.items():
        yield from _image(_with_defaults(service.at("image")), f"services.{name}", source)
    for name, job in document.at("jobs").entries.items():
        yield from _job_images(job, f"jobs.{name}", source)
    runs = document.at("runs")
    yield from _docker(runs.at("image"), "runs.image", source)
    yield from _step_images(runs, "runs", source)


def _with_defaults(tree: Tree) -> Tree:
    """Return a text of a compose file with the defaults of its variables filled in."""
    text = tree.text if len(tree.text) > _MAX_REFERENCE else expand(tree.text, {})
    return Tree(line=tree.line, text=text)


def _job_images(job: Tree, role: str, source: SourceText) -> Iterator[Image]:
    container = job.at("container")
    yield from _image(
        container if container.text else container.at("image"), f"{role}.container", source
    )
    for name, service in job.at("services").entries.items():
        yield from _image(service.at("image"), f"{role}.services.{name}", source)
    yield from _step_images(job, role, source)


def _step_images(job: Tree, role: str, source: SourceText) -> Iterator[Image]:
    for step in job.at("steps").items:
        yield from _docker(step.at("uses"), f"{role}.steps", source)


def _docker(tree: Tree, role: str, source: SourceText) -> Iterator[Image]:
    if tree.text.startswith(_DOCKER):
        yield from _image(Tree(line=tree.line, text=tree.text.removeprefix(_DOCKER)), role, source)


def _image(tree: Tree, role: str, source: SourceText) -> Iterator[Image]:
    text = tree.text.strip()
    if text:
        yield parse_image(text, role=role, where=source.place(tree.line))
