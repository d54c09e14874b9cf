"""Operator coverage: signatures of nodes, tests for them, and the matrix that both give."""
