"""Versioned prices, and what quantities cost under them."""
