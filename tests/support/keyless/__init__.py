"""A Sigstore of one's own on the loopback interface: a certificate authority, logs, a clock."""
