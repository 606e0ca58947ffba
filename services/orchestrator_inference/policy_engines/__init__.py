"""Keeps an engine on KServe for each merged policy version that is wanted; a process of its own."""
