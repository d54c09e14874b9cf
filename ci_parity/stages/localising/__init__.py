"""Step 3d: the first node that went wrong, for boundaries that failed."""
