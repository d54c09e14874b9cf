"""What was proven, kept so that it can be proven again: bundle identity and the release log."""
