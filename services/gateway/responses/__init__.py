"""OpenAI's Responses, served as episodes."""
