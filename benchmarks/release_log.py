"""What verifying and proving a release log costs, against parsing the same lines as JSON.

python benchmarks/release_log.py [LINES]

Processor time of this process, since the machine may be shared; the load is printed.
"""

import itertools
import json
import os
import random
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# The tests' samples are not installed.
from ci_parity.release.chain import verify  # noqa: E402
from ci_parity.release.checkpoint import LogTree, sealed  # noqa: E402
from ci_parity.release.merkle import Tree, extends  # noqa: E402
from ci_parity.release.proof import check_proof, prove, read_proof, write_proof  # noqa: E402
from tests.unit.release.samples import entry, log_of  # noqa: E402

_PROOFS = 200


def main() -> None:
    """Time each on one log and print it."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    data = log_of(*(entry(number) for number in range(count)))
    marks = [time.process_time()]
    verify(data, origin=None)
    marks.append(time.process_time())
    tree = LogTree(data)
    marks.append(time.process_time())
    for line in data.splitlines():
        json.loads(line)
    marks.append(time.process_time())
    chain, merkle, parsing = (end - start for start, end in itertools.pairwise(marks))
    print(f"{count} lines, {len(data) / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}")
    print(f"chain verified                   {chain:8.2f} s")
    print(f"tree over the lines              {merkle:8.2f} s")
    print(f"json.loads of each               {parsing:8.2f} s")
    print(f"chain and tree against json      {(chain + merkle) / parsing:8.2f}")
    _time_proofs(tree)
    _time_appends(tree)


def _time_proofs(tree: LogTree) -> None:
    note = sealed(tree.checkpoint(), None)
    dice = random.Random(1)  # noqa: S311 - which lines to prove
    chosen = [dice.randrange(len(tree)) for _ in range(_PROOFS)]
    start = time.process_time()
    proofs = [write_proof(prove(tree, index, note)) for index in chosen]
    made = time.process_time()
    for proof in proofs:
        check_proof(read_proof(proof, where="proof"), where="proof")
    checked = time.process_time()
    old = len(tree) // 3
    path = tree.consistency(old)
    if not extends(old, tree.root(old), len(tree), tree.root(), path):
        raise SystemExit("the consistency proof does not hold")
    done = time.process_time()
    print(f"one proof made, written          {(made - start) / _PROOFS * 1e3:8.3f} ms")
    print(f"one proof read, checked          {(checked - made) / _PROOFS * 1e3:8.3f} ms")
    print(f"one consistency proof, checked   {(done - checked) * 1e3:8.3f} ms")


def _time_appends(tree: Tree) -> None:
    """Print what a leaf and the new root cost in a small tree and in this one."""
    for size, grown in ((64, Tree(b"" for _ in range(64))), (len(tree), tree)):
        start = time.process_time()
        for _ in range(1000):
            grown.append(b"a line")
            grown.root()
        each = (time.process_time() - start) / 1000
        print(f"leaf and root at {size:>7} leaves  {each * 1e6:8.1f} µs")


if __name__ == "__main__":
    main()
