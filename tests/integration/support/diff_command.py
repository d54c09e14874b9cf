"""`ci-parity diff` on pinned runtimes, in process; the report is read back under its schema.

Environments are kept in the test cache: those of the user who runs the tests are left alone.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from ci_parity.cli import run
from ci_parity.report.json_v1 import schema
from tests.integration.support.cache import cache_dir

# The first onnxruntime with wheels for a Python, and so for the Pythons before it.
_FIRST_WITH_WHEELS = {(3, 12): "1.17.0", (3, 13): "1.20.0", (3, 14): "1.24.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a diff left behind."""

    code: int
    report: Mapping[str, Any]

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        """The binding findings that failed."""
        found = self.report["findings"]
        return [f for f in found if f["outcome"] == "fail" and not f["advisory"]]


def environments() -> Path:
    """Return the folder in which the tests keep environments."""
    return cache_dir() / "environments"


def diff(folder: Path, *words: str) -> Result:
    """Run a diff that must reach a verdict; the report is written below ``folder``."""
    report = folder / "report.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CI_PARITY_CACHE", str(environments()))
        code = run(["diff", *words, "--json", str(report)])
    assert report.exists(), f"no verdict, exit code {code}"
    parsed = json.loads(report.read_text(encoding="utf-8"))
    jsonschema.validate(parsed, schema("diff-v1"))
    assert code == {"pass": 0, "fail": 1, "inconclusive": 3}[parsed["outcome"]]
    return Result(code=code, report=parsed)


def lacks_wheels(requirement: str) -> str:
    """Say why a pinned onnxruntime cannot be installed under this Python; empty if it can."""
    if not requirement.startswith("onnxruntime=="):
        return ""
    here = sys.version_info[:2]
    pinned = Version(next(iter(Requirement(requirement).specifier)).version)
    for python, first in _FIRST_WITH_WHEELS.items():
        if python <= here and pinned < Version(first):
            return f"{requirement} has no wheel for Python 3.{here[1]}: run with an older Python"
    return ""
