"""What this machine can do for a deployment, asked of the machine itself."""
