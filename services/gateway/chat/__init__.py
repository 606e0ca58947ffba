"""OpenAI's chat completions, served as episodes."""
