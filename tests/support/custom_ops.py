"""A library of custom operators that says when its code runs, really built."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ci_parity.base.digest import sha256_file

# The one function that onnxruntime looks for; null means that all went well.
_SOURCE = """
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
void *RegisterCustomOps(void *options, const void *api) {
    (void)options; (void)api;
    fputs("custom operators: WORD\\n", stderr);
    fflush(stderr);
    FAULT
    return 0;
}
"""


def built_library(path: Path, word: str, fault: str = "") -> str:
    """Build a library that prints a word when it is registered; return its SHA-256.

    Args:
        path: where it goes.
        word: what it prints.
        fault: a statement that runs next, such as `abort();`.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler as cc on PATH, such as Debian's gcc")
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(_SOURCE.replace("WORD", word).replace("FAULT", fault), encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    source.unlink()
    return sha256_file(path)
