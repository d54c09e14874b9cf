"""Tests of generated node tests."""
