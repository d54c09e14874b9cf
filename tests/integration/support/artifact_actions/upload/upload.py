"""Copies what a pattern finds to the artifact's folder, under the rules of actions/upload-artifact.

Names are unique per run, hidden files stay behind, and the folder that all files have in common is
left out of their paths.
"""

import os
import re
import shutil
import sys
from pathlib import Path

_STORE = Path(os.environ["CI_PARITY_TEST_ARTIFACTS"])


def main() -> int:
    """Store one artifact; return the exit code."""
    name, pattern = os.environ["NAME"], os.environ["ITEMS"]
    if not name or re.search(r'[":<>|*?\r\n\\/]', name):
        return _error(f"The artifact name is not valid: {name}")
    if not 0 <= int(os.environ["RETENTION_DAYS"]) <= 90:
        return _error("retention-days is not between 0 and 90")
    found = list(Path().glob(pattern)) if pattern else []
    files = [file for path in found for file in ([path] if path.is_file() else path.rglob("*"))]
    shown = sorted({file for file in files if file.is_file() and not _hidden(file)})
    if not shown:
        kind = os.environ["IF_NO_FILES_FOUND"]
        sys.stdout.write(f"No files were found with the provided path: {pattern}.\n")
        return 1 if kind == "error" else 0
    target = _STORE / name
    if target.exists() and os.environ["OVERWRITE"] != "true":
        return _error("(409) Conflict: an artifact with this name already exists on the run")
    shutil.rmtree(target, ignore_errors=True)
    top = Path(os.path.commonpath([file.parent for file in shown]))
    for file in shown:
        copy = target / file.relative_to(top)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    sys.stdout.write(f"Artifact {name} has {len(shown)} files\n")
    return 0


def _hidden(file: Path) -> bool:
    return any(part.startswith(".") and part not in {".", ".."} for part in file.parts)


def _error(message: str) -> int:
    sys.stdout.write(f"::error::{message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
