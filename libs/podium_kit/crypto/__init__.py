"""Key files and certificates of the platform's own authority."""
