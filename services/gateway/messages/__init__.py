"""Anthropic's Messages, served as episodes."""
