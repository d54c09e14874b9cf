"""What a comment remembers: the verdicts before its own, and nothing that somebody else wrote."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ci_parity.github.client import RestClient
from ci_parity.github.comment import publish_comment
from ci_parity.github.marker import REMEMBERED, Marker
from ci_parity.records.history import EarlierVerdict
from ci_parity.records.outcome import Outcome
from tests.support.github_server import GitHubServer
from tests.unit.github.publishing import marker, markers, publish, stored

OUTCOMES = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


def told(run: int, *, attempt: int = 1, outcome: Outcome = Outcome.PASS) -> EarlierVerdict:
    """Return what a run said."""
    return EarlierVerdict(run=run, attempt=attempt, page=run, sha="a" * 40, outcome=outcome)


def forged(change: Callable[[dict[str, Any]], object]) -> str:
    """Return a marker's line whose history somebody edited."""
    text = replace(marker(), history=(told(7), told(8))).line()
    fields = json.loads(text.removeprefix("<!-- ci-parity:v1 ").removesuffix(" -->"))
    change(fields)
    return f"<!-- ci-parity:v1 {json.dumps(fields)} -->"


def test_history_survives_the_way_back() -> None:
    """Outcomes, commits and pages come back as they were written."""
    past = tuple(told(run, outcome=outcome) for run, outcome in enumerate(OUTCOMES, 1))
    written = replace(marker(), history=past)
    assert Marker.parse(f"{written.line()}\nbody") == written


def test_runs_are_remembered_oldest_first(client: RestClient, server: GitHubServer) -> None:
    """Each text is given what was said before it; five verdicts are kept, this one's included."""
    seen = []

    def ladder(past: Any) -> list[str]:
        seen.append([one.run for one in past])
        return ["text"]

    for run in range(1, 8):
        publish_comment(client, "acme/models", 7, ladder, marker(run))
    assert seen[-1] == [3, 4, 5, 6]
    (found,) = markers(server)
    assert found is not None
    assert [one.run for one in found.told] == [3, 4, 5, 6, 7]
    assert len(found.history) == REMEMBERED


def test_a_run_that_writes_twice_is_remembered_once(
    client: RestClient, server: GitHubServer
) -> None:
    """Its second text replaces the first; another attempt of it has a verdict of its own."""
    publish(client, "before", run=9)
    publish(client, "one", run=10)
    publish(client, "two", run=10)
    publish(client, "again", run=10, attempt=2)
    (found,) = markers(server)
    assert found is not None
    assert [one.order for one in found.told] == [(9, 1), (10, 1), (10, 2)]


def test_an_older_run_does_not_enter_the_history(client: RestClient, server: GitHubServer) -> None:
    """What finishes last but started first changes nothing."""
    publish(client, "newer", run=11)
    publish(client, "older", run=10)
    assert markers(server) == [marker(11)]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.update(history="x"),
        lambda f: f.update(history=None),
        lambda f: f.update(history={"run": 1}),
        lambda f: f.update(history=[1, 2]),
        lambda f: f["history"][0].pop("sha"),
        lambda f: f["history"][0].update(extra=1),
        lambda f: f["history"][0].update(sha="](https://evil.example)"),
        lambda f: f["history"][0].update(sha="A" * 40),
        lambda f: f["history"][0].update(outcome="great"),
        lambda f: f["history"][0].update(run="7"),
        lambda f: f["history"][0].update(run=0),
        lambda f: f["history"][0].update(page=-3),
        lambda f: f["history"][0].update(page=10**30),
        lambda f: f["history"][0].update(run=True),
        lambda f: f["history"].reverse(),
        lambda f: f.update(history=[f["history"][0]] * 2),
        lambda f: f["history"][1].update(run=10),
        lambda f: f["history"][1].update(run=99),
        lambda f: f.update(history=[{**f["history"][0], "run": n} for n in range(1, 9)]),
    ],
)
def test_a_spoilt_history_is_dropped_and_nothing_else(change: Callable[[Any], object]) -> None:
    """Whoever may edit our comment can make it forget, not lie: the marker itself still counts."""
    assert Marker.parse(forged(change)) == marker()


def test_a_marker_that_does_not_end_is_not_read() -> None:
    """A line longer than any of ours is no marker, however it begins."""
    fields = stored(10, "").partition("{")[2].partition("}")[0]
    assert Marker.parse(f"<!-- ci-parity:v1 {{{fields}}}{' ' * 10_000} -->") is None
    assert Marker.parse(f"<!-- ci-parity:v1 {{{fields}}} -->") == marker()


def test_a_spoilt_history_does_not_stop_the_next_verdict(
    client: RestClient, server: GitHubServer
) -> None:
    """The comment is brought up to date and remembers from there on."""
    server.add_comment(f"{forged(lambda f: f.update(history=7))}\nbefore")
    publish(client, "now", run=11)
    (found,) = markers(server)
    assert found is not None
    assert [one.run for one in found.told] == [10, 11]


# Quiet


def quietly(client: RestClient, text: str, run: int) -> str:
    """Publish what is no news."""
    return publish_comment(
        client, "acme/models", 7, lambda _: [text], marker(run), create=False
    )  # fmt: skip


def test_no_news_begins_no_comment(client: RestClient, server: GitHubServer) -> None:
    """Where there is no comment there is none afterwards, and no address."""
    server.add_comment(stored(99, "of another", name="detector"))
    server.add_comment(stored(99, "forged"), writer="stranger-token")
    assert quietly(client, "unchanged", run=10) == ""
    assert server.count("POST") == server.count("PATCH") == 0


def test_no_news_still_replaces_what_is_there(client: RestClient, server: GitHubServer) -> None:
    """A red comment does not stay after the fix."""
    first = publish(client, "red", run=9)
    assert quietly(client, "green", run=10) == first
    assert [body.partition("\n")[2] for body in server.bodies()] == ["green"]
