import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ci_parity
from ci_parity.records.observation import RunStatus
from ci_parity.report.checks import CHECKS, FAMILIES, help_uri, meaning, title

PACKAGE = Path(ci_parity.__file__).parent
DOCS = PACKAGE.parent / "docs"
ID = re.compile(r"[a-z]+(\.[a-z_]+)+")
# Functions that make a finding of the name they are given first, and what they put before it.
MAKERS = {
    "contract_failure": "contract.", "decided": "decision.", "undecided": "decision.",
    "lost": "decision.", "Problem": "contract.", "_failure": "", "_open": "", "_warning": "",
    "still_open": "", "_failed": "", "_judged": "", "_finding": "", "Finding": "", "Foresight": "",
}  # fmt: skip


def ids_in(path: Path) -> Iterator[str]:
    """Yield the names of findings that a module writes as constants."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        prefix = MAKERS.get(ast.unparse(node.func).rpartition(".")[2])
        named = [k.value for k in node.keywords if k.arg in {"id", "kind"}]
        for value in (*named, *node.args[:1]) if prefix is not None else ():
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield f"{prefix}{value.value}"


@cache
def made() -> set[str]:
    """Return the names of all findings that the code makes by a constant name."""
    found = {one for path in PACKAGE.rglob("*.py") for one in ids_in(path)}
    statuses = {status.value for status in RunStatus} - {"ok"}
    of_runs = {f"{what}.{status}" for what in ("case", "load") for status in statuses}
    checks = {f"self.{name}" for name in ("repeat", "rows", "order", "padding", "threads")}
    return {one for one in found if ID.fullmatch(one)} | of_runs | checks


def test_the_search_finds_what_is_known_to_be_there() -> None:
    """Else the next test could not fail."""
    known = {
        "output.values", "contract.shape", "decision.top_k", "policy.loosened", "case.crash",
        "placement.share", "ledger.expired", "compared.nothing", "host.driver",
    }  # fmt: skip
    assert known <= made()
    assert len(made()) > 60


def test_every_finding_has_a_word() -> None:
    """A rule without a help text helps nobody."""
    assert {check for check in made() if check not in CHECKS} == set()


@pytest.mark.parametrize("check", [*CHECKS, "no.such", "case.next_year"])
def test_every_word_is_a_sentence_and_leads_to_a_page(check: str) -> None:
    """Checks that are not known yet are told by their family."""
    assert re.fullmatch(r"[A-Z].*[^.]\.", meaning(check))
    assert (DOCS / help_uri(check).rpartition("/")[2]).is_file()
    assert title(check)
    assert check.partition(".")[0] in FAMILIES or check == "no.such"
