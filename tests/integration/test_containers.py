"""Runtimes in containers of a real daemon, started from this machine."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from ci_parity.base.errors import InfrastructureError
from ci_parity.base.progress import Step
from ci_parity.cli import run
from ci_parity.compare.latency.verdict import differing
from ci_parity.config import load
from ci_parity.config.runtimes import runtime_text
from ci_parity.config.systems import Target
from ci_parity.fixtures.signature import read_signature
from ci_parity.records.observation import CaseInputs, InputSet, Observation, RunStatus
from ci_parity.records.values import ValueRecord
from ci_parity.run.container.owners import OWNER
from ci_parity.run.execute import Job, observe
from ci_parity.run.runtime import Launch, components_of, describe, prepare
from ci_parity.stages.inputs_for_diff import collect
from ci_parity.stages.pairs import pair_of_two
from ci_parity.stages.timing import Sides, time_pair
from tests.integration.support.docker_proxy import DockerProxy
from tests.integration.support.product_repo import BASELINE_RUNTIME, ROOT, make_checkout
from tests.integration.support.runtime_image import NAME, RUNTIME, TAG, ensure_runtime_image
from tests.support.systems import SILENT

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = [pytest.mark.docker, pytest.mark.network]

MODEL = ROOT / "fixtures" / "digits" / "model.onnx"
PROBE = (Path(__file__).parent / "support" / "probe_worker.py").read_text(encoding="utf-8")
BLANK_IMAGE = "debian:trixie-slim"
CUDA_RUNTIME = "onnxruntime-gpu==1.27.0"
ACTION = "ci-parity-tests/action"
HIDDEN = "not for workers"
GRACE_S = 60
# Starts a worker and dies without a chance to clean up; its arguments are an image and a folder.
KILLED = """
import os, signal, sys
from pathlib import Path
from ci_parity.run.container.files import Files
from ci_parity.run.container.start import start
from ci_parity.run.runtime import prepare

image = prepare(sys.argv[1], cache=Path(sys.argv[2])).image
channel = start(image, ("python3", "-c", "input()"), Files(exchange=Path(sys.argv[2])))
os.kill(os.getpid(), signal.SIGKILL)
"""


# Starts a worker from inside a container; says how the daemon has bound its files.
MAPPED = """
import json, sys
from pathlib import Path
from ci_parity.run.container.daemon import connected
from ci_parity.run.container.files import Files
from ci_parity.run.container.owners import OWNER
from ci_parity.run.container.start import start
from ci_parity.run.container.images import Image

image = Image(id=sys.argv[1], digest=sys.argv[1], label="image")
model = Path("/github/workspace/model.onnx")
files = Files(exchange=Path("/github/runner_temp/exchange"), model=model, inputs=Path("/etc/apt"))
channel = start(image, ("python3", "-c", "input()"), files)
with connected() as api:
    (container,) = api.containers(filters={"label": OWNER})
    print(json.dumps(api.inspect_container(container["Id"])["Mounts"]))
channel.kill()
"""


@pytest.fixture
def launch(runtime_image: str, tmp_path: Path) -> Launch:
    """Return how to start the probe in a container with little memory."""
    runtime = runtime_text({"image": runtime_image, "command": ["python3"], "memory_gib": 0.25})
    return replace(prepare(runtime, cache=tmp_path), argv=("python3", "-c", PROBE))


@pytest.fixture(autouse=True)
def nothing_left(docker_client: docker.DockerClient) -> Iterator[None]:
    """Check after each test that no container of ours is there, running or not."""
    yield
    assert leftovers(docker_client) == []


def leftovers(client: docker.DockerClient) -> list[str]:
    """Return the states of all containers that bear our label."""
    found = client.api.containers(all=True, filters={"label": OWNER})
    return [container["State"] for container in found]


def observed(
    launch: Launch, folder: Path, *deeds: str, timeout_s: float = 60, step: Step | None = None
) -> Observation:
    """Observe the probe doing what it is told, one case a deed."""
    inputs = folder / "inputs"
    inputs.mkdir()
    cases = tuple(
        CaseInputs(
            case=f"{number}-{deed}", inputs=(ValueRecord(name=deed, kind="absent"),)
        )
        for number, deed in enumerate(deeds)
    )  # fmt: skip
    job = Job(launch=launch, model=MODEL, target=Target(name="cpu"), timeout_s=timeout_s)
    given = InputSet(folder=str(inputs), source="probe", cases=cases)
    with SILENT.step("probe", len(cases)) as silent:
        return observe(job, given, folder / "exchange", step or silent)


def diff(folder: Path, *words: str) -> dict[str, Any]:
    """Run a diff of the digits model with itself; return its report."""
    report = folder / "report.json"
    run(["diff", str(MODEL), *words, "--json", str(report)])
    parsed: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return parsed


def test_both_containers_run_on_the_cpus_that_were_asked_for(
    runtime_image: str, tmp_path: Path
) -> None:
    """They say so themselves, with their timings; a CPU that is not there leaves it open."""
    target = load.target("cpu", {"runtime": {"image": runtime_image}})
    policy = load.policy({"latency": {"sessions": 2, "pairs": 10, "pin": "1", "cases": 1}})
    pair = pair_of_two((MODEL, MODEL), (target, target), policy)
    assert pair.baseline is not None
    sides = Sides(baseline=pair.baseline, candidate=pair.candidate)
    inputs = collect([], MODEL, read_signature(MODEL), {}, tmp_path / "inputs")
    names = {case.case for case in inputs.cases}
    for wanted, problem in (((1,), ""), ((77,), "both were to run on CPUs 77")):
        rules = replace(policy.latency, pin=wanted)
        with SILENT.step("time", 2) as step:
            found = time_pair(sides, inputs, names, tmp_path / "exchange", rules, 1, step)
        assert found.pinned == wanted
        assert found.processes
        assert found.processes[0].baseline.cpus == found.processes[0].candidate.cpus
        assert differing(found).startswith(problem)
        assert bool(differing(found)) == bool(problem)


def test_a_worker_is_shut_in(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No secret, no network, no capability, no root, nothing of ours but the model, read-only."""
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, HIDDEN)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (case,) = observed(launch, tmp_path, "look").cases
    found = json.loads(case.message)
    assert HIDDEN not in case.message
    assert found["environment"]["OMP_NUM_THREADS"] == "1"
    assert found["interfaces"] == ["lo"]
    assert found["capabilities"] == 0
    assert found["no_new_privileges"] == "1"
    assert found["uid"] != 0
    assert found["model_folder"] == ["model.onnx"]
    assert found["written"] == []
    assert found["writable_mounts"] == ["/ci-parity", "/ci-parity/exchange"]
    assert not found["sockets"]


def test_each_fault_costs_its_case_alone(launch: Launch, tmp_path: Path) -> None:
    """Whatever a worker does, it is said how it ended, and the other cases run."""
    deeds = ("fine", "memory", "leave", "segv", "fine", "hang", "flood", "fine")
    found = observed(launch, tmp_path, *deeds, timeout_s=4)
    said = {run.case: (run.status, run.message) for run in found.cases}
    assert [said[f"{number}-fine"][0] for number in (0, 4, 7)] == [RunStatus.OK] * 3
    assert said["1-memory"][0] is RunStatus.CRASH
    assert "ran out of memory: its container may use 0.25 GiB" in said["1-memory"][1]
    assert said["2-leave"] == (RunStatus.CRASH, "the worker exited with status 3 during 'run'")
    assert said["3-segv"][0] is RunStatus.CRASH
    assert "ended by SIGSEGV during 'run'; last words: the floor is gone" in said["3-segv"][1]
    assert said["5-hang"][0] is RunStatus.TIMEOUT
    assert said["6-flood"][0] is RunStatus.PROTOCOL


def test_a_full_disk_costs_its_case_alone(launch: Launch, tmp_path: Path) -> None:
    """The worker says so; what there was room for stays."""
    (tmp_path / "exchange").mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(tmp_path / "exchange")]
    subprocess.run(mounted, check=True)
    try:
        found = observed(launch, tmp_path, "fine", "fill")
    finally:
        subprocess.run(["umount", str(tmp_path / "exchange")], check=True)
    assert [run.status for run in found.cases] == [RunStatus.OK, RunStatus.ERROR]
    assert "No space left on device" in found.cases[1].message


class Breaking:
    """A step that loses the daemon once a case has run."""

    def __init__(self, proxy: DockerProxy) -> None:
        self.proxy = proxy

    def advance(self, note: str = "") -> None:  # noqa: ARG002 - a step's signature
        """Break the way to the daemon."""
        self.proxy.break_()


def test_a_daemon_that_stops_ends_the_run(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    docker_client: docker.DockerClient, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Without it nothing can be measured any more: exit code 5, and no hanging."""
    with DockerProxy(tmp_path / "docker.sock") as proxy:
        monkeypatch.setenv("DOCKER_HOST", proxy.address)
        with pytest.raises(InfrastructureError, match="no Docker daemon answers"):
            observed(launch, tmp_path, "fine", "fine", "fine", step=Breaking(proxy))
    assert "cannot remove container" in caplog.text
    # The real daemon has not stopped, and we live: nobody else would remove it.
    for container in docker_client.containers.list(all=True, filters={"label": OWNER}):
        container.remove(force=True, v=True)


def test_a_link_that_a_worker_leaves_is_not_followed(launch: Launch, tmp_path: Path) -> None:
    """It would lead us to where the worker cannot look itself."""
    found = observed(launch, tmp_path, "link", "fine")
    files = [run.outputs[0].file for run in found.cases]
    assert [(Path(found.folder) / file).exists() for file in files] == [False, True]


def test_the_same_runtime_agrees_and_is_known_by_what_is_inside(
    runtime_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit; the facts are those of a pip runtime and the image's digest, kept for later."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path))
    runtime = f"image:{runtime_image}"
    assert components_of(runtime, tmp_path) == {}
    report = diff(tmp_path, "--candidate-runtime", runtime)
    assert report["outcome"] == "pass"
    facts = components_of(runtime, tmp_path)
    assert facts["image"] == runtime_image
    assert facts["package.onnxruntime"] == RUNTIME.rpartition("=")[2]
    assert len(facts["library.libonnxruntime.so"]) == 64
    assert facts["python"].startswith("3.")


def test_cuda_without_a_gpu_never_passes(
    docker_client: docker.DockerClient, base_image: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """An image with the provider and none of its libraries: the one that is missing is named."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path))
    image = ensure_runtime_image(docker_client, base_image, build="gpu", runtime=CUDA_RUNTIME)
    provider = ("--candidate-provider", "CUDAExecutionProvider")
    report = diff(tmp_path, "--candidate-runtime", f"image:{image}", *provider)
    assert report["outcome"] == "fail"
    failed = [f for f in report["findings"] if f["outcome"] == "fail" and not f["advisory"]]
    assert {finding["id"] for finding in failed} <= {"load.error", "provider.missing"}
    assert re.search(r"lib(cu|nv)\w+\.so", failed[0]["evidence"])


def test_files_that_the_daemon_does_not_see_are_copied(runtime_image: str, tmp_path: Path) -> None:
    """On a file system of our own, nothing can be bound; the results are the same."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = (
        f"mount -t tmpfs none {hidden} && cp {MODEL} {hidden} && "
        f"TMPDIR={hidden} CI_PARITY_CACHE={hidden} {sys.executable} -m ci_parity diff "
        f"{hidden}/model.onnx --candidate-runtime image:{runtime_image} "
        f"--json {tmp_path}/report.json"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["outcome"] == "pass"
    assert not list(hidden.iterdir())


def test_another_file_under_the_same_name_is_found_out(runtime_image: str, tmp_path: Path) -> None:
    """The daemon sees a file where our model is, and it is not our model."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "model.onnx").write_bytes(b"another model")
    script = (
        f"mount -t tmpfs none {hidden} && cp {MODEL} {hidden} && "
        f"CI_PARITY_CACHE={tmp_path} {sys.executable} -m ci_parity diff "
        f"{hidden}/model.onnx --candidate-runtime image:{runtime_image}"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=ROOT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"PARITY PASS" in done.stdout


def test_in_a_container_our_mounts_lead_to_the_daemons_files(
    runtime_image: str, tmp_path: Path, docker_client: docker.DockerClient
) -> None:
    """As in the action on a runner: what lies in a mount is bound from there, the rest copied."""
    folders = {"workspace": tmp_path / "work", "runner_temp": tmp_path / "temp"}
    for folder in folders.values():
        folder.mkdir()
    shutil.copy(MODEL, folders["workspace"])
    (folders["runner_temp"] / "exchange").mkdir()
    action, _ = docker_client.images.build(path=str(ROOT), tag=ACTION, rm=True, forcerm=True)
    volumes = [f"{path}:/github/{name}" for name, path in folders.items()]
    said = docker_client.containers.run(
        action, ["-c", MAPPED, runtime_image], entrypoint="/opt/venv/bin/python", remove=True,
        volumes=[*volumes, "/var/run/docker.sock:/var/run/docker.sock"],
        environment={"PYTHONPATH": "/opt/ci-parity"},
    )  # fmt: skip
    bound = {
        mount["Destination"]: (mount["Source"], mount["RW"])
        for mount in json.loads(said)
        if mount["Type"] == "bind"
    }
    assert bound == {
        "/ci-parity/exchange": (str(folders["runner_temp"] / "exchange"), True),
        "/ci-parity/model/model.onnx": (str(folders["workspace"] / "model.onnx"), False),
    }


def test_a_tag_is_pinned_and_warned_about(
    runtime_image: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it stands for now is what the identity records."""
    assert describe(f"image:{NAME}:{TAG}") == f"image:{runtime_image}"
    assert (
        prepare(f"image:{NAME}:{TAG}", cache=tmp_path).label
        == f"{NAME}:{TAG}@{runtime_image[7:19]}"
    )
    assert f"named by a tag, which can be moved: it is {runtime_image} now" in caplog.text


@pytest.mark.parametrize(
    ("runtime", "said", "remedy"),
    [
        ({"image": "ci-parity-tests/absent:1"}, "is not on this machine", "build, load or pull it"),
        ({"image": f"sha256:{'0' * 64}"}, "is not on this machine", "build, load or pull it"),
        ({"image": f"localhost:1/absent@sha256:{'0' * 64}"}, "pulling it failed", "docker pull"),
        ({"image": BLANK_IMAGE}, "has no onnxruntime", "python3 is 3.8 or later"),
        ({"image": BLANK_IMAGE, "command": ["/bin/cat"], "gpus": "all"},
         'could not select device driver "" with capabilities: [[gpu]]', "NVIDIA container"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_ends_with_a_remedy(
    runtime: dict[str, Any], said: str, remedy: str, runtime_image: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Exit code 5 and the daemon's own words; a GPU is never replaced by the CPU."""
    assert runtime_image
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path))
    assert run(["diff", str(MODEL), "--candidate-runtime", runtime_text(runtime)]) == 5
    words = capsys.readouterr().err
    assert said in words
    assert remedy in words


def test_a_killed_run_is_cleaned_up_by_the_next(
    runtime_image: str, tmp_path: Path, docker_client: docker.DockerClient
) -> None:
    """Killed outright it leaves a container, which ends by itself and is removed later."""
    runtime = f"image:{runtime_image}"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, runtime, str(tmp_path)], check=False, timeout=GRACE_S
    )
    assert done.returncode == -signal.SIGKILL
    assert len(leftovers(docker_client)) == 1
    labels = docker_client.containers.list(all=True, filters={"label": OWNER})[0].labels
    docker_client.api.create_container(runtime_image, "true", labels=labels)
    assert "created" in leftovers(docker_client)
    prepare(runtime, cache=tmp_path)
    assert leftovers(docker_client) == []


def test_a_terminated_run_leaves_nothing(
    runtime_image: str, tmp_path: Path, docker_client: docker.DockerClient
) -> None:
    """SIGTERM is what a runner sends to a job that is cancelled."""
    runtime = runtime_text({"image": runtime_image, "command": ["sleep", "600"]})
    words = [sys.executable, "-m", "ci_parity", "diff", str(MODEL), "--candidate-runtime", runtime]
    environment = {**os.environ, "CI_PARITY_CACHE": str(tmp_path)}
    with subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert any(b"candidate on" in line for line in process.stderr)
        while process.poll() is None and leftovers(docker_client) != ["running"]:
            time.sleep(0.05)
        process.terminate()
        assert process.wait(GRACE_S) == 130


def test_a_check_judges_an_image_and_says_what_another_build_is(
    runtime_image: str, tmp_path: Path, docker_client: docker.DockerClient, base_image: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The whole path; before a new image has run, nothing is claimed of its inside."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(tmp_path / "cache"))
    checkout = make_checkout(tmp_path)
    checkout.edit("ci-parity.yml", BASELINE_RUNTIME, f"{{image: '{runtime_image}'}}")
    checkout.edit("ci-parity.yml", "{sessions: 2, pairs: 2}", "{measure: false}")
    checkout.commit("run in a container")
    other = ensure_runtime_image(docker_client, base_image, build="second")
    checkout.edit("ci-parity.yml", runtime_image, other)
    checkout.commit("another build")
    digests = f"another container image ({runtime_image[7:19]} → {other[7:19]})"
    same = "the packages and libraries of its runtime are the same"
    first = checked(checkout.root, tmp_path)
    assert first == ("pass", [f"{digests}; it is looked into when it runs"])
    assert checked(checkout.root, tmp_path) == ("pass", [f"{digests}; {same}"])


def checked(root: Path, folder: Path) -> tuple[str, list[str]]:
    """Check the last commit of a repository; return the outcome and what has changed in words."""
    run(["check", "--root", str(root), "--base", "HEAD~1", "--report-dir", str(folder)])
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["ran"]
    return verdict["outcome"], [
        s for change in verdict["changes"]["changes"] for s in change["sentences"]
    ]
