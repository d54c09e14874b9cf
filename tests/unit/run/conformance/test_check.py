"""Each rule finds the runner that breaks it, and no other rule does."""

import sys
from pathlib import Path

import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import SilentProgress
from ci_parity.run.conformance import RULES, Check, Mark, check_runner
from ci_parity.run.runtime import WORKERS

# A runner like ours for the reference evaluator, into which a test puts one fault.
FAULTY = """\
import os, sys, time
sys.path.insert(0, {workers!r})
import wire
import onnx_worker

class Faulty(onnx_worker.Evaluated):
    pass

onnx_worker.Evaluated = Faulty
{fault}
wire.serve(onnx_worker.Reference())
"""
# What a runner does wrong, and every rule that says so.
FAULTS = {
    "names outputs by number": (
        (
            "init = Faulty.__init__\n"
            "def renamed(self, *arguments):\n"
            "    init(self, *arguments)\n"
            "    self.values = lambda result: [onnx_worker.value_of(v) for v in result]\n"
            "    self.names = [p['name'] for p in self.outputs]\n"
            "    self.infer = lambda prepared: self.evaluator.run(self.names, prepared)\n"
            "    self.outputs = [dict(p, name=f'out{i}') for i, p in enumerate(self.outputs)]\n"
            "Faulty.__init__ = renamed"
        ),
        {"Add, exactly", "MatMul, exactly", "a model takes batches of any size"},
    ),
    "rounds to half precision": (
        (
            "import numpy as np\n"
            "Faulty.values = lambda self, result: [\n"
            "    r.astype('float16').astype('float32') if getattr(r, 'dtype', '') == np.float32\n"
            "    else onnx_worker.value_of(r) for r in result]"
        ),
        {"float32 goes through unchanged"},
    ),
    "takes any input": (
        "wire.check_feeds = lambda ports, feeds: None",
        {"inputs that do not fit are errors, and the next case runs"},
    ),
    "ignores options": (
        "wire.options_of = lambda *arguments: {}",
        {"an unknown session option is an error"},
    ),
    "claims every provider": (
        "wire.on_cpu = lambda runtime, request: request['provider']",
        {"an unknown provider is not in use"},
    ),
    "says it runs elsewhere": (
        "wire.on_cpu = lambda runtime, request: 'CPU'",
        {"load says where the model runs"},
    ),
    "writes beside its outputs": (
        (
            "write = wire.write_value\n"
            "def noisy(name, value, folder, stem):\n"
            "    open(os.path.join(folder, 'debug.log'), 'w').close()\n"
            "    return write(name, value, folder, stem)\n"
            "wire.write_value = noisy"
        ),
        {"files are written only where it was told"},
    ),
    "writes beside the inputs": (
        (
            "read = wire.read_value\n"
            "def noisy(record, folder):\n"
            "    open(os.path.join(folder, 'cache.bin'), 'w').close()\n"
            "    return read(record, folder)\n"
            "wire.read_value = noisy"
        ),
        {"files are written only where it was told"},
    ),
    "writes every case to the same file": (
        (
            "write = wire.write_outputs\n"
            "wire.write_outputs = lambda m, r, folder, stem: write(m, r, folder, 'c0')"
        ),
        {"cases have files of their own"},
    ),
    "reports every repetition": (
        "wire.content = lambda records, folder: object()",
        {"repeat reports only runs that differ"},
    ),
    "times in floats": (
        "wire.Worker.time = lambda self, request: {'samples_ns': [0.5] * 9}",
        {"time answers durations in nanoseconds"},
    ),
    "counts no node": (
        (
            "onnx_worker.Reference.more_verbs = ('placement',)\n"
            "placed = {'method': 'device', 'operators': [], 'memcpy': 0}\n"
            "onnx_worker.Reference.placement = lambda self, request, feeds: placed"
        ),
        {"placement counts nodes by provider and operator"},
    ),
    "lists kernels without what it runs": (
        (
            "onnx_worker.Reference.more_verbs = ('kernels',)\n"
            "kernel = {'domain': '', 'op_type': 'Relu', 'first': 1, 'last': None}\n"
            "kernel['provider'] = 'CPUExecutionProvider'\n"
            "onnx_worker.Reference.kernels = lambda self: {'kernels': [kernel]}"
        ),
        {"kernels are listed by operator, version and type"},
    ),
    "dies of a missing file": (
        (
            "read = wire.read_value\n"
            "def strict(record, folder):\n"
            "    path = os.path.join(folder, record.get('file', ''))\n"
            "    return read(record, folder) if os.path.exists(path) else os._exit(7)\n"
            "wire.read_value = strict"
        ),
        {"a missing input file is an error"},
    ),
    "does not end": (
        "os._exit = lambda status: time.sleep(1000)",
        {"close ends the program"},
    ),
    "speaks another version": ("wire.PROTOCOL = 2", {"hello says who answers"}),
}


PLACEMENT = "placement counts nodes by provider and operator"
KERNELS = "kernels are listed by operator, version and type"
LACKS: dict[str, tuple[str, ...]] = {"onnxruntime": (), "onnx": (PLACEMENT, KERNELS)}


def checked(folder: Path, *argv: str) -> dict[str, Check]:
    """Return the checks of a program by their names."""
    with SilentProgress().step("", 0) as step:
        found = check_runner(
            argv, folder / "work", provider="CPUExecutionProvider", timeout_s=20, step=step
        )
    assert [check.name for check in found] == [rule.name for rule in RULES]
    return {check.name: check for check in found}


@pytest.mark.parametrize("name", ["onnxruntime", "onnx"])
def test_our_workers_break_no_rule(tmp_path: Path, name: str) -> None:
    """Those whose runtime is installed here; the others are checked in their environments."""
    worker = WORKERS / f"{name}_worker.py"
    found = checked(tmp_path, sys.executable, "-I", "-B", str(worker))
    marks = {check.name: check.mark for check in found.values() if check.mark is not Mark.PASSED}
    assert marks == dict.fromkeys(LACKS[name], Mark.UNSUPPORTED)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_the_rule_it_breaks(tmp_path: Path, fault: str) -> None:
    """With what was seen and what to do; the other rules are not taken in by it."""
    code, rules = FAULTS[fault]
    script = tmp_path / "runner.py"
    script.write_text(FAULTY.format(workers=str(WORKERS), fault=code), encoding="utf-8")
    found = checked(tmp_path, sys.executable, "-B", str(script))
    broken = {name: check for name, check in found.items() if check.mark is Mark.FAILED}
    assert rules <= broken.keys()
    if len(rules) == 1:
        assert broken.keys() == rules
    assert all(check.detail and check.remedy for check in broken.values())


def test_what_a_runner_may_leave_out_is_no_fault(tmp_path: Path) -> None:
    """An error answer to an element type is a limit, not a lie."""
    fault = (
        "read = wire.read_value\n"
        "def limited(record, folder):\n"
        "    if record.get('dtype') not in ('float32', 'int64'):\n"
        "        raise ValueError('floats alone')\n"
        "    return read(record, folder)\n"
        "wire.read_value = limited"
    )
    script = tmp_path / "runner.py"
    script.write_text(FAULTY.format(workers=str(WORKERS), fault=fault), encoding="utf-8")
    found = checked(tmp_path, sys.executable, "-B", str(script))
    limited = {name for name, check in found.items() if check.mark is Mark.UNSUPPORTED}
    assert {"bool goes through unchanged", "string goes through unchanged"} <= limited
    assert not any(check.mark is Mark.FAILED for check in found.values())


@pytest.mark.parametrize("code", ["print('hello, world')", "raise SystemExit(3)"])
def test_a_program_that_is_no_runner_fails_every_rule(tmp_path: Path, code: str) -> None:
    """And the check comes to its end."""
    found = checked(tmp_path, sys.executable, "-c", code)
    assert {check.mark for check in found.values()} == {Mark.FAILED}


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """There is nothing to check."""
    with pytest.raises(InfrastructureError):
        checked(tmp_path, str(tmp_path / "absent"))
