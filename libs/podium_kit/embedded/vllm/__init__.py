"""vLLM on the CPU, in an environment of its own."""
