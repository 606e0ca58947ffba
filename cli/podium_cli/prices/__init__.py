"""Price lists as files and as text."""
