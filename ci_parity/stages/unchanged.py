"""Step 4 for a run that had nothing to do; light, because such runs should cost nothing."""

import platform
from collections.abc import Sequence
from pathlib import Path

from ci_parity import __version__
from ci_parity.records.finding import Finding
from ci_parity.records.identity import ChangeSet
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Environment, Verdict


def unchanged(
    deployment: str, changes: ChangeSet, bundle: str, findings: Sequence[Finding] = ()
) -> Verdict:
    """Return the verdict of a run that had nothing to do: the baseline's evidence still holds.

    Unless a finding binds, which no run is needed for: an entry of the ledger that has expired.
    """
    binding = [f.outcome for f in findings if not f.advisory and f.outcome is not Outcome.PASS]
    summary = f"nothing that can change the results differs from {changes.source.label}"
    return Verdict(
        command="check",
        deployment=deployment,
        outcome=Outcome.worst([Outcome.PASS, *binding]),
        ran=False,
        summary=f"{summary}, but not everything holds any more" if binding else summary,
        rows=(),
        findings=tuple(findings),
        outputs=(),
        latency=(),
        changes=changes,
        environment=Environment(host=host_name(), systems=()),
        inputs_source="fixtures",
        inputs_count=0,
        bundle_digest=bundle,
        reproduce=("ci-parity check --force",),
        tool_version=__version__,
    )


def host_name() -> str:
    """Return the operating system, its release, the architecture and the CPU of this machine."""
    words = [platform.system(), platform.release(), platform.machine(), _cpu_model()]
    return ", ".join(word for word in words if word)


def _cpu_model() -> str:
    """Return the CPU's name where the kernel tells it, as Linux does."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
