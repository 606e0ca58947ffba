"""Tokens of OpenID Connect providers."""
