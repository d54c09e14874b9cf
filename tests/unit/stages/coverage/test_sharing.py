"""Results of node tests that runs share: who is believed, who is not, and what a fault costs."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import SilentProgress
from ci_parity.config.load import load_deployment
from ci_parity.config.systems import Target
from ci_parity.coverage.cases import digest_of
from ci_parity.coverage.results import KeptResult, KeptResults
from ci_parity.records.codec import from_bytes
from ci_parity.records.coverage import NodeCase, NodeOutcome, NodeResult
from ci_parity.records.shared_results import SharedIndex
from ci_parity.release.objects.checked_store import CheckedStore
from ci_parity.release.objects.folder import FolderPlace
from ci_parity.release.objects.keys import object_key
from ci_parity.release.objects.object_store import ObjectStore
from ci_parity.release.shared_results import MAX_INDEX_BYTES
from ci_parity.run.runtime import prepare
from ci_parity.stages.coverage.running import RESULTS, run_cases, system_of
from ci_parity.stages.coverage.sharing import SharedResults, shared_results
from tests.fakes.rival_store import RivalStore
from tests.support.node_cases import node_case
from tests.support.systems import ADDING, model
from tests.support.user_repository import empty_repository

DAY = date(2026, 12, 1)
COMMAND = json.dumps([sys.executable, "-I", "-S", "-B", str(ADDING), "{}"])
TARGET = Target(name="cpu", runtime=f"command:{COMMAND}")


@dataclass(slots=True)
class Team:
    """Machines that share a store and a log; `named` is what the log's lines name."""

    scratch: Path
    cases: tuple[NodeCase, ...]
    named: list[str] = field(default_factory=list)

    @property
    def store(self) -> CheckedStore:
        """The store."""
        return CheckedStore(FolderPlace(self.scratch / "store"), sleep=lambda _: None)

    def shared(
        self, *, records: bool = False, today: date = DAY,
        store: Callable[[], ObjectStore] | None = None,
    ) -> SharedResults:  # fmt: skip
        """Return the shared results as a run sees them."""
        named = self.named[::-1]
        return SharedResults(store or (lambda: self.store), named, records=records, today=today)

    def run(
        self, machine: str, shared: SharedResults, cases: Sequence[NodeCase] | None = None
    ) -> tuple[list[str], int]:
        """Run on a machine; return the outcomes, and how many tests were run for them."""
        ran = run_cases(
            cases or self.cases, TARGET, cache=self.scratch / machine, progress=SilentProgress(),
            shared=shared,
        )  # fmt: skip
        return [result.outcome.value for result in ran.results], len(ran.measured)

    def recorded(self, machine: str = "main", **more: Any) -> str:
        """Run, publish and record on a machine; return the index."""
        shared = self.shared(records=True, **more)
        self.run(machine, shared)
        digest = shared.publish()
        self.named.append(digest)
        return digest

    def index(self, digest: str) -> SharedIndex:
        """Return an index of the store."""
        return from_bytes(SharedIndex, self.store.read(digest, MAX_INDEX_BYTES), where="index")

    def forged(self, cases: Sequence[NodeCase]) -> tuple[str, list[KeptResult]]:
        """Return the digest of the system, and a pass of each test."""
        launch = prepare(TARGET.runtime, cache=self.scratch)
        passes = [
            KeptResult(
                digest=case.digest, result=NodeResult(case=case.id, outcome=NodeOutcome.PASS)
            )
            for case in cases
        ]
        return system_of(launch, TARGET, cache=self.scratch).digest, passes


@pytest.fixture
def team(tmp_path: Path) -> Team:
    """Return a team with two tests: one that passes, and one that fails."""
    made = []
    for name, expected in (("right", 101), ("wrong", 7)):
        one = node_case(
            tmp_path / "suite", name, {"y": np.array([expected], np.float32)},
            {"x": np.array([100], np.float32)},
        )  # fmt: skip
        one = replace(one, model=model(one.folder, "model.json", adds=1.0))
        made.append(replace(one, digest=digest_of(one)))
    return Team(tmp_path, tuple(made))


def test_what_a_recorded_run_measured_is_run_by_nobody_again(team: Team) -> None:
    """On a machine that has never seen the runtime, with the same outcomes and words."""
    team.recorded()
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 0)
    ours, theirs = (
        run_cases(
            team.cases, TARGET, cache=team.scratch / "other", progress=SilentProgress(), shared=by
        ).results
        for by in (None, team.shared())
    )
    assert ours == theirs


def test_a_changed_test_and_another_runtime_are_measured(team: Team) -> None:
    """Only what is known of this very test and system is taken."""
    team.recorded()
    changed = (replace(team.cases[0], digest="0" * 64), team.cases[1])
    assert team.run("laptop", team.shared(), changed) == (["pass", "fail"], 1)
    command = json.dumps([*json.loads(COMMAND)[:-1], '{"adds": 1.0}'])
    other = replace(TARGET, runtime=f"command:{command}")
    ran = run_cases(
        team.cases, other, cache=team.scratch / "l", progress=SilentProgress(),
        shared=team.shared(),
    )  # fmt: skip
    assert len(ran.measured) == 2


def test_a_run_that_does_not_record_keeps_nothing_for_others(team: Team) -> None:
    """A pull request: what it measures stays on its machine."""
    shared = team.shared()
    team.run("pull-request", shared)
    assert shared.publish() == ""
    assert [*team.store.objects()] == []


def test_75_results_that_no_line_of_the_log_names_are_not_believed(team: Team) -> None:
    """Whoever can write to the store alone: a whole index, and it is never looked at."""
    forger = team.shared(records=True)
    system, passes = team.forged(team.cases)
    forger.add(system, "adding", passes)
    assert forger.publish()
    assert len([*team.store.objects()]) == 2
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 2)


def test_75_a_run_that_records_believes_no_cache_of_its_machine(team: Team) -> None:
    """A pull request ran on the same runner before, and left whole lines that lie."""
    launch = prepare(TARGET.runtime, cache=team.scratch)
    known = KeptResults(
        team.scratch / "main" / RESULTS, system_of(launch, TARGET, cache=team.scratch)
    )
    known.add(team.forged(team.cases)[1])
    assert team.run("main", team.shared()) == (["pass", "pass"], 0)
    team.recorded("main")
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 0)


def test_75_a_test_that_was_changed_on_the_machine_is_another_test(team: Team) -> None:
    """What it must give was edited, under the digest that it had: nobody else asks for that."""
    lying = node_case(
        team.scratch / "edited", "wrong", {"y": np.array([101], np.float32)},
        {"x": np.array([100], np.float32)},
    )  # fmt: skip
    lying = replace(lying, model=model(lying.folder, "model.json", adds=1.0))
    edited = (team.cases[0], replace(lying, digest=team.cases[1].digest))
    shared = team.shared(records=True)
    assert team.run("main", shared, edited) == (["pass", "pass"], 1)
    team.named.append(shared.publish())
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 1)


def test_75_results_that_were_changed_in_the_store_are_measured_anew(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    """Their digest is not what the index names; that is said once."""
    (system,) = team.index(team.recorded()).systems
    file = team.scratch / "store" / object_key(system.sha256)
    file.write_bytes(file.read_bytes().replace(b'"fail"', b'"pass"'))
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 2)
    assert caplog.text.count("measured anew") == 1


@pytest.mark.parametrize("fails_at", range(1, 8))
def test_a_store_that_fails_costs_time_alone(
    fails_at: int, team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever call it is, while reading or publishing: the results are the same, and recorded."""
    team.recorded()
    rival = RivalStore(team.store, fails_at=fails_at)
    shared = team.shared(records=True, store=lambda: rival)
    assert team.run("laptop", shared)[0] == ["pass", "fail"]
    before = team.named[-1]
    assert shared.publish() in ("", before)
    assert caplog.text.count("measured anew") <= 1
    assert caplog.text or rival.calls < fails_at


def test_no_store_at_all_costs_time_alone(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """Its library is missing, or its bucket."""

    def opened() -> ObjectStore:
        raise InfrastructureError("there is no such bucket")

    team.named.append("0" * 64)
    shared = team.shared(records=True, store=opened)
    assert team.run("laptop", shared) == (["pass", "fail"], 2)
    assert shared.publish() == ""
    assert caplog.text.count("no such bucket") == 1


def test_nothing_new_is_the_same_index(team: Team) -> None:
    """On the same day and a week long, so that no object is written for nothing."""
    first = team.recorded()
    count = len([*team.store.objects()])
    assert team.recorded("other", today=date(2026, 12, 8)) == first
    assert len([*team.store.objects()]) == count
    later = team.recorded("other", today=date(2026, 12, 9))
    assert later != first
    assert [one.used for one in team.index(later).systems] == ["2026-12-09"]


def test_new_results_join_the_old_ones(team: Team) -> None:
    """A second model's tests on the same runtime."""
    both = team.cases
    team.cases = both[:1]
    team.recorded()
    team.cases = both
    team.recorded("other")
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 0)


def test_runs_that_recorded_at_the_same_time_lose_nothing(team: Team) -> None:
    """Each named an index of its own: both are looked at."""
    first = team.recorded()
    team.named.clear()
    other = replace(TARGET, session_options={"execution_mode": "parallel"})
    shared = team.shared(records=True)
    run_cases(
        team.cases, other, cache=team.scratch / "o", progress=SilentProgress(), shared=shared
    )  # fmt: skip
    team.named += [first, shared.publish()]
    assert team.run("laptop", team.shared()) == (["pass", "fail"], 0)
    ran = run_cases(
        team.cases, other, cache=team.scratch / "p", progress=SilentProgress(),
        shared=team.shared(),
    )  # fmt: skip
    assert not ran.measured


def test_a_system_that_nobody_asks_for_is_forgotten(team: Team) -> None:
    """After half a year; the index of then does not name it, so that its object can go."""
    team.recorded()
    other = replace(TARGET, session_options={"execution_mode": "parallel"})
    shared = team.shared(records=True, today=date(2027, 7, 1))
    run_cases(
        team.cases, other, cache=team.scratch / "o", progress=SilentProgress(), shared=shared
    )  # fmt: skip
    (left,) = team.index(shared.publish()).systems
    assert left.used == "2027-07-01"


def test_what_may_pass_is_not_shared(team: Team) -> None:
    """Another machine has more memory."""
    shared = team.shared(records=True)
    system, _ = team.forged(())
    words = "the worker took more than 0.5 GiB of memory, and was ended during 'run'"
    ended = NodeResult(case=team.cases[0].id, outcome=NodeOutcome.CRASHED, evidence=words)
    shared.add(system, "adding", [KeptResult(digest=team.cases[0].digest, result=ended)])
    assert shared.publish() == ""


CONFIG = """\
version: 1
deployment: d
variants: {{v: {{path: m.onnx}}}}
targets: {{cpu: {{runtime: current}}}}
fixtures: .
release: {{log: "file:log.jsonl", store: "{store}"}}
"""


def test_75_a_change_of_log_or_store_is_believed_by_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A branch that names a store of its own takes nothing; main, which records, decides."""
    user = empty_repository(tmp_path / "user")
    user.write("ci-parity.yml", CONFIG.format(store="ours"))
    user.commit("first")
    user.git("checkout", "--quiet", "-b", "change")

    def asked(*, records: bool) -> SharedResults | None:
        made = load_deployment(user.root / "ci-parity.yml")
        return shared_results(made, ["0" * 64], records=records, today=DAY, base="main")

    assert asked(records=False) is not None
    user.write("ci-parity.yml", CONFIG.format(store="theirs"))
    user.commit("another store")
    assert asked(records=False) is None
    assert "not those of the base commit" in caplog.text
    assert asked(records=True) is not None
