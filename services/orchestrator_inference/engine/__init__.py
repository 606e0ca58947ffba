"""Model engines: OpenAI-compatible HTTP, replicas and merged versions."""
