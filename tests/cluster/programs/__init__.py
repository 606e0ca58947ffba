"""What pods of a check run with the platform's own image."""
