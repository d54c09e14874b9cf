"""The noise floor: a model whose every rounding is perturbed, and what its outputs do then."""
