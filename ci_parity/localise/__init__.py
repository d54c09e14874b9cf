"""Naming the first node that went wrong: graphs taken apart, searched and shrunk.

Nothing here runs a model or judges a number: `stages.localising` does, and hands in what it saw.
"""
