"""The conformance check of a runner: does this program speak the worker protocol, exactly?"""

from ci_parity.run.conformance.check import Check, Mark, check_runner
from ci_parity.run.conformance.rules import RULES

__all__ = ["RULES", "Check", "Mark", "check_runner"]
