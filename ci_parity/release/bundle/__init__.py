"""A bundle: everything that gives a model its meaning, under one digest, packed and verified."""
