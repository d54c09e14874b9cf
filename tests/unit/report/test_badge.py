import json
from dataclasses import replace

import pytest

from ci_parity.records.outcome import Outcome
from ci_parity.report.badge import render
from tests.unit.report.hostile import PAYLOADS
from tests.unit.report.samples import SAMPLES, passed, unchanged

# https://shields.io/badges/endpoint-badge
KEYS = {"schemaVersion", "label", "message", "color", "isError", "cacheSeconds"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_badge_is_green_for_a_pass_alone(name: str) -> None:
    """Any other one cannot be painted over by the address of the badge."""
    badge = json.loads(render(SAMPLES[name]))
    assert set(badge) == KEYS
    assert badge["schemaVersion"] == 1
    passes = SAMPLES[name].outcome is Outcome.PASS
    assert (badge["color"] == "brightgreen") is passes
    assert badge["isError"] is not passes
    assert badge["message"].startswith(SAMPLES[name].outcome.value)


def test_a_pass_without_a_run_says_so() -> None:
    """The evidence is that of an earlier run."""
    assert json.loads(render(unchanged()))["message"] == "pass (unchanged)"


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_no_name_breaks_a_badge(payload: str) -> None:
    """It stays short, and shows no character that acts."""
    label = json.loads(render(replace(passed(), deployment=payload)))["label"]
    assert len(label) <= 6 * 40
    assert not set(label) & set("\u202e\u2066\u200b\x1b\x00\n")
