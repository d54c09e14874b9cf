"""The script that a reproduction is handed over with: files that run elsewhere, without us."""
