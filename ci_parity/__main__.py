"""`python -m ci_parity` is `ci-parity`."""

from ci_parity.cli import main

main()
