"""What sandboxed code of an episode keeps between its calls: bytes, opened by no one here."""
