"""What auditors ask: explanations, verification, signed daily roots, simulation."""
