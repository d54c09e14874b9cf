import json
import subprocess
import sys
from pathlib import Path

import requests

ROOT = Path(__file__).parents[3]


def test_server_runs_as_a_program(tmp_path: Path) -> None:
    """For `act` it prints its port, keeps its state in a file and takes faults over HTTP."""
    state = tmp_path / "state.json"
    arguments = ["--port", "0", "--state", str(state), "--pull", "acme/other#3"]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.github_server", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            comments = f"{url}/repos/acme/other/issues/3/comments"
            fault = [{"method": "POST", "status": 502, "body": "{}"}]
            assert requests.post(f"{url}/_test/faults", json=fault, timeout=60).status_code == 204
            headers = {"Authorization": "Bearer write-token"}
            for status in (502, 201):
                done = requests.post(comments, json={"body": "hi"}, headers=headers, timeout=60)
                assert done.status_code == status
            seen = json.loads(state.read_text(encoding="utf-8"))
            assert [comment["body"] for comment in seen["comments"]] == ["hi"]
            assert requests.get(f"{url}/_test/state", timeout=60).json() == seen
        finally:
            process.kill()
