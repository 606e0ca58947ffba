"""API keys: creation, rotation, revocation, last use."""
