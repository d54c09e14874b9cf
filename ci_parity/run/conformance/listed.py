"""The rule for what a runner lists of its own kernels: it can be read, and holds what it runs."""

from ci_parity.base.errors import EvidenceError
from ci_parity.run.conformance import models
from ci_parity.run.conformance.bench import Bench, FailedError, UnsupportedError
from ci_parity.run.kernels import VERB, listing_in


def lists_kernels(bench: Bench) -> None:
    """Ask for the kernels; a runner that loads an addition must list it.

    Raises:
        UnsupportedError: it does not list the verb.
        FailedError: the answer cannot be believed.
    """
    if VERB not in bench.ask("hello").get("verbs", ()):
        raise UnsupportedError("it does not list the verb")
    try:
        listing = listing_in(bench.ask(VERB))
    except EvidenceError as error:
        raise FailedError(f"unreadable kernels: {error.what}") from error
    bench.load(models.add())
    if "Add" not in {kernel.op_type for kernel in listing.kernels}:
        raise FailedError("it runs Add and lists no kernel for it")
