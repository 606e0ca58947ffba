"""OpenAI's embeddings: a model of a tool, called without an episode."""
