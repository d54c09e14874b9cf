"""Running a model where production runs it: environments, workers, observations; no judgement."""
