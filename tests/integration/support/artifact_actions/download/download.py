"""Copies artifacts to a folder, under the rules of actions/download-artifact.

One that is named must be there, and comes without a folder of its own; a pattern may find none.
Another run's artifacts need its number and a token.
"""

import fnmatch
import os
import shutil
import sys
from pathlib import Path

_STORE = Path(os.environ["CI_PARITY_TEST_ARTIFACTS"])


def main() -> int:
    """Bring what was asked for; return the exit code."""
    name, pattern = os.environ["NAME"], os.environ["PATTERN"]
    folder = Path(os.environ["FOLDER"])
    if bool(os.environ["RUN_ID"]) != bool(os.environ["TOKEN"]):
        sys.stdout.write("::error::another run's artifacts need run-id and github-token\n")
        return 1
    there = sorted(path.name for path in _STORE.iterdir())
    if name:
        if name not in there:
            sys.stdout.write(f"::error::Artifact not found for name: {name}\n")
            return 1
        shutil.copytree(_STORE / name, folder, dirs_exist_ok=True)
        return 0
    found = [one for one in there if fnmatch.fnmatchcase(one, pattern or "*")]
    for one in found:
        shutil.copytree(_STORE / one, folder / one, dirs_exist_ok=True)
    sys.stdout.write(f"{len(found)} artifacts\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
