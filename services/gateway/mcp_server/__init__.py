"""The platform as a Model Context Protocol server."""
