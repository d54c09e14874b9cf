"""What was observed for operator coverage, before a matrix is made of it; it travels."""

from dataclasses import dataclass

from ci_parity.records.coverage import AskedTarget, NodeCase, Signature, UsedSignature


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedModel:
    """What a model asks for, and the tests of that.

    `variant` is its name in the config, empty without one; `targets` are those that it runs on.
    `not_made` are reasons why some signatures have no test.
    """

    name: str
    variant: str
    sha256: str
    targets: tuple[str, ...]
    used: tuple[UsedSignature, ...]
    cases: tuple[NodeCase, ...]
    not_made: tuple[tuple[Signature, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """A target on which nothing ran: why, and what can be done about it."""

    target: str
    words: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageObservation:
    """All that a matrix is made of: models, and targets that were asked.

    `before` are the targets as they were validated last.
    """

    models: tuple[ObservedModel, ...] = ()
    targets: tuple[AskedTarget, ...] = ()
    before: tuple[AskedTarget, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
