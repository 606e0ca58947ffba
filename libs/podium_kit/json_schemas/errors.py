class UnusableSchema(ValueError):
    """No value could be checked against it; the JSON path says where the fault is."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"at {path}: {problem}")
        self.path = path
        self.problem = problem
