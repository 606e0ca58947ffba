"""Actions: their grammar as a JSON Schema, and the parser of what a model wrote."""
