"""A gate of mutual TLS before a server that does not authenticate its clients."""
