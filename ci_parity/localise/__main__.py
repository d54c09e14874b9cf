"""The process that prepares a model; `localise.prepare` starts it."""

import sys

from ci_parity.localise.prepare import main

main(sys.argv[1:])
