"""Amazon's APIs on a port of this machine, by moto in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import requests

_ADDRESS = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def aws_server() -> Iterator[str]:
    """Serve until the end of the block; yield the address, for `AWS_ENDPOINT_URL` and its like."""
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert server.stdout is not None
    try:
        said = (_ADDRESS.search(line) for line in server.stdout)
        address = next(match[1] for match in said if match)
        requests.get(f"{address}/moto-api/data.json", timeout=30).raise_for_status()
        yield address
    finally:
        server.kill()
        server.stdout.close()
        server.wait()
