"""Naming the first node that went wrong: graphs taken apart, searched, and shrunk to a reproduction.

Nothing here runs a model or judges a number: `stages.localise` does, and hands in what it saw.
"""
