"""`ci-parity cache`: what is kept on this machine between runs, and removing what is old."""

import click

_EXAMPLES = """\b
Examples:
  ci-parity cache show
  ci-parity cache show --all
  ci-parity cache prune --older-than 30
  ci-parity cache prune --older-than 0 --kind environments --dry-run
"""
# Those of `stages.caching`, which is heavy to import.
_KINDS = ("coverage", "environments", "images", "latency", "locks", "noise", "observations")
_DAY_S = 86400
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Show and prune what is kept between runs: environments, noise, observations, node tests.

    It lies in CI_PARITY_CACHE, else in the platform's cache folder. All of it is made again when it
    is needed; the states of release logs that `log verify` saw are evidence and never pruned.
    """


@command.command(epilog=_EXAMPLES)
@click.option("--all", "whole", is_flag=True, help="Each thing, not only sums by kind.")
def show(*, whole: bool) -> int:
    """List what the cache holds, with its size and when it was last used."""
    import time

    from ci_parity.run.environments import cache_folder
    from ci_parity.stages.caching import entries

    cache = cache_folder()
    found = list(entries(cache))
    now = time.time()
    click.echo(f"{cache}: {_bytes(sum(entry.size_bytes for entry in found))}")
    for kind in sorted({entry.kind for entry in found}):
        group = [entry for entry in found if entry.kind == kind]
        size = sum(entry.size_bytes for entry in group)
        last = _age(now - max(entry.used_s for entry in group))
        click.echo(f"  {kind:<14} {len(group):>5}  {_bytes(size):>10}  last used {last} ago")
        if whole or kind == "environments":
            for entry in sorted(group, key=lambda entry: -entry.used_s):
                name = entry.label or str(entry.path.relative_to(cache / kind))
                age = _age(now - entry.used_s)
                click.echo(f"    {name[:60]:<60} {_bytes(entry.size_bytes):>10}  {age} ago")
    return 0


@command.command(epilog=_EXAMPLES)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    required=True,
    metavar="DAYS",
    help="Days since it was last used; 0 for everything.",
)
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Only this kind; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def prune(older_than: float, kinds: tuple[str, ...], *, dry_run: bool) -> int:
    """Remove what was not used for some days; not while a check runs on this machine."""
    import time

    from ci_parity.run.environments import cache_folder
    from ci_parity.stages import caching

    gone = caching.prune(
        cache_folder(),
        before_s=time.time() - older_than * _DAY_S,
        kinds=kinds or _KINDS,
        dry_run=dry_run,
    )
    size = _bytes(sum(entry.size_bytes for entry in gone))
    click.echo(f"{len(gone)} things, {size}, {'would be removed' if dry_run else 'removed'}")
    return 0


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def _age(seconds: float) -> str:
    if seconds < 2 * 3600:
        return f"{max(0, seconds) / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.0f} days"
