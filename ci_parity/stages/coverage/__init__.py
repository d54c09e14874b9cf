"""Operator coverage: node tests are run, judged and kept; what they say of a model is joined."""
