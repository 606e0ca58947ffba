"""Files that come with episodes and direct calls (docs/adr/0045)."""
