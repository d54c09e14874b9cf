"""Going out and going back: a bundle's bytes, its line in the release log, the channel's pointer.

Always in this order, each step such that doing it again does nothing: what is killed anywhere is
run again and converges. Nothing goes out by a step that comes before its evidence.
"""
