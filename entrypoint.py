"""The container action's entry: the inputs become a `ci-parity check`, its exit code is ours."""

import signal
import sys

from ci_parity.cli import action

if __name__ == "__main__":
    # The first process of a container is sent no signal that it does not handle.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(action())
