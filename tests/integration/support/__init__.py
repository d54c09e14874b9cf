"""What the integration tests stand on: a Docker daemon, a base image, act, published models."""
