"""From ci-parity.yml, or from no config at all, to a frozen deployment."""

CONFIG_NAME = "ci-parity.yml"
