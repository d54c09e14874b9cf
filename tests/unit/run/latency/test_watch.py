from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci_parity.run.latency.watch import HostWatch, Several
from tests.fakes.timed_processes import FakeWatch


@dataclass
class Host:
    """A machine of two CPUs whose counters a test moves on: user, idle, steal, in clock ticks."""

    root: Path
    ticks: list[list[int]] = field(default_factory=lambda: [[1000, 1000, 0], [1000, 1000, 0]])
    own: int = 0
    throttled: int | None = None
    clocks: tuple[int, ...] = ()

    def write(self) -> None:
        """Write what the kernel would show."""
        lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
        lines += [
            f"cpu{n} {user} 0 0 {idle} 0 0 0 {steal} 0 0"
            for n, (user, idle, steal) in enumerate(self.ticks)
        ]
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/stat").write_text("\n".join([*lines, "intr 1 2 3", "ctxt 5"]) + "\n")
        for n in range(2):
            folder = self.root / f"sys/devices/system/cpu/cpu{n}"
            for name in ("thermal_throttle", "cpufreq"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            if self.throttled is not None:
                (folder / "thermal_throttle/core_throttle_count").write_text(f"{self.throttled}\n")
            if self.clocks:
                (folder / "cpufreq/scaling_cur_freq").write_text(f"{self.clocks[n]}\n")
        (self.root / "sys/devices/system/cpu/cpufreq").mkdir(exist_ok=True)

    def pass_time(self, *shares: tuple[int, int, int], own: int = 0) -> None:
        """Let each CPU have so much user, idle and stolen time, of which `own` was ours."""
        for line, share in zip(self.ticks, shares, strict=True):
            for number, ticks in enumerate(share):
                line[number] += ticks
        self.own += own
        self.write()

    def watch(self, *cpus: int, knows_own: bool = True) -> HostWatch:
        """Return a watch that has begun."""
        self.write()
        own = (lambda: self.own) if knows_own else None
        watch = HostWatch(cpus, own, self.root)
        watch.begin()
        return watch


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a machine at rest."""
    return Host(tmp_path)


def test_a_quiet_machine_disturbs_nothing(host: Host) -> None:
    """Our own load is none of others."""
    watch = host.watch()
    host.pass_time((10, 0, 0), (2, 8, 0), own=12)
    assert watch.disturbance() == ""


def test_stolen_time_disturbs(host: Host) -> None:
    """From a tenth of the CPUs on, over both."""
    watch = host.watch()
    host.pass_time((10, 0, 1), (10, 0, 0), own=20)
    assert watch.disturbance() == ""
    watch.begin()
    host.pass_time((8, 0, 2), (9, 0, 1), own=17)
    assert watch.disturbance() == "the hypervisor took 15 % of the CPUs"


def test_others_disturb_where_they_have_most_and_none_is_idle(host: Host) -> None:
    """One neighbour on one of two CPUs widens the interval; it voids nothing."""
    watch = host.watch()
    host.pass_time((10, 0, 0), (10, 0, 0), own=10)
    assert watch.disturbance() == ""
    watch.begin()
    host.pass_time((10, 0, 0), (10, 0, 0), own=5)
    assert watch.disturbance() == "other processes had 75 % of the CPUs, and none was idle"
    watch.begin()
    host.pass_time((10, 0, 0), (8, 2, 0), own=2)
    assert watch.disturbance() == ""


def test_others_are_not_known_where_we_do_not_know_our_own(host: Host) -> None:
    """Load that may be ours is no evidence."""
    watch = host.watch(knows_own=False)
    host.pass_time((10, 0, 0), (10, 0, 0))
    assert watch.disturbance() == ""


def test_only_the_cpus_in_use_count(host: Host) -> None:
    """Pinned to the second one, what happens on the first is no disturbance."""
    first, second = host.watch(0), host.watch(1)
    host.pass_time((2, 0, 8), (10, 0, 0), own=10)
    assert "hypervisor" in first.disturbance()
    assert second.disturbance() == ""


def test_a_throttled_core_disturbs(host: Host) -> None:
    """By the kernel's own counter."""
    host.throttled = 4
    watch = host.watch()
    host.pass_time((10, 0, 0), (10, 0, 0), own=20)
    assert watch.disturbance() == ""
    host.throttled = 5
    host.write()
    assert watch.disturbance() == "a core was throttled"


def test_a_fallen_clock_disturbs(host: Host) -> None:
    """Below three quarters of the fastest that was seen, by the fastest CPU in use."""
    host.clocks = (3_000_000, 800_000)
    watch = host.watch()
    host.clocks = (800_000, 2_900_000)
    host.write()
    assert watch.disturbance() == ""
    host.clocks = (1_500_000, 800_000)
    host.write()
    assert watch.disturbance() == "the clock fell to 50 %"


def test_what_cannot_be_read_is_no_evidence(tmp_path: Path) -> None:
    """A machine that shows nothing disturbs nothing."""
    watch = HostWatch((0,), lambda: 0, tmp_path / "nothing")
    watch.begin()
    assert watch.disturbance() == ""


def test_a_moment_too_short_to_count_disturbs_nothing(host: Host) -> None:
    """Two ticks are no share."""
    watch = host.watch()
    host.pass_time((0, 0, 1), (1, 0, 0))
    assert watch.disturbance() == ""


def test_several_watches_are_one() -> None:
    """The first that was disturbed says so; all begin."""
    calm, stirred = FakeWatch(), FakeWatch(["it fell"])
    watch = Several([calm, stirred])
    watch.begin()
    assert watch.disturbance() == "it fell"
    assert (calm.begun, stirred.begun) == (1, 1)


def test_this_machine_can_be_watched() -> None:
    """Whatever it shows, reading it is no error."""
    watch = HostWatch()
    watch.begin()
    assert isinstance(watch.disturbance(), str)
