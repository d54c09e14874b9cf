"""The verdict as a shields.io endpoint: the JSON behind a badge.

Format: https://shields.io/badges/endpoint-badge, schema version 1.
"""

import json

from ci_parity.base.escape import visible
from ci_parity.records.outcome import Outcome
from ci_parity.records.verdict import Verdict

_COLOURS = {
    Outcome.PASS: "brightgreen", Outcome.FAIL: "red", Outcome.INCONCLUSIVE: "lightgrey",
}  # fmt: skip
_LABEL = 40


def render(verdict: Verdict) -> str:
    """Return the badge; one that is no pass cannot be painted over by its address."""
    message = verdict.outcome.value
    if not verdict.ran and verdict.outcome is Outcome.PASS:
        message = "pass (unchanged)"
    document = {
        "schemaVersion": 1,
        "label": visible(f"parity {verdict.deployment}".strip(), _LABEL),
        "message": message,
        "color": _COLOURS[verdict.outcome],
        "isError": verdict.outcome is not Outcome.PASS,
        "cacheSeconds": 300,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
