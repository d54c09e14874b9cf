"""A worker that computes sees no end of its input: it looks itself whether its parent is there.

Runs on Python 3.8 and later. Where a process has no parent that can end, as the first one of a
container, nothing comes of it.
"""

from __future__ import annotations

import os
import threading
import time

LOOK_EVERY_S = 1.0


def end_with_parent() -> None:
    """End this process soon after the one that started it, however that ended."""
    threading.Thread(target=wait_for_end_of, args=(os.getppid(),), daemon=True).start()


def wait_for_end_of(parent: int) -> None:
    """End this process when its parent is another one."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    os._exit(1)
