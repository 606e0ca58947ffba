"""Files in requests: read once, at the door (docs/adr/0045)."""
