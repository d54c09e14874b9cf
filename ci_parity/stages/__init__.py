"""The steps of the pipeline that join siblings: fixtures with runs, runs with judgement, and so on.

Siblings never import each other; what two of them do together stands here, one module a step, so
that `pipeline.py` stays the path itself.
"""
