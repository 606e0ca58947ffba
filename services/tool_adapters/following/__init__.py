"""Following the lists of MCP servers, so that the registry knows their tools as they are now."""
