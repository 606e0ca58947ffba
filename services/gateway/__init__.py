"""The public HTTP API: keys, OpenAI-compatible chat, REST for the rest, the console."""
