"""The log of an episode's steps, from which every attempt continues."""
