"""Reports: pure functions from a verdict to text. They decide nothing and read nothing else."""
