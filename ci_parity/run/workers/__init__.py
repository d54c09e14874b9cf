"""Workers, one file for each runtime, and `wire.py`, which all share: they run elsewhere."""
