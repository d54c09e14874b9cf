"""The process that writes a perturbed twin; `calibrate.twin` starts it."""

import sys

from ci_parity.calibrate.twin import main

main(sys.argv[1:])
