"""What every layer stands on: errors, digests, canonical JSON, the subprocess door, progress."""
