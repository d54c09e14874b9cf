"""What each check means, in a sentence: the rules that SARIF lists and help texts show.

A check that is not in the list is explained by its family, so that none is without a word. A test
holds the list against the findings that the code can make.
"""

from collections.abc import Mapping

_GUIDE = "https://github.com/ci-parity/ci-parity/blob/main/docs"

FAMILIES: Mapping[str, tuple[str, str]] = {
    "attribution": ("What carries a deviation", "detection.md"),
    "baseline": ("The baseline must run, too", "detection.md"),
    "boundary": ("A boundary needs both of its sides", "boundaries.md"),
    "case": ("Every stored case must run on the candidate", "fixtures.md"),
    "cases": ("Every stored case must run, and once", "fixtures.md"),
    "compared": ("Something must be compared", "boundaries.md"),
    "contract": ("What the product relies on must hold", "contract.md"),
    "coverage": ("Operators that a model uses must be right by themselves", "coverage.md"),
    "decision": ("What the product decides must stay", "decisions.md"),
    "divergence": ("Where a deviation begins", "localise.md"),
    "fixtures": ("Evidence must not be weakened unseen", "policy.md"),
    "gate": ("Everything that was planned must arrive, and be what it says", "fanout.md"),
    "host": ("What a new runtime asks of the host", "detection.md"),
    "latency": ("The candidate must not be slower than allowed", "config.md"),
    "ledger": ("A loosening that is meant has an end", "policy.md"),
    "load": ("The candidate must load the model", "runner-protocol.md"),
    "memory": ("The candidate must not need more memory than allowed", "config.md"),
    "model": ("What a new runtime asks of the model", "detection.md"),
    "output": ("Outputs must agree within their tolerance", "tolerances.md"),
    "outputs": ("A case must bring outputs", "boundaries.md"),
    "placement": ("Nodes must run where they are asked to", "placement.md"),
    "policy": ("Rules must not be loosened unseen", "policy.md"),
    "preprocess": ("The stored inputs must be what the application makes", "preprocess.md"),
    "provider": ("The requested provider must be in use", "placement.md"),
    "reference": ("A stored reference must be there", "fixtures.md"),
    "rejudge": ("Stored observations must hold what is asked", "policy.md"),
    "removed": ("What was removed is still judged", "policy.md"),
    "repeat": ("The same input must give the same outputs", "contract.md"),
    "report": ("A report says what it left out", "reports.md"),
    "runtime": ("What a new runtime brings", "detection.md"),
    "self": ("The candidate must agree with itself", "contract.md"),
    "target": ("A target must not vanish unseen", "policy.md"),
    "variant": ("A variant must not vanish unseen", "policy.md"),
}

CHECKS: Mapping[str, str] = {
    "attribution": "One axis was swapped at a time until the cause was named.",
    "baseline.case": "A case did not run on the baseline, so nothing can be compared with it.",
    "baseline.load": "The baseline does not load its model, so nothing can be compared with it.",
    "baseline.unavailable": "The baseline's commit, model or runtime cannot be had here.",
    "boundary.unquantized": "A quantized variant has no unquantized one to be compared with.",
    "case.crash": "The runtime crashed on a case.",
    "case.error": "The runtime refused a case with an error.",
    "case.not_run": "A stored case was not run on the candidate.",
    "case.protocol": "The runtime's process did not keep to the worker protocol.",
    "case.refused": "Neither side takes an input that was generated.",
    "case.timeout": "A case took longer than policy.timeout_s.",
    "case.unreadable": "What a case brought cannot be read.",
    "cases.duplicate": "Two cases have one name, so that one of them was not compared.",
    "cases.none": "The fixture set holds no case.",
    "compared.nothing": "There are neither references nor a baseline to compare with.",
    "contract.domain": "The graph uses an operator domain that the contract does not name.",
    "contract.dtype": "A port has another element type than the contract states.",
    "contract.dynamic": "A dimension that must vary is fixed in the graph.",
    "contract.finite": "An output holds NaN or infinities where the contract has none.",
    "contract.fixtures": "Stored inputs or references contradict the contract.",
    "contract.graph": "The graph is held against the contract's ports and operator sets.",
    "contract.layout": "A port has another layout than the contract states.",
    "contract.name": "A port that the contract names is not there, or another one must be fed.",
    "contract.not_run": "A size that the contract lists was not run.",
    "contract.opset": "The graph needs a newer operator set than the contract takes.",
    "contract.outputs": "Outputs are held against the contract's types, shapes and ranges.",
    "contract.range": "A value lies outside of the contract's range.",
    "contract.shape": "A port has another shape than the contract states, or a size was refused.",
    "contract.unreadable": "A value cannot be read, so the contract cannot be judged.",
    "coverage.around": "Edges around the operators that the model uses fail their tests.",
    "coverage.failing": "An operator that the model uses fails a test of just that operator.",
    "coverage.unmeasured": "No test of an operator ran on the target.",
    "coverage.unsupported": "The runtime refuses an operator that the model uses, or lists none.",
    "coverage.untested": "No test reaches an operator as the model uses it.",
    "decision.argmax": "The largest element of a row is another one.",
    "decision.cosine": "A vector points elsewhere than allowed.",
    "decision.custom": "A judge of the repository decided.",
    "decision.detections": "Detections came, went or moved more than allowed.",
    "decision.kl": "A distribution is further away than allowed.",
    "decision.text": "A decoded text differs by more edits than allowed.",
    "decision.threshold": "An element crossed its threshold.",
    "decision.top_k": "The highest classes of a row changed.",
    "divergence": "The graph was searched for the first node that goes wrong.",
    "fixtures.case_dropped": "The fixture set no longer has a case of the baseline's.",
    "fixtures.inputs_edited": "A case has other inputs than on the baseline.",
    "fixtures.reference_edited": "A reference has other values for the same inputs.",
    "gate.artifact_refused": "An artifact is foreign, unplanned, torn, altered or malformed.",
    "gate.baseline_moved": "A leg compared with another baseline than was planned.",
    "gate.job": "A job before the gate did not succeed.",
    "gate.leg_doubled": "A leg arrived more than once.",
    "gate.leg_empty": "A leg kept no case.",
    "gate.leg_missing": "A planned leg brought no observations.",
    "gate.no_artifacts": "There is no folder with artifacts.",
    "gate.not_planned": "A pair that must run has no leg.",
    "gate.not_run": "A leg did not run a variant that was planned.",
    "gate.other_identity": "A pair is another one on its leg than at the gate.",
    "gate.other_machine": "Parts of one target ran on machines of different kinds.",
    "gate.trial_missing": "A leg lacks what the baseline's rules ask for.",
    "gate.unplanned": "There are more artifacts than any plan has.",
    "host.compute": "A GPU is older than the kernels of the new runtime.",
    "host.driver": "The NVIDIA driver is older than the new runtime's CUDA needs.",
    "host.python": "The new runtime has no wheel for this Python.",
    "latency.runner": "This runner cannot show a change as small as what is to be enforced.",
    "latency.p50": "The median time of an inference is held against policy.latency.",
    "ledger.expired": "An entry of policy.ledger has ended: it allows nothing and fails the run.",
    "ledger.expiring": "An entry of policy.ledger ends within 14 days.",
    "ledger.unknown": "An entry of policy.ledger is about nothing.",
    "load.crash": "The runtime crashed while it loaded the model.",
    "load.error": "The runtime refused the model with an error.",
    "load.not_run": "The model was not loaded.",
    "load.protocol": "The runtime's process did not keep to the worker protocol.",
    "load.timeout": "Loading took longer than policy.timeout_s.",
    "memory.growth": "Memory grows from inference to inference.",
    "memory.peak": "The candidate needs more memory than allowed.",
    "model.ir": "A model's IR version is beyond what the new runtime loads.",
    "model.opset": "A model's operator set is outside of what the new runtime supports.",
    "output.dtype": "An output has another element type.",
    "output.extra": "The candidate has an output that the baseline has not.",
    "output.missing": "The candidate lacks an output of the baseline's.",
    "output.order": "The outputs stand in another order.",
    "output.parts": "A sequence or map has other parts.",
    "output.shape": "An output has another shape.",
    "output.values": "The values of an output are further apart than its tolerance allows.",
    "outputs.none": "A case brought no outputs on either side.",
    "placement.fallback": "The runtime says that it fell back from the provider.",
    "placement.graph": "The runtime made other kernels of the same nodes than on the baseline.",
    "placement.joined": "Nodes run on the provider that did not on the baseline.",
    "placement.left": "Nodes no longer run on the provider.",
    "placement.memcpy": "There are more copies between providers than allowed.",
    "placement.nothing": "The provider is in use and ran no node.",
    "placement.operators": "Operators that must run on the provider ran elsewhere.",
    "placement.precision": "Kernels take floating-point types that the target does not allow.",
    "placement.share": "The provider ran a smaller part of the nodes than asked for.",
    "placement.types": "Kernels take or cast between other types than on the baseline.",
    "placement.unmeasured": "Where nodes ran was asked for and not measured.",
    "policy.loosened": "A rule is looser than on the baseline, whose rule counts as well.",
    "policy.unreadable": "The baseline's rules cannot be read, so nobody knows what was loosened.",
    "preprocess.rebuilt": "A case's raw input was made into tensors and held against the stored.",
    "provider.missing": "A provider that was asked for is not in use.",
    "provider.stale": "Two models that differ in their weights alone were run and told apart.",
    "reference.missing": "An output has no stored reference, so it was not judged there.",
    "rejudge.settings": "Stored observations were measured with other settings.",
    "removed.not_run": "A removed target or variant cannot be run as the baseline's config says.",
    "repeat.differs": "The same input gave other outputs when it ran again.",
    "report.shortened": "Findings were left out of this report because there are too many.",
    "report.unreadable": "There is no verdict to publish, or it cannot be trusted.",
    "report.verdict": "The run as a whole is no pass.",
    "runtime.cuda": "The new runtime brings another major version of CUDA.",
    "runtime.cudnn": "The new runtime brings another major version of cuDNN.",
    "runtime.numpy": "The new runtime brings another NumPy ABI.",
    "runtime.opset": "The new runtime supports other operator sets.",
    "runtime.python": "The new runtime needs a newer Python.",
    "runtime.unknown": "The new runtime is not among the releases that are known.",
    "self.order": "Rows of a batch do not stay with their inputs.",
    "self.padding": "Padding changes what is not padded.",
    "self.repeat": "The same input gives other outputs in the same session.",
    "self.rows": "A row of a batch depends on the others.",
    "self.threads": "The number of threads changes outputs.",
    "target.removed": "A target of the baseline's config is gone.",
    "variant.removed": "A variant of the baseline's config is gone, or gone from a target.",
}


def title(check: str) -> str:
    """Return what the family of a check asks for."""
    return _family(check)[0]


def meaning(check: str) -> str:
    """Return what a check found, in one sentence."""
    parts = check.split(".")
    for size in range(len(parts), 0, -1):
        known = CHECKS.get(".".join(parts[:size]))
        if known:
            return known
    return f"{title(check)}."


def help_uri(check: str) -> str:
    """Return the page of the documentation that explains a check."""
    return f"{_GUIDE}/{_family(check)[1]}"


def _family(check: str) -> tuple[str, str]:
    return FAMILIES.get(check.partition(".")[0], ("What was checked must hold", "reports.md"))
