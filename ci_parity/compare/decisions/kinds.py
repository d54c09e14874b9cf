"""Each kind of decision on an output that both sides have: labels read, judged, labels checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_parity.compare.decisions.detections import Paired, judge_detections
from ci_parity.compare.decisions.distributions import judge_kl
from ci_parity.compare.decisions.findings import UnusableError, with_reservation
from ci_parity.compare.decisions.labels import read_labels
from ci_parity.compare.decisions.leeway import Leeway
from ci_parity.compare.decisions.ranking import judge_top_k
from ci_parity.compare.decisions.rows import rows_of
from ci_parity.compare.decisions.text import judge_text, symbols
from ci_parity.compare.decisions.threshold import judge_threshold
from ci_parity.compare.decisions.vectors import judge_cosine
from ci_parity.config.decisions import Cosine, Detections, Divergence, Text, Threshold, TopK
from ci_parity.records.finding import Finding, Subject

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of both sides; `own` are the names it has for its classes, if any."""

    subject: Subject
    baseline: "Array"
    candidate: "Array"
    leeway: Leeway
    own: tuple[str, ...] = ()

    def same_shape(self) -> None:
        """Refuse sides that cannot be laid on each other.

        Raises:
            UnusableError: their shapes differ.
        """
        if self.baseline.shape != self.candidate.shape:
            raise UnusableError(
                f"shape {list(self.candidate.shape)}, the baseline has {list(self.baseline.shape)}"
            )


def decide_top_k(output: Output, policy: TopK) -> Finding:
    """Decide by the highest classes.

    Raises:
        UnusableError: there are none.
    """
    output.same_shape()
    labels = read_labels(policy.labels, output.own)
    finding = judge_top_k(
        output.subject, output.baseline, output.candidate, policy, output.leeway, labels.names
    )
    classes = rows_of(output.baseline, policy.axis).classes
    return with_reservation(finding, labels.problem_with(classes))


def decide_threshold(output: Output, policy: Threshold) -> Finding:
    """Decide by the side of the threshold.

    Raises:
        UnusableError: the output holds no numbers, or labels are given for an axis it has not.
    """
    output.same_shape()
    labels = read_labels(policy.labels, output.own)
    shape = output.baseline.shape
    if policy.labels and not -len(shape) <= policy.axis < len(shape):
        raise UnusableError(f"axis {policy.axis} does not exist in the shape {list(shape)}")
    finding = judge_threshold(
        output.subject, output.baseline, output.candidate, policy, output.leeway, labels.names
    )
    return with_reservation(finding, labels.problem_with(shape[policy.axis]) if shape else "")


def decide_kl(output: Output, policy: Divergence) -> Finding:
    """Decide by the divergence of distributions.

    Raises:
        UnusableError: the output holds no numbers or has no such axis.
    """
    output.same_shape()
    return judge_kl(output.subject, output.baseline, output.candidate, policy)


def decide_cosine(output: Output, policy: Cosine) -> Finding:
    """Decide by the directions of vectors.

    Raises:
        UnusableError: the output holds no numbers or has no such axis.
    """
    output.same_shape()
    return judge_cosine(output.subject, output.baseline, output.candidate, policy)


def decide_text(output: Output, policy: Text) -> Finding:
    """Decide by the decoded texts; an alphabet for `ctc` may have the blank or leave it out.

    Raises:
        UnusableError: the output cannot be decoded in this way.
    """
    labels = read_labels(policy.alphabet)
    classes = rows_of(output.baseline, policy.axis).classes if policy.decode == "ctc" else None
    finding = judge_text(
        output.subject, output.baseline, output.candidate, policy, output.leeway,
        symbols(labels.names, policy, classes),
    )  # fmt: skip
    if classes is None:
        return with_reservation(finding, labels.problem)
    classes -= policy.append_space
    return with_reservation(finding, labels.problem_with(classes - 1, classes))


def decide_detections(
    subject: Subject, paired: Paired, leeway: Leeway, policy: Detections
) -> Finding:
    """Decide by the set of detections."""
    labels = read_labels(policy.labels)
    finding = judge_detections(subject, paired, leeway, labels.names)
    unnamed = _unnamed(paired, labels.names) if labels.file else ""
    return with_reservation(finding, labels.problem or unnamed)


def _unnamed(paired: Paired, names: Sequence[str]) -> str:
    """Say that a class of a detection has no name, empty where all have one."""
    highest = max(
        float(table.label[table.kept].max(initial=0.0))
        for table in (paired.baseline, paired.candidate)
    )
    return f"class {highest:g} has no name, {len(names)} are given" if highest >= len(names) else ""
