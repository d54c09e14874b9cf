"""What changed: the identity of every variant on every target against a baseline's."""
