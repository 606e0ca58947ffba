"""Group relative policy optimisation on recorded episodes (paper, section 3.3)."""
