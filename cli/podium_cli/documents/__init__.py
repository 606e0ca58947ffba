"""Documents that people write, and files they upload."""
