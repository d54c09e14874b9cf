"""Preprocessing as data: from an application's raw input to the tensor, step by step."""
