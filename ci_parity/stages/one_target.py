"""A deployment cut down to one of its targets, for the machine that is that target."""

import difflib
from dataclasses import replace

from ci_parity.base.errors import ConfigError
from ci_parity.config.model import Deployment


def only_target(deployment: Deployment, name: str) -> Deployment:
    """Return the deployment with one target alone; it is then the reference target, too.

    Raises:
        ConfigError: it has no such target.
    """
    chosen = tuple(target for target in deployment.targets if target.name == name)
    if not chosen:
        known = [target.name for target in deployment.targets]
        close = difflib.get_close_matches(name, known, n=1)
        raise ConfigError(
            f"there is no target {name!r}",
            where=f"{deployment.origin}: $.targets",
            remedy=f"did you mean {close[0]!r}?" if close else f"defined: {', '.join(known)}",
        )
    asked = {target: rule for target, rule in deployment.policy.placement.items() if target == name}
    return replace(deployment, targets=chosen, policy=replace(deployment.policy, placement=asked))
