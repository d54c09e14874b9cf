"""A clock that tests turn by hand: waiting costs nothing and is remembered."""


class FakeClock:
    """Starts at `now` seconds since the epoch; each sleep moves it on."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self.sleeps: list[float] = []

    def time(self) -> float:
        """Return the time it was turned to."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move on at once."""
        self.sleeps.append(seconds)
        self.now += seconds
