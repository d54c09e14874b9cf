"""What an edge developer does with a bundle: Python, the package, the archive, and nothing else.

Every command is typed in a folder of its own, with an empty home and an environment made there.
With CI_PARITY_RECORD_WALKTHROUGH=1 the transcript is written to docs/edge-walkthrough.md; no
assertion looks at a clock.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_parity.base.process import packaging_environment
from ci_parity.cli import run
from ci_parity.release.bundle.verify import verify_bundle
from tests.integration.support.cache import cache_dir
from tests.support.shapes import SHAPES
from tests.support.user_repository import PROJECT

pytestmark = pytest.mark.network

RECORD = "CI_PARITY_RECORD_WALKTHROUGH"
PAGE = PROJECT / "docs" / "edge-walkthrough.md"
HEAD = """\
# A walk-through on the edge

What somebody does who receives a [bundle](bundle.md): a folder with the archive, the wheel of
`ci-parity`, a photo, and a Python; no repository, no account, an empty home. The digest was read
off the [release log](release-log.md). `tests/integration/test_edge_walkthrough.py` types it and
records it; the package's dependencies and the runtime that the bundle pins come from the usual
index.

The bundle is that of [`fixtures/shapes`](../fixtures/shapes): pictures of coloured shapes, the
[pipeline](preprocess.md) that makes tensors of them, a small classifier, and its references.
"""


@dataclass(slots=True, kw_only=True)
class Desk:
    """A folder in which an edge developer types; `text` is the transcript as Markdown."""

    folder: Path
    home: Path
    text: str = HEAD

    def section(self, title: str, words: str) -> None:
        """Head a section of the page."""
        self.text += f"\n## {title}\n\n{textwrap.fill(words, 100)}\n"

    def type(self, command: str, *, code: int = 0, shown: bool = True) -> str:
        """Type a command, which must end with that exit code; return what it prints."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command], cwd=self.folder, env=self.variables(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}"
        printed = done.stdout.replace(str(self.folder), "~")
        printed = re.sub(r"/tmp/ci-parity-[^/ ]+", "/tmp/ci-parity-…", printed)  # noqa: S108
        status = ["$ echo $?", str(code)] if code else []
        lines = [f"$ {command}", *(printed.rstrip().splitlines() if shown else ["…"]), *status]
        body = "\n".join(lines)
        self.text += f"\n<!-- not run here: a transcript -->\n```console\n{body}\n```\n"
        return done.stdout

    def variables(self) -> dict[str, str]:
        """Return the environment: where packages come from, and nothing of ours."""
        python = Path(getattr(sys, "_base_executable", sys.executable)).parent
        folders = (str(self.folder / "tools/bin"), str(python), "/usr/bin", "/bin")
        return {
            **{k: v for k, v in packaging_environment().items() if not k.startswith("XDG_")},
            "HOME": str(self.home), "COLUMNS": "100",
            "PATH": os.pathsep.join(folders),
            "PIP_CACHE_DIR": str(cache_dir() / "pip"), "UV_CACHE_DIR": str(cache_dir() / "uv"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a desk with the archive, the wheel built from the tree, and a photo."""
    made = Desk(folder=tmp_path / "edge", home=tmp_path / "home")
    made.folder.mkdir()
    made.home.mkdir()
    root = tmp_path / "repository"
    shutil.copytree(SHAPES, root)
    archive = made.folder / "shapes.tar"
    assert run(["bundle", "build", "--root", str(root), "--out", str(archive)]) == 0
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made.folder)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    shutil.copy(SHAPES / "batch" / "yellow-cross.png", made.folder / "photo.png")
    return made


def test_an_edge_developer_verifies_runs_and_understands(desk: Desk) -> None:
    """Verify, validate, explain one case, see tampering refused, make a case of a photo."""
    digest = f"sha256:{verify_bundle(desk.folder / 'shapes.tar', '').digest}"
    (wheel,) = desk.folder.glob("*.whl")
    desk.section("The tool", "An environment of its own, beside the archive.")
    desk.type(f"python3 -m venv tools && pip install --quiet './{wheel.name}[preprocess]'")

    desk.section(
        "Is it whole, and is it the one?",
        "Offline; nothing is unpacked, loaded or trusted. The digest stands for every byte.",
    )
    said = desk.type(f"ci-parity bundle verify shapes.tar --digest {digest}")
    assert "whole, bundle of shapes" in said

    desk.section(
        "Does it do here what it did there?",
        "The pinned runtime is provided, the inputs are rebuilt from the pictures, the stored "
        "cases run, and the exit code is the answer.",
    )
    said = desk.type(f"ci-parity bundle validate shapes.tar --target cpu --digest {digest}")
    assert "PARITY PASS" in said

    desk.section("How was one case judged?", "From the picture to the verdict.")
    said = desk.type("ci-parity bundle explain shapes.tar typical")
    assert "pixels is to the bit what is stored" in said
    assert "red circle" in said
    assert "ci-parity.yml:" in said
    assert "5. Verdict: ✅ pass" in said

    desk.section(
        "A weight that was tampered with",
        "One byte of the graph is another one. It is refused before anything of it is loaded.",
    )
    desk.type("ci-parity bundle extract shapes.tar --out copy", shown=False)
    desk.type("printf x | dd of=copy/model.onnx bs=1 seek=900 conv=notrunc status=none")
    said = desk.type("ci-parity bundle verify copy", code=1)
    assert "model.onnx: was changed" in said
    desk.type("ci-parity bundle validate copy", code=4)
    desk.type("ci-parity bundle explain copy typical", code=4)

    desk.section(
        "My own picture",
        "The tensor of a photo is rebuilt by the same pipeline, the model answers, and the case is "
        "stored with its raw input: a bundle of one's own, to send back.",
    )
    desk.type("ci-parity bundle extract shapes.tar --out mine", shown=False)
    said = desk.type(
        "ci-parity fixtures add photo --raw photo.png --class typical --snapshot --root mine"
    )
    assert "pixels made of photo.png" in said
    desk.type("ci-parity bundle build --root mine --out mine.tar")
    said = desk.type("ci-parity bundle explain mine.tar photo")
    assert "yellow cross" in said
    assert "photo/photo.png" in said
    assert not [path.name for path in desk.home.iterdir() if path.name not in {".cache", ".local"}]
    if os.environ.get(RECORD) == "1":
        PAGE.write_text(desk.text, encoding="utf-8")
