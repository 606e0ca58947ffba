"""Tools of kind llm."""
