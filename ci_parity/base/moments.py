"""Moments in UTC: as records write them, and the day they fall on."""

from datetime import UTC, date, datetime


def utc_text(moment: datetime) -> str:
    """Return a moment with a time zone as RFC 3339 has it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_text_of(seconds: float) -> str:
    """Return seconds since the epoch in the same form."""
    return utc_text(datetime.fromtimestamp(seconds, UTC))


def utc_day(seconds: float) -> date:
    """Return the day that so many seconds since the epoch fall on."""
    return datetime.fromtimestamp(seconds, UTC).date()
