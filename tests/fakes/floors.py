"""Noise floors for tests in which no policy is calibrated."""

from ci_parity.records.noise import NoiseFloors
from ci_parity.run.execute import Job


class NoFloors:
    """Has none: whoever asks is wrong."""

    def floors(self, baseline: Job | None, candidate: Job) -> NoiseFloors:
        """Refuse."""
        raise AssertionError(f"a floor was asked for, of {baseline} and {candidate}")
