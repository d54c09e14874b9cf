"""What verifying a release log costs, against parsing the same lines as JSON.

python benchmarks/release_log.py [LINES]
"""

import json
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from ci_parity.release.chain import verify  # noqa: E402 - the tests' samples are not installed
from tests.unit.release.samples import entry, log_of  # noqa: E402


def main() -> None:
    """Time both on one log and print the ratio."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    data = log_of(*(entry(number) for number in range(count)))
    start = time.perf_counter()
    verify(data, origin=None)
    middle = time.perf_counter()
    for line in data.splitlines():
        json.loads(line)
    end = time.perf_counter()
    print(f"verify {count} lines, {len(data) / 1e6:.0f} MB  {middle - start:6.2f} s")
    print(f"json.loads of each          {end - middle:6.2f} s")
    print(f"ratio                       {(middle - start) / (end - middle):6.2f}")


if __name__ == "__main__":
    main()
