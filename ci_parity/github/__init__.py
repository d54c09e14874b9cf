"""Where a verdict meets GitHub: the run's context, the workflow's side channel, the comment.

Nothing here judges. What arrives from GitHub (event payloads, replies, other people's comments) is
untrusted; a delivery that fails is a `PublishError` and never changes the verdict.
"""
