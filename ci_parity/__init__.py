"""CI Parity: proof that a model still means the same thing after anything around it changed."""

__version__ = "0.1.0"
