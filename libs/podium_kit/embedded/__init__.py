"""Real servers from wheels, on loopback: for `podium up`, tests and benchmarks."""
