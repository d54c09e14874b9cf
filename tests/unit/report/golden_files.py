"""Reports as they stand in golden/; `UPDATE_GOLDEN=1 pytest tests/unit/report` writes them anew."""

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """Compare a report with its golden file; a difference is read, then accepted or mended."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"no {name} yet: run UPDATE_GOLDEN=1 pytest tests/unit/report"
    accepted = path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(accepted.splitlines(), text.splitlines(), name, "now", lineterm="")
    assert text == accepted, "\n".join(lines)
