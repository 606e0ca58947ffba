"""The REST API: one table of routes, transcoded to RPCs."""
