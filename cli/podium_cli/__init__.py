"""The `podium` command."""
