"""The harness itself, with a container action of twenty lines: what it promises, and what it hides.

If these fail, no other test that runs an action through act means anything.
"""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest

from tests.integration.support.act_runner import ActRun, ActTimeoutError, run_act

pytest_plugins = ("tests.integration.support.fixtures",)
pytestmark = pytest.mark.docker

TOKEN = "token-of-the-harness"  # noqa: S105
EVENT = {
    "action": "opened",
    "number": 7,
    "repository": {"full_name": "acme/models", "default_branch": "main"},
    "pull_request": {
        "number": 7,
        "head": {"ref": "bump", "sha": "1" * 40},
        "base": {"ref": "main", "sha": "2" * 40},
    },
}

DOCKERFILE = """\
FROM debian:trixie-slim
COPY main.py /opt/probe/main.py
ENTRYPOINT ["/usr/bin/python3", "/opt/probe/main.py"]
"""

ACTION = """\
name: probe
description: says what it was given
inputs:
  greeting: {description: text, required: true}
  exit_code: {description: how to end, default: "0"}
  token: {description: token, default: "${{ github.token }}"}
outputs:
  echo: {description: the greeting and who sent it}
runs:
  using: docker
  image: Dockerfile
"""

PROGRAM = """\
import json, os, pathlib, sys, time, urllib.request

def append(variable, text):
    with open(os.environ[variable], "a") as file:
        file.write(text)

greeting = os.environ["INPUT_GREETING"]
number = json.load(open(os.environ["GITHUB_EVENT_PATH"]))["number"]
if greeting == "sleep":
    print("asleep", flush=True)
    time.sleep(600)
request = urllib.request.Request(os.environ["GITHUB_API_URL"] + "/probe")
request.add_header("Authorization", "Bearer " + os.environ["INPUT_TOKEN"])
answer = urllib.request.urlopen(request).read().decode()
append("GITHUB_OUTPUT", f"echo={greeting} from {os.environ['GITHUB_REPOSITORY']}#{number}\\n")
append("GITHUB_STEP_SUMMARY", f"## {greeting}\\n\\n{answer}\\n")
pathlib.Path(os.environ["GITHUB_WORKSPACE"], "report.json").write_text(json.dumps({"saw": answer}))
print("said", os.environ["INPUT_TOKEN"])
sys.exit(int(os.environ["INPUT_EXIT_CODE"]))
"""

WORKFLOW = """\
on: pull_request
jobs:
  parity:
    runs-on: [self-hosted, gpu]
    steps:
      - uses: actions/checkout@v7
      - id: probe
        uses: USES
        with: {greeting: GREETING, exit_code: "EXIT_CODE"}
      - if: always()
        run: |
          cp report.json "$CI_PARITY_TEST_RECORD"
          echo '${{ steps.probe.outputs.echo }}' > "$CI_PARITY_TEST_RECORD/echo"
"""


@dataclass(slots=True, kw_only=True)
class LoopbackApi:
    """Answers every GET with one word and remembers who asked."""

    url: str
    authorizations: list[str] = field(default_factory=list)


@pytest.fixture
def api() -> Iterator[LoopbackApi]:
    """Serve on an ephemeral loopback port for one test."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.authorizations.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"welcome")

        def log_message(self, *_: object) -> None:
            """Say nothing: the test reads ``authorizations``."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = LoopbackApi(url=f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield served
        server.shutdown()
        thread.join()


def repository(path: Path, files: Mapping[str, str]) -> Path:
    """Make a git checkout with one commit of ``files``."""
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    author = ("-c", "user.name=harness", "-c", "user.email=harness@localhost")
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "probe"]):
        subprocess.run(["git", "-C", str(path), *author, *command], check=True)
    return path


def workflow(*, uses: str, greeting: str = "hello", exit_code: int = 0) -> dict[str, str]:
    """Return the files of a repository whose one job runs the action and records its traces."""
    text = WORKFLOW.replace("USES", uses).replace("GREETING", greeting)
    return {".github/workflows/parity.yml": text.replace("EXIT_CODE", str(exit_code))}


def action() -> dict[str, str]:
    """Return the files of the action's own repository."""
    return {"Dockerfile": DOCKERFILE, "action.yml": ACTION, "main.py": PROGRAM}


def run(repo: Path, api: LoopbackApi) -> ActRun:
    """Run the checkout's workflows for the pull request."""
    return run_act(repo, "pull_request", EVENT, api_url=api.url, token=TOKEN)


@pytest.mark.usefixtures("base_image")
def test_action_reaches_later_steps_summary_and_api(tmp_path: Path, api: LoopbackApi) -> None:
    """Outputs, job summary, workspace, event, token and API address go where GitHub puts them."""
    outcome = run(repository(tmp_path, action() | workflow(uses="./")), api)
    probe = outcome.step("probe")
    assert (outcome.returncode, probe.outcome, probe.exit_code) == (0, "success", 0), outcome.log
    assert outcome.recorded["echo"] == b"hello from acme/models#7\n"
    assert probe.outputs == {"echo": "hello from acme/models#7"}
    assert outcome.summary == "## hello\n\nwelcome\n"
    assert json.loads(outcome.recorded["report.json"]) == {"saw": "welcome"}
    assert api.authorizations == [f"Bearer {TOKEN}"]


@pytest.mark.usefixtures("base_image")
def test_checkout_is_left_alone_and_secrets_are_starred(tmp_path: Path, api: LoopbackApi) -> None:
    """A run works on a copy, and no log of it gives the token away."""
    repo = repository(tmp_path, action() | workflow(uses="./"))
    outcome = run(repo, api)
    assert not (repo / "report.json").exists()
    assert "said ***" in outcome.log
    assert TOKEN not in outcome.log


@pytest.mark.usefixtures("base_image")
def test_failing_container_fails_the_job(tmp_path: Path, api: LoopbackApi) -> None:
    """The container's exit code decides; what it wrote before is kept."""
    outcome = run(repository(tmp_path, action() | workflow(uses="./", exit_code=3)), api)
    probe = outcome.step("probe")
    assert (outcome.returncode, probe.outcome, probe.exit_code) == (1, "failure", 3), outcome.log
    assert outcome.recorded["echo"] == b"hello from acme/models#7\n"
    assert outcome.summary == "## hello\n\nwelcome\n"


@pytest.mark.usefixtures("base_image")
def test_failing_build_says_why(
    tmp_path: Path, api: LoopbackApi, docker_client: docker.DockerClient
) -> None:
    """The output of a build that breaks is in the log."""
    # act keeps the container in which a build broke; the label is how to find it again.
    broken = "FROM debian:trixie-slim\nLABEL ci-parity.tests.broken=1\nRUN echo no part; exit 9\n"
    files = action() | {"Dockerfile": broken} | workflow(uses="./")
    outcome = run(repository(tmp_path, files), api)
    docker_client.containers.prune(filters={"label": "ci-parity.tests.broken"})
    assert outcome.returncode == 1
    assert outcome.step("probe").outcome == "failure"
    assert "\nno part\n" in outcome.log


@pytest.mark.usefixtures("base_image")
def test_published_reference_resolves_to_a_local_checkout(tmp_path: Path, api: LoopbackApi) -> None:
    """``uses: org/name@ref`` takes the checkout as GitHub would serve it."""
    # The context is the whole repository: what GitHub would not serve must not be in it.
    checked = DOCKERFILE + "COPY . /context/\nRUN test ! -e /context/.git -a ! -e /context/scrap\n"
    published = repository(
        tmp_path / "action", action() | {"Dockerfile": checked, ".gitignore": "scrap\n"}
    )
    (published / "scrap").touch()
    user = repository(tmp_path / "user", workflow(uses="acme/ci-parity@v1"))
    outcome = run_act(
        user, "pull_request", EVENT, api_url=api.url, token=TOKEN,
        local_repositories={"acme/ci-parity@v1": published},
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.log
    assert outcome.recorded["echo"] == b"hello from acme/models#7\n"


@pytest.mark.usefixtures("base_image")
def test_mounts_and_variables_reach_action_and_steps(tmp_path: Path, api: LoopbackApi) -> None:
    """A caller's mounts, variables and choice of workflow are honoured."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "model.onnx").write_bytes(b"weights")
    seen = (
        'import os, pathlib\n'
        'text = pathlib.Path("/models/model.onnx").read_text() + os.environ["EXTRA"]\n'
        'pathlib.Path(os.environ["CI_PARITY_TEST_RECORD"], "seen").write_text(text)\n'
    )  # fmt: skip
    repo = repository(tmp_path / "repo", action() | workflow(uses="./") | {"main.py": seen})
    outcome = run_act(
        repo, "pull_request", EVENT, api_url=api.url, token=TOKEN,
        workflow=repo / ".github/workflows/parity.yml",
        extra_mounts={models: Path("/models")}, env={"EXTRA": " and biases"},
    )  # fmt: skip
    assert outcome.recorded["seen"] == b"weights and biases", outcome.log


def test_run_past_its_limit_leaves_no_container(
    tmp_path: Path, api: LoopbackApi, docker_client: docker.DockerClient, base_image: str
) -> None:
    """An action that hangs is ended together with its container."""
    assert docker_client.images.get(base_image)
    repo = repository(tmp_path, action() | workflow(uses="./", greeting="sleep"))
    with pytest.raises(ActTimeoutError, match="asleep"):
        run_act(repo, "pull_request", EVENT, api_url=api.url, token=TOKEN, timeout_s=15)
    assert docker_client.containers.list(filters={"label": "ci-parity.tests.act"}) == []


@pytest.mark.network
def test_base_image_installs_packages_while_building(
    tmp_path: Path, docker_client: docker.DockerClient, base_image: str
) -> None:
    """apt, pip and uv work on the base image, while building and while running."""
    # Installing ca-certificates again remakes the bundle: the machine's own must stay in it.
    lines = [
        f"FROM {base_image}",
        "RUN apt-get update && apt-get install -y git",
        "RUN apt-get install -y --reinstall ca-certificates",
        "RUN python3 -m venv /venv && /venv/bin/pip install uv",
        "RUN /venv/bin/uv pip install --python /venv/bin/python --no-cache iniconfig",
    ]
    (tmp_path / "Dockerfile").write_text("\n".join(lines), encoding="utf-8")
    image, _ = docker_client.images.build(path=str(tmp_path), rm=True, forcerm=True)
    command = ["/venv/bin/uv", "pip", "install", "--python", "/venv/bin/python", "--no-cache"]
    output = docker_client.containers.run(image, [*command, "attrs"], stderr=True, remove=True)
    assert b" + attrs" in output
