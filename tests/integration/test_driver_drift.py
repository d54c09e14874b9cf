"""A driver or host that changed under an unchanged repository is found against the release log."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ci_parity.base.progress import SilentProgress
from ci_parity.detect.host import HostSources
from ci_parity.pipeline import CheckOptions, check, detect, examine
from ci_parity.records.identity import Axis, ChangeSet
from ci_parity.records.outcome import Outcome
from ci_parity.records.release import EntryKind, LogEntry
from ci_parity.release.store import open_log
from ci_parity.stages.deliver import record
from ci_parity.stages.report_folder import Origin
from tests.fakes.host_tree import HostTree
from tests.fakes.nvml import FakeNvml
from tests.support.user_repository import UserRepository, linear_repository

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GPU = '{runtime: "onnxruntime-gpu==1.27.0", provider: CUDAExecutionProvider}'


@pytest.fixture
def repository(tmp_path: Path) -> UserRepository:
    """Return a deployment with a release log."""
    return linear_repository(tmp_path / "user")


def host(
    root: Path, driver: str, cuda: int, flags: str = "avx avx2 fma avx512_vnni"
) -> HostSources:
    """Return a host with an A100 under a driver."""
    tree = HostTree(root)
    tree.processor(flags)
    tree.nvidia(driver)
    return tree.sources(FakeNvml(driver=driver, cuda=cuda))


def validate(repository: UserRepository, sources: HostSources) -> None:
    """Write the line that a passing run on a host would have left."""
    with_log = CheckOptions(root=repository.root, host=sources)
    identities = examine(with_log, repository.root / "scratch").changes.identities
    entry = LogEntry(
        kind=EntryKind.VALIDATED, channel="default", idempotency="run/1", bundle="a" * 64,
        commit=repository.git("rev-parse", "HEAD"), finished_at="2026-11-30T10:00:00Z",
        deployment="linear", identities=identities, findings_failed=(), cases_run=2,
        cases_expected=2, tool_version="0.1.0",
    )  # fmt: skip
    open_log("file:release-log.jsonl", repository.root).append(entry)


def drift(repository: UserRepository, sources: HostSources) -> ChangeSet:
    """Return what differs from the log on another host."""
    return detect(CheckOptions(root=repository.root, host=sources))[1]


def test_a_driver_upgrade_reaches_gpu_targets_alone(
    repository: UserRepository, tmp_path: Path
) -> None:
    """The driver is in no file of the repository; the log knows the one that was validated."""
    repository.replace(
        "ci-parity.yml", '{runtime: "current"}', f'{{runtime: "current"}}\n  gpu: {GPU}'
    )
    repository.commit("gpu")
    validate(repository, host(tmp_path / "before", "550.54.14", 12040))
    assert drift(repository, host(tmp_path / "same", "550.54.14", 12040)).changes == ()
    changes = drift(repository, host(tmp_path / "after", "580.65.06", 13000))
    (change,) = changes.changes
    assert (change.axis, change.target) == (Axis.DRIVER, "gpu")
    assert any("550.54.14 → 580.65.06" in sentence for sentence in change.sentences)
    assert [name.target for name in changes.to_run] == ["gpu"]


def test_a_processor_change_reaches_every_target(
    repository: UserRepository, tmp_path: Path
) -> None:
    """Another CPU runs other kernels, on CPU targets too."""
    validate(repository, host(tmp_path / "before", "550.54.14", 12040))
    changes = drift(repository, host(tmp_path / "after", "550.54.14", 12040, "avx avx2 fma"))
    (change,) = changes.changes
    assert change.axis is Axis.DRIVER
    assert any("avx512_vnni" in sentence for sentence in change.sentences)


def test_a_bump_below_the_driver_floor_is_foreseen(
    repository: UserRepository, tmp_path: Path
) -> None:
    """onnxruntime-gpu 1.26 to 1.27 moves CUDA and its driver floor above the recorded driver."""
    gpu = GPU.replace("1.27.0", "1.26.0")
    repository.replace("ci-parity.yml", '{runtime: "current"}', gpu)
    repository.commit("gpu")
    old = host(tmp_path / "host", "550.54.14", 12040)
    validate(repository, old)
    repository.replace("ci-parity.yml", "1.26.0", "1.27.0")
    changes = drift(repository, old)
    assert [change.axis for change in changes.changes] == [Axis.RUNTIME]
    foreseen = {finding.id: finding for finding in changes.foresight}
    assert "12.8 → 13.0" in foreseen["runtime.cuda"].evidence
    assert foreseen["host.driver"].outcome is Outcome.FAIL
    assert "580" in foreseen["host.driver"].evidence
    assert foreseen["host.driver"].remedy


def test_this_machine_does_not_drift_from_itself(repository: UserRepository) -> None:
    """A real run recorded here and read again here differs in nothing; another CPU does."""
    options = CheckOptions(root=repository.root, force=True)
    done = check(options, SilentProgress())
    assert done.verdict.outcome is Outcome.PASS
    assert done.log is not None
    commit = repository.git("rev-parse", "HEAD")
    line = record(done.verdict, done.deployment, done.log, Origin(commit=commit), NOW)
    (identity,) = line.entry.identities
    assert '"library.libonnxruntime.so"' in identity.components
    assert '"cpu.' in identity.host
    same = replace(options, force=False)
    assert detect(same)[1].changes == ()
