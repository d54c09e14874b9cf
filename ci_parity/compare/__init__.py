"""Judging: two observations become findings and numbers; nothing here runs a model."""
