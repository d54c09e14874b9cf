"""What a worker says of its kernels: read as strictly as anything untrusted."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_parity.base.errors import EvidenceError
from ci_parity.config import load
from ci_parity.records.coverage import Listing
from ci_parity.run.execute import Job
from ci_parity.run.kernels import listing_in, listing_of
from ci_parity.run.runtime import Launch

KERNEL: dict[str, Any] = {
    "domain": "", "op_type": "Relu", "first": 14, "last": None, "provider": "CPUExecutionProvider",
    "inputs": [["tensor(float)"]], "outputs": [["tensor(float)"]],
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "ok": True, "id": 2, "kernels": [KERNEL], "built_in": ["Constant"], "functions": True,
    "casts": [["float16", "float32"]],
}  # fmt: skip
HELLO = '{"ok": true, "id": 1, "protocol": 1, "verbs": ["hello", "kernels"]}'
RUNNER = """\
import sys
for line in sys.stdin:
    print(sys.argv[1] if '"hello"' in line else sys.argv[2], flush=True)
"""


def listing(folder: Path, hello: str, answer: str) -> Listing:
    """Return the listing of a program that answers these two lines."""
    program = folder / "runner.py"
    program.write_text(RUNNER)
    launch = Launch(
        argv=(sys.executable, str(program), hello, answer), label="runner", environment=""
    )
    target = load.target("t", {"runtime": "current"})
    job = Job(launch=launch, model=folder / "no.onnx", target=target, timeout_s=20)
    return listing_of(job, folder / "exchange")


def test_what_is_told_is_read(tmp_path: Path) -> None:
    """No model is loaded for it."""
    found = listing(tmp_path, HELLO, json.dumps(ANSWER))
    assert not found.why_not
    assert [kernel.op_type for kernel in found.kernels] == ["Relu"]
    assert found.built_in == ("Constant",)
    assert found.casts == (("float16", "float32"),)
    assert found.functions


def test_a_runner_without_the_verb_has_told_nothing(tmp_path: Path) -> None:
    """It is not asked."""
    hello = '{"ok": true, "id": 1, "protocol": 1, "verbs": ["hello"]}'
    assert listing(tmp_path, hello, "garbage") == Listing(
        why_not="the runner has no verb 'kernels'"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"ok": false, "id": 2, "error": "no registry in this build"}', "no registry"),
        ("garbage", "not the protocol's"),
        ('{"ok": true, "id": 2}', "unreadable kernels: 0 kernels"),
        ('{"ok": true, "id": 2, "kernels": "all"}', "unreadable kernels"),
    ],
)
def test_what_cannot_be_read_is_not_known(tmp_path: Path, answer: str, words: str) -> None:
    """With the reason; nothing of it counts."""
    found = listing(tmp_path, HELLO, answer)
    assert found.kernels == ()
    assert words in found.why_not


@pytest.mark.parametrize(
    "changed",
    [
        {"first": 0}, {"first": -3}, {"last": 13}, {"op_type": ""}, {"provider": ""},
        {"first": "14"}, {"inputs": "tensor(float)"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_kernel_that_cannot_be_spoils_the_listing(changed: dict[str, Any]) -> None:
    """Who gets one wrong is not believed in the others."""
    with pytest.raises(EvidenceError):
        listing_in({**ANSWER, "kernels": [KERNEL, {**KERNEL, **changed}]})
