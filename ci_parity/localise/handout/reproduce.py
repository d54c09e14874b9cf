"""Run a small ONNX model and say which of two recorded results comes out.

Needs NumPy and the runtime that repro.json names, nothing else; run it in an environment that has
the version in question:

    python reproduce.py [--side baseline | candidate]

The side chooses the model and the options, whatever version is installed. The model runs in a
process of its own, so that a crash is a result too. Exit status:

    0  the baseline's result
    1  the candidate's result: the fault is reproduced
    2  neither
    3  it could not be run

A side that ran repeatedly when the fault was found does so here: runs that differ from each other,
and not all of them as the baseline's, are the fault too.

Runs on Python 3.8 and later, NumPy 1.21 and later.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ci_parity.localise.handout import results, runtimes
else:
    import results
    import runtimes

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ("baseline", "candidate")
NOT_RUN = 3
UNAVAILABLE = "unavailable"
BEGUN, RESULT, ARRAYS = "begun.txt", "result.json", "result.npz"


class Parser(argparse.ArgumentParser):
    """Ends with 3 where argparse has 2, which means something else here."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end."""
        self.exit(NOT_RUN, self.format_usage() + "error: " + message + "\n")


def main() -> int:
    """Run the model in a process of its own, compare, report; return the exit status."""
    parser = Parser(description="Run the model and say which recorded result comes out.")
    parser.add_argument("--side", choices=SIDES, default="candidate")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    try:
        with open(os.path.join(HERE, "repro.json"), encoding="utf-8") as stream:
            about = json.load(stream)
        if asked.into:
            run_here(about, asked.side, asked.into)
        return judge(about, asked.side)
    except (OSError, ValueError, KeyError) as error:
        say("could not run: " + type(error).__name__ + ": " + str(error))
        return NOT_RUN


def judge(about: dict[str, Any], side: str) -> int:
    """Run a side and say whose result it is."""
    for name, digest in about["files"].items():
        with open(os.path.join(HERE, name), "rb") as stream:
            if hashlib.sha256(stream.read()).hexdigest() != digest:
                say("note: " + name + " is not the recorded file")
    ours = run_apart(about, side)
    recorded = about["sides"][side]
    say("here:     " + (ours["version"] or "no runtime"))
    say("recorded: " + recorded["runtime"] + ", for the side " + side)
    if ours["status"] == UNAVAILABLE:
        say("could not run: " + ours["message"])
        return NOT_RUN
    sides = [about["sides"][name]["result"] for name in SIDES]
    stored = [dict(r, values=stored_values(n, r)) for n, r in zip(SIDES, sides)]
    code, words = outcome(ours, stored[0], stored[1])
    for line in words:
        say(line)
    say(told(code, ours))
    return code


def outcome(
    ours: dict[str, Any], baseline: dict[str, Any], candidate: dict[str, Any]
) -> tuple[int, list[str]]:
    """Return whose result it is, and why; of runs that differ, one not the baseline's decides."""
    runs = ours["runs"] or [{}]
    found = [results.conclude(dict(ours, values=run), baseline, candidate) for run in runs]
    code, words = next((one for one in found if one[0] != results.BASELINE), found[0])
    if len(runs) > 1 and code == results.NEITHER:
        code = results.CANDIDATE
    return code, words


CONCLUSIONS = {
    results.BASELINE: ("no fault: ", "the result is the baseline's"),
    results.CANDIDATE: ("fault reproduced: ", "the result is the candidate's"),
    results.NEITHER: ("neither recorded result: ", "the result is another one"),
}


def told(code: int, ours: dict[str, Any]) -> str:
    """Say what a run comes to, and how it ended."""
    start, result = CONCLUSIONS[code]
    if ours["status"] == results.OK and len(ours["runs"]) > 1 and code == results.CANDIDATE:
        return start + "runs differ from each other, and not all are the baseline's"
    if ours["status"] == results.OK:
        return start + result
    verb = "the process dies: " if ours["status"] == "crash" else "it does not end: "
    if ours["status"] == "error":
        verb = "refuses to load: " if ours["stage"] == "load" else "refuses to run: "
    return start + verb + str(ours["message"])


def stored_values(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded outputs of a side by name."""
    import numpy as np

    with np.load(os.path.join(HERE, name + ".npz"), allow_pickle=False) as arrays:
        return {record["name"]: results.read_value(record, arrays) for record in result["values"]}


def run_apart(about: dict[str, Any], side: str) -> dict[str, Any]:
    """Run a side in a process of its own and return what came of it."""
    import numpy as np

    env = dict(os.environ, ORT_DISABLE_TELEMETRY="1")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__), "--side", side, "--into", folder]
        failed = {"stage": "run", "version": about["sides"][side]["family"], "runs": []}
        try:
            ended = subprocess.run(command, env=env, check=False, timeout=about["limit_s"])
        except subprocess.TimeoutExpired:
            said = "not within " + str(about["limit_s"]) + " s"
            return dict(failed, status="timeout", message=said)
        if not os.path.exists(os.path.join(folder, RESULT)):
            return dict(failed, **crash(ended.returncode, folder))
        with open(os.path.join(folder, RESULT), encoding="utf-8") as stream:
            found: dict[str, Any] = json.load(stream)
        with np.load(os.path.join(folder, ARRAYS), allow_pickle=False) as arrays:
            runs = [
                {record["name"]: results.read_value(record, arrays) for record in run}
                for run in found["runs"]
            ]
        return dict(found, runs=runs)


def crash(status: int, folder: str) -> dict[str, Any]:
    """Say how a process died; one that did so before its runtime was there says nothing of it."""
    said = "signal " + str(-status) if status < 0 else "status " + str(status)
    path = os.path.join(folder, BEGUN)
    if not os.path.exists(path):
        return {"status": UNAVAILABLE, "message": "the runtime dies when it is imported: " + said}
    with open(path, encoding="utf-8") as stream:
        return {"status": "crash", "message": said, "version": stream.read()}


def run_here(about: dict[str, Any], side: str, folder: str) -> NoReturn:
    """Run a side, write what came of it, and end without taking the runtime down."""
    import numpy as np

    arrays: dict[str, Any] = {}
    found = attempt(about, about["sides"][side], arrays, os.path.join(folder, BEGUN))
    np.savez(os.path.join(folder, ARRAYS), **arrays)
    with open(os.path.join(folder, RESULT), "w", encoding="utf-8") as stream:
        json.dump(found, stream)
    sys.stderr.flush()
    # A runtime that crashes while it is taken down has answered everything.
    os._exit(0)


def attempt(
    about: dict[str, Any], side: dict[str, Any], arrays: dict[str, Any], begun: str
) -> dict[str, Any]:
    """Load and run the model; an error of the runtime is a result."""
    import numpy as np

    found: dict[str, Any] = {"status": results.OK, "stage": "start", "message": "", "runs": []}
    found["version"] = ""
    try:
        if side["family"] not in runtimes.RUNTIMES:
            raise runtimes.Unavailable("this side ran on a program of its own: " + side["runtime"])
        runtime: Any = runtimes.RUNTIMES[side["family"]]()
        with open(begun, "w", encoding="utf-8") as stream:
            stream.write(runtime.version)
        found.update(version=runtime.version, stage="load")
        with np.load(os.path.join(HERE, "inputs.npz"), allow_pickle=False) as stored:
            known = {r["name"]: results.read_value(r, stored) for r in about["inputs"]}
        runtime.load(os.path.join(HERE, side["model"]), side)
        found["stage"] = "run"
        feeds = {name: known[name] for name in side["inputs"]}
        found["runs"] = [
            [results.write_value(name, value, arrays) for name, value in run.items()]
            for run in repeated(runtime, feeds, side)
        ]
    except (runtimes.Unavailable, ImportError) as error:
        found.update(status=UNAVAILABLE, message=str(error))
    except Exception as error:
        found.update(status="error", message=type(error).__name__ + ": " + str(error))
    return found


def repeated(runtime: Any, feeds: dict[str, Any], side: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the first run brings and, where others differ, the one farthest from it."""
    first = dict(zip(side["outputs"], runtime.run(feeds, side["outputs"])))
    runs, farthest = [first], 0.0
    for _ in range(side["repeat"] - 1):
        other = dict(zip(side["outputs"], runtime.run(feeds, side["outputs"])))
        gaps = results.gaps(other, first)
        size = max((float("inf") if gap.problem else gap.size for gap in gaps), default=0.0)
        if size > farthest:
            runs, farthest = [first, other], size
    return runs


def say(text: str) -> None:
    """Print one line, with whatever a terminal would act on spelt out."""
    line = " ".join(text.split())
    print("".join(c if " " <= c <= "~" else "\\u%04x" % ord(c) for c in line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
