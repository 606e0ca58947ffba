"""A gate of mutual TLS before a server that asks nobody who they are."""
