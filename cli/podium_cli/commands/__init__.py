"""One module per command or group of commands."""
