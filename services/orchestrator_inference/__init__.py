"""OrchestratorService: builds prompts, asks a model engine and parses actions."""
