"""Podium's libraries: one capability each, shared by services, command and training."""
