"""The process that writes the standard's node tests; `coverage.suite` starts it."""

import sys

from ci_parity.coverage.generate import main

main(sys.argv[1:])
