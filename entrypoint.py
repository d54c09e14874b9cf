"""The container action's entry: the inputs become a `ci-parity check`, its exit code is ours."""

import sys

from ci_parity.cli import action

if __name__ == "__main__":
    sys.exit(action())
