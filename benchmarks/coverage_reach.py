"""How much of ONNX's schemas node tests reach: those of the standard, and with those made around.

Counted over the operators of the default domain, newest versions: attributes that a test sets, and
pairs of operator and element type of the first input that the schema allows. A disputed test, and
one that several nodes share, reaches nothing. Oracles answer once; the tests stay in the cache.

    python benchmarks/coverage_reach.py [--cache DIR]
"""

import argparse
import collections
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

# ruff: noqa: E402 - run from the project, installed or not
import onnx

from ci_parity.base.progress import PlainProgress
from ci_parity.coverage.made.sweep import swept
from ci_parity.coverage.made.variations import allows
from ci_parity.coverage.suite import suite_cases
from ci_parity.records.coverage import NodeCase
from ci_parity.records.values import ELEMENT_TYPES
from ci_parity.run.environments import cache_folder
from ci_parity.stages.coverage.made import cases_of

Pairs = set[tuple[str, str]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=None)
    cache = parser.parse_args().cache or cache_folder()
    progress = PlainProgress()
    suite = suite_cases(cache, progress)
    made, failed = cases_of(list(swept(suite)), cache=cache, progress=progress)
    attributes, dtypes = _allowed()
    print(f"{len(made)} made, {len(failed)} that no oracle evaluates,", end=" ")
    print(f"{sum(bool(case.disputed) for case in made)} disputed")
    for name, cases in (("the standard's", suite), ("with those made", [*suite, *made])):
        set_ones, typed = _reached(cases)
        left, right = len(set_ones & attributes), len(typed & dtypes)
        share = f"{left} of {len(attributes)} ({left / len(attributes):.0%})"
        print(f"{name}: attributes {share}, ", end="")
        print(f"types {right} of {len(dtypes)} ({right / len(dtypes):.0%})")
    for words, count in collections.Counter(c.oracle.split(";")[0] for c in made).most_common():
        print(f"{count:6} {words}")


def _allowed() -> tuple[Pairs, Pairs]:
    schemas = [s for s in onnx.defs.get_all_schemas() if not s.domain and not s.deprecated]
    attributes = {(s.name, name) for s in schemas for name in s.attributes}
    names = [*ELEMENT_TYPES, "string"]
    dtypes = {
        (s.name, name) for s in schemas if s.inputs
        for name in names if allows(s, str(s.inputs[0].type_str), name)
    }  # fmt: skip
    return attributes, dtypes


def _reached(cases: Sequence[NodeCase]) -> tuple[Pairs, Pairs]:
    asked = [s for c in cases if not c.disputed for s in c.signatures if not s.domain]
    attributes = {(s.op_type, name) for s in asked for name, _ in s.attributes}
    dtypes = {(s.op_type, s.inputs[0].dtype) for s in asked if s.inputs}
    return attributes, dtypes


if __name__ == "__main__":
    main()
