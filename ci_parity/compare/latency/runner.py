"""What a calibration says of a machine: which growth it can show, and what would help.

A machine can enforce a budget where a growth of that size fails with a probability of 80 % within
the sessions there may be. The figure is of the calibration's model; others spread differently.
"""

from ci_parity.compare.latency.rule import Limits, detectable
from ci_parity.config.model import LatencyPolicy
from ci_parity.records.finding import Finding, Subject
from ci_parity.records.latency import Calibration
from ci_parity.records.outcome import Outcome

_HELP = {
    "CPU governor": "set the CPU governor to performance",
    "two threads share a core": "switch the second threads of cores off, or pin around them",
    "virtual machine": "use a machine, or CPUs of one, that nobody shares",
    "load average": "let nothing else run meanwhile",
}


def shown_by(calibration: Calibration, policy: LatencyPolicy) -> float:
    """Return the growth that a machine shows in four of five runs."""
    limits = Limits(margin=policy.margin, budget=policy.max_regression, sessions=policy.sessions)
    return detectable(calibration.session_sd, policy.sessions, limits)


def can_enforce(calibration: Calibration, policy: LatencyPolicy) -> bool:
    """Whether a machine shows a growth as large as what must not pass."""
    return shown_by(calibration, policy) <= policy.max_regression


def advice(calibration: Calibration, policy: LatencyPolicy) -> list[str]:
    """Return what would make sessions spread less, what was seen of the machine first."""
    found = [
        help_text
        for start, help_text in _HELP.items()
        if any(condition.startswith(start) for condition in calibration.conditions)
    ]
    if not calibration.pinned:
        found.append("pin both sides to CPUs of their own (policy.latency.pin)")
    if len(calibration.pinned) != 1:
        found.append("run with fewer threads (intra_op_num_threads)")
    if policy.pairs < 80:
        found.append("time more pairs in a session (policy.latency.pairs)")
    return found


def runner_finding(
    subject: Subject, calibration: Calibration | None, policy: LatencyPolicy
) -> Finding | None:
    """Return that a machine cannot enforce what is asked; nothing where it can or is not known."""
    if calibration is None or can_enforce(calibration, policy):
        return None
    shown = shown_by(calibration, policy)
    return Finding(
        id="latency.runner",
        outcome=Outcome.INCONCLUSIVE,
        subject=subject,
        evidence=f"this runner cannot enforce {100 * policy.max_regression:g} %: its sessions "
        f"spread by {100 * calibration.session_sd:.2g} % (calibrated "
        f"{calibration.recorded_at[:10]}), so that +{100 * shown:.2g} % is the smallest growth "
        "it shows in four of five runs",
        measured=shown,
        limit=policy.max_regression,
        required=shown,
        remedy="; ".join(advice(calibration, policy)),
        advisory=True,
    )
