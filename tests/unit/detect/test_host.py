"""The host's facts from fake trees and from this machine, and how their differences are said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_parity.detect.host import HostSources, host_facts, relevant
from ci_parity.detect.host_files import HostFiles, count_of
from ci_parity.detect.host_words import explain_host
from ci_parity.records.facts import ABSENT, MAX_CHARS, Facts, fact
from tests.fakes.host_tree import FLAGS, KFD_GPU, HostTree, elsewhere
from tests.fakes.nvml import FakeNvml

ARM = """\
processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd fphp asimdhp asimddp sve i8mm bf16 sb
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1
"""


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """Return a Xeon server without a GPU."""
    return HostTree(tmp_path / "root")


def test_a_host_without_a_gpu_has_every_fact(tree: HostTree) -> None:
    """What is not there is recorded as absent, not left out."""
    facts = host_facts(tree.sources())
    assert facts["os.name"] == "Ubuntu 22.04.4 LTS"
    assert facts["os.kernel"] == "5.15.0-105-generic"
    assert facts["os.libc"] == "glibc 2.35"
    assert facts["host.memory"] == "503 GiB"
    assert facts["host.virtualisation"] == "hypervisor, n2-standard-8"
    assert facts["cpu.family"] == "family 6 model 106 stepping 6"
    assert facts["cpu.features"] == "avx avx2 avx512_vnni avx512f f16c fma sse4_1"
    assert (facts["cpu.cores"], facts["cpu.affinity"]) == ("8", "3")
    assert facts["cpu.governor"] == "performance"
    assert facts["cpu.quota"] == "unlimited"
    vendors = {k: v for k, v in facts.items() if k.startswith(("nvidia.", "amd."))}
    assert set(vendors.values()) == {ABSENT}
    assert len(vendors) >= 10


def test_clocks_and_free_memory_are_not_facts(tree: HostTree) -> None:
    """What changes by itself between two readings changes nothing."""
    before = host_facts(tree.sources())
    tree.processor(mhz="3400.125")
    tree.write("proc/meminfo", "MemTotal:       527899332 kB\nMemFree:        99 kB\n")
    tree.write("proc/uptime", "1.0 2.0")
    assert host_facts(tree.sources()) == before


def test_this_machine_reads_without_failure_and_the_same_twice() -> None:
    """The real processor, kernel and library are read; nothing in it moves by itself."""
    facts = host_facts(HostSources.here())
    assert host_facts(HostSources.here()) == facts
    assert facts["cpu.architecture"] not in {"", ABSENT}
    assert facts["os.kernel"] != ABSENT
    own = {key: value for key, value in facts.items() if key.startswith(("cpu.", "os.", "host."))}
    assert [key for key, value in own.items() if value.startswith("failed")] == []


def test_the_gpus_are_not_asked_when_no_target_needs_them(tree: HostTree) -> None:
    """A deployment of CPU targets does not pay for NVML and hashes no driver library."""
    tree.nvidia("550.54.15")
    facts = host_facts(tree.sources(FakeNvml()), accelerators=False)
    assert not [key for key in facts if key.startswith(("nvidia.", "amd."))]


@pytest.mark.parametrize("system", ["Darwin 23.4.0", "Windows 11"])
def test_other_systems_have_the_facts_their_platform_gives(tmp_path: Path, system: str) -> None:
    """Without Linux' files there is a subset, and no error."""
    facts = host_facts(elsewhere(tmp_path, system, "arm64"))
    assert facts["os.kernel"] == system
    assert (facts["cpu.architecture"], facts["cpu.cores"]) == ("arm64", "10")
    assert facts["cpu.model"] == facts["os.libc"] == facts["host.memory"] == ABSENT
    assert not [value for value in facts.values() if value.startswith("failed")]


def test_an_arm_processor_is_named_by_its_part(tree: HostTree) -> None:
    """Arm's files have other fields; what selects kernels is found in them."""
    tree.write("proc/cpuinfo", ARM)
    facts = host_facts(tree.sources())
    assert facts["cpu.model"] == "Arm part 0xd40"
    assert facts["cpu.vendor"] == "0x41"
    assert facts["cpu.features"] == "asimd asimddp asimdhp bf16 fphp i8mm sve"


def test_only_features_of_every_processor_count(tree: HostTree) -> None:
    """A thread may land on the least of the processors."""
    text = (tree.root / "proc/cpuinfo").read_text()
    tree.write("proc/cpuinfo", text.replace("avx512_vnni", "", 1))
    assert "avx512_vnni" not in host_facts(tree.sources())["cpu.features"]


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"sys/fs/cgroup/runner.slice/job.scope/cpu.max": "max 100000\n"}, "unlimited"),
        ({"sys/fs/cgroup/runner.slice/job.scope/cpu.max": "250000 100000\n"}, "2.50 CPUs"),
        (
            {
                "sys/fs/cgroup/runner.slice/job.scope/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/runner.slice/cpu.max": "200000 100000\n",
            },
            "2.00 CPUs",
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n0::/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            "1.50 CPUs",
        ),
        ({"proc/self/cgroup": "nonsense\n"}, "failed: not enough values to unpack"),
    ],
)
def test_the_tightest_quota_is_found(tree: HostTree, files: dict[str, str], quota: str) -> None:
    """Both versions of control groups are read, up to the top."""
    for path, text in files.items():
        tree.write(path, text)
    assert host_facts(tree.sources())["cpu.quota"].startswith(quota)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("proc/cpuinfo", "cpu.model"),
        ("proc/meminfo", "host.memory"),
        ("etc/os-release", "os.name"),
        ("proc/self/status", "cpu.affinity"),
    ],
)
def test_a_failing_probe_is_not_an_absent_one(tree: HostTree, path: str, key: str) -> None:
    """A folder where a file should be can be seen in the facts."""
    (tree.root / path).unlink()
    assert host_facts(tree.sources())[key] == ABSENT
    (tree.root / path).mkdir()
    assert host_facts(tree.sources())[key].startswith("failed: ")


def test_hostile_text_is_shown_and_cut(tree: HostTree) -> None:
    """A fact is one short visible line, and two long ones that differ stay different."""
    tree.write("etc/os-release", 'PRETTY_NAME="A\x1b[31m\u202eB\\n::error::"\n')
    assert host_facts(tree.sources())["os.name"] == "A\\x1b[31m\\u202eB\\n::error::"
    first, second = fact("x" * 1000), fact("x" * 999 + "y")
    assert len(first) <= MAX_CHARS
    assert first != second


def test_amd_gpus_come_from_the_kernel_topology(tree: HostTree) -> None:
    """The processor's own node is no GPU; the target has the compiler's name."""
    tree.amd()
    facts = host_facts(tree.sources())
    assert (facts["amd.driver"], facts["amd.rocm"]) == ("6.7.0", "6.1.0-82")
    assert (facts["amd.gpus"], facts["amd.gpu.0.target"]) == ("1", "gfx90a")
    assert facts["amd.gpu.0.memory"] == "63 GiB"
    assert facts["amd.gpu.0.firmware"] == "78"
    assert not [key for key in facts if "clk" in key]


def test_an_amd_driver_of_the_kernel_has_its_source_digest(tree: HostTree) -> None:
    """A driver that comes with the kernel has no version of its own."""
    tree.write("sys/module/amdgpu/srcversion", "533BB7E5866E52F63B9ACCB\n")
    facts = host_facts(tree.sources())
    assert facts["amd.driver"] == "of the kernel, source 533BB7E5866E52F63B9ACCB"


def test_a_broken_amd_property_is_a_failed_fact(tree: HostTree) -> None:
    """A number that is none is visible."""
    tree.amd(KFD_GPU.replace("90010", "new"))
    assert host_facts(tree.sources())["amd.gpu.0.target"].startswith("failed: ")


@pytest.mark.parametrize(
    ("provider", "kept"),
    [
        ("CPUExecutionProvider", {"cpu"}),
        ("CUDAExecutionProvider", {"cpu", "nvidia"}),
        ("MIGraphXExecutionProvider", {"cpu", "amd"}),
        ("SomeNewExecutionProvider", {"cpu", "nvidia", "amd"}),
    ],
)
def test_a_target_feels_what_its_provider_uses(provider: str, kept: set[str]) -> None:
    """A GPU driver is nothing to a CPU target; an unknown provider is held to feel everything."""
    facts = {"cpu.model": "a", "nvidia.driver": "b", "amd.driver": "c"}
    assert {key.partition(".")[0] for key in relevant(facts, provider)} == kept


def with_flags(flags: str) -> Callable[[HostTree], object]:
    """Return a change of the processor's flags."""
    return lambda tree: tree.processor(flags)


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (with_flags(FLAGS.replace(" avx512_vnni", "")), ("CPU lost avx512_vnni",)),
        (with_flags(FLAGS + " amx_int8"), ("CPU gained amx_int8",)),
        (
            with_flags(FLAGS.replace("avx512f", "amx_int8")),
            ("CPU lost avx512f; gained amx_int8",),
        ),
        (
            with_flags("fpu hypervisor"),
            ("CPU lost avx, avx2, avx512_vnni, avx512f, f16c, fma, sse4_1",),
        ),
        (
            lambda tree: tree.write("proc/sys/kernel/osrelease", "6.8.0-31-generic"),
            ("kernel 5.15.0-105-generic → 6.8.0-31-generic",),
        ),
        (
            lambda tree: tree.write("sys/devices/system/cpu/online", "0-3"),
            ("CPU cores 8 → 4",),
        ),
        (lambda tree: (tree.root / "etc/os-release").unlink(), ("operating system Ubuntu 22.04",)),
        (lambda tree: tree.amd(), ("AMD GPU 0: added, gfx90a", "AMD driver absent → 6.7.0")),
    ],
)
def test_each_difference_is_said_in_its_own_words(
    tree: HostTree, change: Callable[[HostTree], object], sentences: tuple[str, ...]
) -> None:
    """A change of one fact is one sentence that names both sides."""
    before = host_facts(tree.sources())
    change(tree)
    said = explain_host(before, host_facts(tree.sources()))
    assert [line for line, start in zip(said, sentences, strict=False) if line.startswith(start)]
    assert all(any(line.startswith(start) for line in said) for start in sentences)


def test_another_processor_is_one_sentence(tree: HostTree) -> None:
    """Its family, vendor and microcode follow from its name."""
    before = host_facts(tree.sources())
    text = (tree.root / "proc/cpuinfo").read_text()
    text = (
        text.replace("Platinum 8358", "Gold 6226").replace("0xd0003b9", "0x5").replace("106", "85")
    )
    tree.write("proc/cpuinfo", text)
    said = explain_host(before, host_facts(tree.sources()))
    assert len(said) == 1
    assert "8358" in said[0]
    assert "6226" in said[0]


def test_equal_hosts_have_nothing_to_say(tree: HostTree) -> None:
    """No difference, no sentence."""
    facts = host_facts(tree.sources())
    assert explain_host(facts, dict(facts)) == ()


def test_no_difference_is_ever_silent(tree: HostTree) -> None:
    """Whichever single fact changes, there is a sentence for it."""
    tree.nvidia("550.54.15")
    tree.amd()
    facts = host_facts(tree.sources(FakeNvml()))
    unsaid = [key for key in facts if not _changed(facts, key)]
    # The library's other path with the same bytes is said; its digest under another driver is not.
    assert unsaid == []


def _changed(facts: Facts, key: str) -> tuple[str, ...]:
    return explain_host(facts, {**facts, key: "something else"})


def test_kernel_lists_are_counted() -> None:
    """Ranges and single numbers add up."""
    assert count_of("0-3,8,10-11\n") == 7
    with pytest.raises(ValueError, match="invalid literal"):
        count_of("")


def test_links_are_followed_below_the_root(tmp_path: Path) -> None:
    """An absolute link stays inside; a loop, a way out and a dangling link lead nowhere."""
    tree = HostTree(tmp_path / "root")
    tree.write("opt/real.so", "here")
    tree.link("lib/absolute.so", "/opt/real.so")
    tree.link("lib/outside.so", "../../../../opt/real.so")
    tree.link("lib/loop.so", "loop.so")
    tree.link("lib/dangling.so", "/opt/nothing")
    files = HostFiles(root=tree.root)
    assert files.locate("lib/absolute.so") == tree.root / "opt/real.so"
    assert files.locate("lib/outside.so") == tree.root / "opt/real.so"
    assert files.locate("lib/loop.so") is None
    assert files.locate("lib/dangling.so") is None
