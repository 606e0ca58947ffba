"""Episodes and trajectories as a terminal shows them."""
