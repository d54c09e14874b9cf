"""A run spread over several machines: legs that run and keep, a gate that judges what arrives."""
