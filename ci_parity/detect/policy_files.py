"""What a policy rests on besides its own words: the bytes of labels, alphabets and judges.

Part of the policy axis. A judge counts with everything it imports from the repository. Nothing is
run and no label is read here; a file that is missing counts as such.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from ci_parity.base.canonical import canonical_bytes
from ci_parity.base.digest import sha256_file
from ci_parity.config.model import Deployment
from ci_parity.detect.scripts import find_scripts
from ci_parity.records.facts import ABSENT


def policy_text(deployment: Deployment) -> str:
    """Return the policy as an identity keeps it: canonical JSON, with the digests of its files.

    Raises:
        EvidenceError: a file cannot be read, or a judge imports more code than can be.
    """
    digests = dict(_digests(deployment))
    if not digests:
        return deployment.policy_json
    return canonical_bytes({**json.loads(deployment.policy_json), "files": digests}).decode()


def _digests(deployment: Deployment) -> Iterator[tuple[str, str]]:
    root = deployment.root
    for decision in deployment.policy.decisions.values():
        for path in decision.files:
            yield path.relative_to(root).as_posix(), _digest(path)
        if decision.judge is not None:
            script = decision.judge.script.relative_to(root).as_posix()
            for found in find_scripts(["python", script], root):
                yield found.path, found.digest or ABSENT


def _digest(path: Path) -> str:
    return sha256_file(path) if path.is_file() else ABSENT
