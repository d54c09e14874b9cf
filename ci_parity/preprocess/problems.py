"""Problems of a pipeline's file, gathered so that all of them are told at once."""

from ci_parity.base.errors import ConfigError


class Problems:
    """What is wrong with one file, by JSON path."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lines: list[str] = []

    def add(self, place: str, what: str) -> None:
        """Remember a problem at a JSON path."""
        self._lines.append(f"{place}: {what}")

    def end(self) -> None:
        """Raise a `ConfigError` with every problem, if there was any."""
        if self._lines:
            listed = "\n".join(f"  - {line}" for line in self._lines)
            raise ConfigError(
                f"the pipeline has no meaning as it is written\n{listed}",
                where=self._where,
                remedy="docs/preprocess.md shows every kind of pipeline",
            )
