"""Judging a bundle's folder on this machine, for `bundle validate`, `bundle fetch`, `rollback`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_parity.base.progress import Progress
    from ci_parity.records.verdict import Verdict

_NO_HISTORY = "a bundle has no history"


def judge_bundle(folder: Path, config: str, progress: "Progress", target: str = "") -> "Verdict":
    """Run the stored cases of a verified bundle, every target of its config, under its policy.

    With `target`, that one alone. Nothing is recorded, and no history is asked: the stored
    references are the baseline.

    Raises:
        CiParityError: there is no verdict.
    """
    from ci_parity.pipeline import CheckOptions, check

    with tempfile.TemporaryDirectory(prefix="ci-parity-") as scratch:
        # A log that has not begun: what the config names is not of this machine.
        log = f"file:{Path(scratch) / 'release-log.jsonl'}"
        wanted = CheckOptions(
            root=folder, config=config, no_base=_NO_HISTORY, log=log, force=True, target=target
        )
        return check(wanted, progress).verdict
