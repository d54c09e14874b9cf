"""The runtime axis of an image: its digest, and what is inside, read from inside.

The code of `run.facts` is copied into a container of the image and runs there on the image's own
Python, once for each digest: an image does not change, so what was measured is kept.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.errors import InfrastructureError
from ci_parity.base.files import write_atomic
from ci_parity.records.facts import Facts, fact, failed
from ci_parity.run.container.files import ROOT, Files, Part
from ci_parity.run.container.images import Image
from ci_parity.run.container.start import start
from ci_parity.run.protocol import Worker, WorkerError

PYTHON = ("python3", "-B")
# What the kept facts are written by; another number when they come to hold something else.
_FORM = 1
_TIMEOUT_S = 600.0
_PACKAGE = Path(__file__).parents[2]
_INSIDE = Path(__file__).with_name("inside.py")
_CODE = f"{ROOT}/package"
_READ_BY = ("", "base", "records", "run")
_REMEDY = (
    "use an image whose python3 is 3.8 or later and has onnxruntime, or name in `command` a "
    "program of the image that speaks the runner protocol"
)


def image_facts(image: Image, cache: Path) -> Facts:
    """Return what an image has for our worker, measured now unless it was before.

    Raises:
        InfrastructureError: the image has no Python or no onnxruntime, or cannot be started.
    """
    kept = kept_facts(image.digest, cache)
    if kept:
        return kept
    with tempfile.TemporaryDirectory(prefix="ci-parity-") as folder:
        facts = {**image_fact(image.digest), **_measured(image, Path(folder))}
    write_atomic(_place(image.digest, cache), canonical_bytes(facts))
    return facts


def kept_facts(digest: str, cache: Path) -> Facts:
    """Return what was measured of an image on this machine, nothing if it never was."""
    try:
        kept = json.loads(_place(digest, cache).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(name): str(text) for name, text in kept.items()} if isinstance(kept, dict) else {}


def image_fact(digest: str) -> Facts:
    """Return what is known of an image from its name alone."""
    return {"image": fact(digest)}


def _place(digest: str, cache: Path) -> Path:
    return cache / "images" / f"{digest.removeprefix('sha256:')}.{_FORM}.json"


def _measured(image: Image, folder: Path) -> Facts:
    """Ask inside. What runs there is the image's: nothing it says is believed to have a form."""
    argv = (*PYTHON, f"{_CODE}/{_INSIDE.name}")
    # Reading files takes no GPU.
    channel = start(replace(image, gpus=()), argv, Files(exchange=folder), further=_reader())
    try:
        with Worker(channel) as worker:
            said = worker.request("facts", timeout_s=_TIMEOUT_S)
    except WorkerError as error:
        raise InfrastructureError(
            f"cannot read what {image.label} has: {error.message}", remedy=_REMEDY
        ) from error
    if said.get("onnxruntime") is not True:
        raise InfrastructureError(f"{image.label} has no onnxruntime", remedy=_REMEDY)
    facts, python = said.get("facts"), fact(str(said.get("python")))
    if not isinstance(facts, dict) or not facts:
        return {"python": python, "library": failed(f"Python {python} cannot run what reads them")}
    return {fact(str(name)): fact(str(text)) for name, text in facts.items()}


def _reader() -> Iterator[Part]:
    """Yield the code that reads packages, and what it needs beyond the standard library."""
    for name in _READ_BY:
        inside = f"{_CODE}/ci_parity/{name}".rstrip("/")
        yield Part(path=_PACKAGE / name, inside=inside, ours=True)
    found = find_spec("packaging")
    assert found is not None
    assert found.origin is not None
    yield Part(path=Path(found.origin).parent, inside=f"{_CODE}/packaging", ours=True)
    yield Part(path=_INSIDE, inside=f"{_CODE}/{_INSIDE.name}", ours=True)
