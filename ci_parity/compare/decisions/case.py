"""All decisions on one case: every one the policy names, and advice where it names none.

What cannot be decided (an output that is absent, of another kind, without the axis) is
`inconclusive`, never a pass.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ci_parity.compare.decisions.advice import advise
from ci_parity.compare.decisions.detections import Paired, beside_each_other, pair
from ci_parity.compare.decisions.findings import UnusableError, undecided
from ci_parity.compare.decisions.kinds import (
    Output,
    decide_cosine,
    decide_detections,
    decide_kl,
    decide_text,
    decide_threshold,
    decide_top_k,
)
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.tables import table_of
from ci_parity.config.decisions import Decision, Detections
from ci_parity.records.finding import Finding, OutputComparison, Subject
from ci_parity.records.values import Value, element_type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ci_parity.compare.metrics import Allowance

    Array = npt.NDArray[np.generic]
    Arrays = Mapping[str, Array]
    AllowanceOf = Callable[[str, Array], Allowance]


class CaseDecisions:
    """The decisions on one case.

    Args:
        subject: the case.
        baseline: the outputs that both sides have, by name, of the baseline.
        candidate: those of the candidate.
        decisions: what the policy names.
        allowance_of: what the tolerance allows each float output; near ties follow from it.
    """

    def __init__(
        self, subject: Subject, baseline: Mapping[str, Value], candidate: Mapping[str, Value],
        decisions: Mapping[str, Decision], allowance_of: "AllowanceOf",
    ) -> None:  # fmt: skip
        self._subject = subject
        self._values = baseline, candidate
        self._arrays = _arrays(baseline), _arrays(candidate)
        self._decisions = decisions
        self._allowance_of = allowance_of
        self._paired = {
            name: _pair(name, decision.detections, *self._arrays)
            for name, decision in decisions.items()
            if decision.detections is not None
        }

    def tensors(self) -> Iterator[tuple[str, Value, Value]]:
        """Yield what the tensor comparison compares: outputs by name, in the baseline's order.

        Outputs whose rows are detections hold the paired ones alone, beside each other. The output
        that counts them is left out then: its number is the decision's.
        """
        left, right = dict(self._values[0]), dict(self._values[1])
        for paired in self._paired.values():
            if isinstance(paired, Paired):
                beside = beside_each_other(paired, *self._arrays)
                left.update(beside[0])
                right.update(beside[1])
                if beside[0]:
                    left.pop(paired.policy.count, None)
        yield from ((name, value, right[name]) for name, value in left.items())

    def findings(self, comparisons: Sequence[OutputComparison]) -> tuple[Finding, ...]:
        """Return a finding for each decision; `comparisons` are the numbers of this case."""
        found = [
            finding
            for name, decision in self._decisions.items()
            for finding in self._decided(name, decision)
        ]
        for comparison in comparisons:
            found.extend(self._advice(comparison))
        return tuple(found)

    def _decided(self, name: str, decision: Decision) -> Iterator[Finding]:
        """Yield the findings of what one name decides; a judge of the repository is not ours."""
        subject = replace(self._subject, output=name)
        d = decision
        kinds: Sequence[tuple[str, Callable[[Output], Finding] | None]] = (
            ("top_k", partial(decide_top_k, policy=d.top_k) if d.top_k else None),
            ("threshold", partial(decide_threshold, policy=d.threshold) if d.threshold else None),
            ("kl", partial(decide_kl, policy=d.kl) if d.kl else None),
            ("cosine", partial(decide_cosine, policy=d.cosine) if d.cosine else None),
            ("text", partial(decide_text, policy=d.text) if d.text else None),
        )
        for kind, decide in kinds:
            if decide is not None:
                try:
                    yield decide(self._output(subject))
                except UnusableError as error:
                    yield undecided(kind, subject, str(error))
        if decision.detections is not None:
            yield self._detected(subject, decision.detections)

    def _detected(self, subject: Subject, policy: Detections) -> Finding:
        paired = self._paired[subject.output]
        if not isinstance(paired, Paired):
            return undecided("detections", subject, paired)
        scores = policy.scores or subject.output
        leeway = self._leeway(scores, self._arrays[0][scores])
        return decide_detections(subject, paired, leeway, policy)

    def _output(self, subject: Subject) -> Output:
        """Return an output of both sides.

        Raises:
            UnusableError: a side has no such output, it is no array, or its classes differ.
        """
        name = subject.output
        if name not in self._values[0]:
            known = ", ".join(map(repr, self._values[0])) or "none"
            raise UnusableError(f"there is no output {name!r} on both sides; there are {known}")
        (left, own), (right, other) = (table_of(side[name]) for side in self._values)
        if own != other:
            raise UnusableError("the two sides name other classes")
        return Output(
            subject=subject, baseline=left, candidate=right, own=own,
            leeway=self._leeway(name, left),
        )  # fmt: skip

    def _leeway(self, name: str, array: "Array") -> Leeway:
        # Anything but floats must be equal.
        inexact = element_type(array).startswith(("float", "bfloat"))
        return Leeway(array.size, partial(self._allowance_of, name, array) if inexact else None)

    def _advice(self, comparison: OutputComparison) -> tuple[Finding, ...]:
        """Return what is worth saying of a tensor that no decision is about."""
        name = comparison.subject.output
        # ZipMap's scores are one part of their output.
        name = name if name in self._values[0] else name.removesuffix(".values")
        covered = {
            output
            for decided, decision in self._decisions.items()
            for output in (decided, *_covered(decided, decision))
        }
        try:
            output = self._output(replace(self._subject, output=name))
        except UnusableError:
            return ()
        if name in covered or output.baseline.shape != comparison.shape:
            return ()
        return advise(comparison, output.baseline, output.candidate, output.leeway, output.own)


def _covered(name: str, decision: Decision) -> tuple[str, ...]:
    return decision.detections.outputs(name) if decision.detections else ()


def _arrays(values: Mapping[str, Value]) -> "Arrays":
    import numpy as np

    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _pair(name: str, policy: Detections, baseline: "Arrays", candidate: "Arrays") -> Paired | str:
    """Return the pairing of a detections decision, or why there is none."""
    try:
        return pair(name, policy, baseline, candidate)
    except UnusableError as error:
        return str(error)
