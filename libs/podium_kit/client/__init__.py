"""The platform's public API, for the command and for training."""
