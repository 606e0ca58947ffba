"""Changes by the adapters: tools of followed MCP servers."""
