import os
from pathlib import Path

import pytest
from filelock import FileLock

from ci_parity.cli import run
from ci_parity.run.installed import COMPLETE
from ci_parity.stages import caching
from ci_parity.stages.caching import KINDS, entries, prune, tidy

DAY = 86400.0
NOW = 1_700_000_000.0


def put(path: Path, age_days: float, text: str = "x") -> Path:
    """Write a file that is so many days old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (NOW - age_days * DAY,) * 2)
    return path


def environment(cache: Path, name: str, age_days: float) -> Path:
    """Write what an environment consists of, as far as the cache looks at it."""
    folder = cache / "environments" / name
    put(folder / "lib" / "runtime.so", 900, "r" * 1000)
    lock = "numpy==2.3.0 \\\n    --hash=sha256:00\nonnxruntime==1.32.0 \\\n    --hash=sha256:11\n"
    put(folder / COMPLETE, age_days, lock)
    return folder


def names(cache: Path) -> set[str]:
    """Return the paths of all entries."""
    return {str(entry.path.relative_to(cache)) for entry in entries(cache)}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache with something of every kind, ten days old, and one new environment."""
    environment(tmp_path, "old", 10)
    environment(tmp_path, "new", 1)
    for name in ("locks/a.txt", "images/b.json", "latency/c.json", "release-logs/d.checkpoint"):
        put(tmp_path / name, 10)
    for folder in ("noise/m/k", "observations/o/k", "coverage/made/bb/k"):
        put(tmp_path / folder / "record", 10)
        os.utime(tmp_path / folder, (NOW - 10 * DAY,) * 2)
    put(tmp_path / "environments" / "old.lock", 900)
    put(tmp_path / "observations" / "o" / ".half" / "record", 900)
    return tmp_path


def test_everything_is_listed_with_its_age_and_size(cache: Path) -> None:
    """An environment's age is that of its last use, its name that of its runtime."""
    found = {str(entry.path.relative_to(cache)): entry for entry in entries(cache)}
    assert set(found) == {
        "environments/old", "environments/new", "locks/a.txt", "images/b.json", "latency/c.json",
        "release-logs/d.checkpoint", "noise/m/k", "observations/o/k", "coverage/made/bb/k",
    }  # fmt: skip
    old = found["environments/old"]
    assert (old.label, old.used_s) == ("onnxruntime==1.32.0", NOW - 10 * DAY)
    assert old.size_bytes > 1000


def test_what_is_old_goes_and_what_was_seen_of_logs_stays(cache: Path) -> None:
    """However old: a state that was seen is evidence."""
    gone = prune(cache, before_s=NOW - 5 * DAY)
    assert len(gone) == 7
    assert names(cache) == {"environments/new", "release-logs/d.checkpoint"}
    assert not (cache / "environments" / "old").exists()


def test_a_dry_run_and_other_kinds_remove_nothing_else(cache: Path) -> None:
    """What would go is what goes."""
    before = names(cache)
    planned = prune(cache, before_s=NOW, kinds=["locks", "noise"], dry_run=True)
    assert names(cache) == before
    assert list(prune(cache, before_s=NOW, kinds=["locks", "noise"])) == list(planned)
    assert before - names(cache) == {"locks/a.txt", "noise/m/k"}


def test_an_environment_that_is_being_built_stays(cache: Path) -> None:
    """Its lock is held; the next prune takes it."""
    with FileLock(cache / "environments" / "old.lock"):
        prune(cache, before_s=NOW, kinds=["environments"])
        assert "environments/old" in names(cache)
    prune(cache, before_s=NOW, kinds=["environments"])
    assert "environments/old" not in names(cache)


@pytest.mark.parametrize("place", ["locks/link", "noise/link", "noise/m/link"])
def test_links_are_not_followed(cache: Path, tmp_path: Path, place: str) -> None:
    """What a link in the cache leads to is not the cache's."""
    outside = put(tmp_path / "outside" / "deep" / "file", 10)
    (cache / place).symlink_to(tmp_path / "outside")
    os.utime(cache / place, (NOW - 10 * DAY,) * 2, follow_symlinks=False)
    prune(cache, before_s=NOW)
    assert outside.exists()
    assert not (cache / place).is_symlink()


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows each time downloads are forgotten."""
    found: list[str] = []
    monkeypatch.setattr(caching, "forget_downloads", lambda: found.append("downloads"))
    return found


def test_a_month_later_what_nobody_used_goes(cache: Path, forgotten: list[str]) -> None:
    """With what it was built from; what runtimes resolved to and the states of logs stay."""
    assert {entry.kind for entry in tidy(cache, NOW + 25 * DAY)} == set(KINDS) - {"locks"}
    assert names(cache) == {"environments/new", "locks/a.txt", "release-logs/d.checkpoint"}
    assert forgotten == ["downloads"]


def test_it_is_looked_at_once_a_day(cache: Path, forgotten: list[str]) -> None:
    """Each run would otherwise look at every file of every environment."""
    put(cache / ".tidied", -24.5)
    assert tidy(cache, NOW + 25 * DAY) == ()
    assert "environments/old" in names(cache)
    assert len(tidy(cache, NOW + 26 * DAY)) > 1
    assert forgotten == ["downloads"]


def test_downloads_stay_with_all_environments(cache: Path, forgotten: list[str]) -> None:
    """They are what the next one is built from."""
    prune(cache, before_s=NOW, kinds=("environments",))
    assert tidy(cache, NOW + 25 * DAY) != ()
    assert forgotten == []


def test_a_cache_that_cannot_be_tidied_is_a_warning(
    cache: Path, forgotten: list[str], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A verdict does not depend on it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching, "write_atomic", full)
    assert tidy(cache, NOW + 25 * DAY) == ()
    assert "No space left on device" in caplog.text
    assert forgotten == []


def test_an_empty_cache_has_nothing(tmp_path: Path) -> None:
    """Nor has one that is not there."""
    assert list(entries(tmp_path / "none")) == []
    assert prune(tmp_path, before_s=NOW) == []


def test_the_command_shows_and_prunes(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums by kind, environments by their runtime; then all of it goes but the states seen."""
    monkeypatch.setenv("CI_PARITY_CACHE", str(cache))
    assert run(["cache", "show"]) == 0
    said = capsys.readouterr().out
    assert "onnxruntime==1.32.0" in said
    for kind in KINDS:
        assert kind in said
        assert run(["cache", "prune", "--older-than", "0", "--kind", kind, "--dry-run"]) == 0
    capsys.readouterr()
    assert run(["cache", "prune", "--older-than", "0", "--dry-run"]) == 0
    assert "8 things" in capsys.readouterr().out
    assert run(["cache", "prune", "--older-than", "0"]) == 0
    assert names(cache) == {"release-logs/d.checkpoint"}
